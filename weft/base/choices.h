// Small closed sets of choices that plans, kernels, CLI and JSON name alike.
#pragma once

#include <string_view>

namespace weft {

enum class Activation {
  none,
  relu,      // max(x, 0)
  gelu,      // the tanh form: x/2 * (1 + tanh(sqrt(2/pi) * (x + 0.044715 x^3)))
  silu,      // x / (1 + exp(-x))
  gelu_erf,  // the exact form: x/2 * (1 + erf(x / sqrt(2)))
};
enum class Pooling { sum, mean };  // mean divides the sum by the number of indices in the bag

std::string_view to_string(Activation activation);
std::string_view to_string(Pooling pooling);
Activation parse_activation(std::string_view name);  // throws bad_input listing the choices
Pooling parse_pooling(std::string_view name);

}  // namespace weft
