// What all ops ask of their tensors before anything is compiled, on CPUs and on GPUs. Each refusal is a sentence that
// names the op, the value and the remedy.
#pragma once

#include <cstdint>
#include <optional>

#include "python/csrc/product.h"
#include "python/csrc/torch_tensor.h"

namespace weft::torch_ops {

std::int64_t rows_of(const Tensor& x);  // all dimensions but the last

void check_rows(Call call, const Tensor& x, std::int64_t ranks);
void check_linear(Call call, const Tensor& x, const Tensor& w, const std::optional<Tensor>& bias);
void check_exchanged(Call call, const Tensor& x);

// Of a linear op, checked.
Shape linear_shape(Call call, const Tensor& x, const Tensor& w, const std::optional<Tensor>& bias, std::int64_t ranks);

// What linear ops with an epilogue are asked for beside that.
struct Finish {
  std::optional<Tensor> residual;
  std::string activation, wire;
};
Shape finished_shape(Call call, const Tensor& x, const Tensor& w, const std::optional<Tensor>& bias,
                     const Finish& finish, std::int64_t ranks);

// Of what the op gives for x.
Sizes output_sizes(const Shape& shape, const Tensor& x, std::int64_t ranks);

}  // namespace weft::torch_ops
