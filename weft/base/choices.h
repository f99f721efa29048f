// Small closed sets of choices that plans, kernels, CLI and JSON name alike.
#pragma once

#include <string_view>

namespace weft {

enum class Activation { none, relu, gelu, silu };  // gelu in its tanh form
enum class Pooling { sum, mean };

std::string_view to_string(Activation activation);
std::string_view to_string(Pooling pooling);
Activation parse_activation(std::string_view name);  // throws bad_input listing the choices
Pooling parse_pooling(std::string_view name);

}  // namespace weft
