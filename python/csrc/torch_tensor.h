// What the ops need of torch, through its stable ABI alone (2.11): f32 and bf16 matrices as views of memory, and
// torch's own product. Views are made from pointers, so they carry no gradient and torch's out= calls take them.
#pragma once

#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "weft/base/dtype.h"

namespace weft::torch_ops {

using torch::stable::Tensor;
using Sizes = std::vector<std::int64_t>;

// Row-major, or as the strides say, f32 or bf16. Owns nothing.
Tensor view_of(const void* data, const Sizes& sizes, const Sizes& strides, Dtype type = Dtype::f32);
Tensor matrix_at(const void* data, std::int64_t rows, std::int64_t cols, Dtype type = Dtype::f32);

Tensor new_tensor(const Sizes& sizes, Dtype type = Dtype::f32);
// Zeros. A large one is fresh huge pages, which the kernel gives as zeros when they are first touched: a page fault of 4
// KB takes 2 us on a virtual machine, so that the gradient of a table of 51 MB would cost 29 ms before anything is added.
Tensor new_zeros(const Sizes& sizes);
Sizes sizes_of(const Tensor& tensor);
Sizes row_major(const Sizes& sizes);  // strides

// x (m, k) times w (n, k) transposed, into out (m, n): torch's own product, by its own threads.
void product_into(Tensor out, const Tensor& x, const Tensor& w);

// f32 or bf16; refuses all other tensors. Where they are is not asked: torch calls the kernel of a GPU where one is.
Dtype type_of(const Tensor& tensor, const char* name, const char* op);
// Refuses what is not of that type.
void require_type(const Tensor& tensor, Dtype type, const char* name, const char* op);
void require_f32(const Tensor& tensor, const char* name, const char* op);
// A copy where rows are not one behind the other.
Tensor dense(const Tensor& tensor);
// Dense, in f32: a copy where it is neither.
Tensor widened(const Tensor& tensor);

}  // namespace weft::torch_ops
