#include "weft/kernel/epilogue.h"

#include "weft/base/error.h"
#include "weft/kernel/variant.h"

namespace weft {

std::string_view to_string(Activation activation) {
  switch (activation) {
    case Activation::none:
      return "none";
    case Activation::relu:
      return "relu";
    case Activation::gelu:
      return "gelu";
    case Activation::silu:
      return "silu";
  }
  return "unknown";
}

Activation parse_activation(std::string_view name) {
  for (Activation activation : {Activation::none, Activation::relu, Activation::gelu, Activation::silu})
    if (name == to_string(activation)) return activation;
  bad_input("\"{}\" is not an activation; use none, relu, gelu or silu", name);
}

void apply(std::int64_t rows, std::int64_t cols, const Epilogue& epilogue, float* tile, std::int64_t ld) {
  variant().apply(rows, cols, epilogue, tile, ld);
}

}  // namespace weft
