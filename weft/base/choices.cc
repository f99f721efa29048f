#include "weft/base/choices.h"

#include "weft/base/names.h"

namespace weft {
namespace {

constexpr Names<Activation, 5> kActivations{{{Activation::none, "none"},
                                             {Activation::relu, "relu"},
                                             {Activation::gelu, "gelu"},
                                             {Activation::silu, "silu"},
                                             {Activation::gelu_erf, "gelu_erf"}}};
constexpr Names<Pooling, 2> kPoolings{{{Pooling::sum, "sum"}, {Pooling::mean, "mean"}}};

}  // namespace

std::string_view to_string(Activation activation) { return name_of(kActivations, activation); }
std::string_view to_string(Pooling pooling) { return name_of(kPoolings, pooling); }
Activation parse_activation(std::string_view name) { return parse_name(kActivations, "activation", name); }
Pooling parse_pooling(std::string_view name) { return parse_name(kPoolings, "pooling", name); }

}  // namespace weft
