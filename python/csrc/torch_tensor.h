// What the ops need of torch, through its stable ABI alone (2.11): f32 matrices as views of memory, and torch's own
// product. Views are made from pointers, so they carry no gradient and torch's out= calls take them.
#pragma once

#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>

#include <cstdint>
#include <optional>
#include <vector>

namespace weft::torch_ops {

using torch::stable::Tensor;
using Sizes = std::vector<std::int64_t>;

// Row-major, or as the strides say. Owns nothing.
Tensor view_of(const void* data, const Sizes& sizes, const Sizes& strides);
Tensor matrix_at(const void* data, std::int64_t rows, std::int64_t cols);

Tensor new_tensor(const Sizes& sizes);
// Zeros. A large one is fresh huge pages, which the kernel gives as zeros when they are first touched: a page fault of 4
// KB takes 2 us on a virtual machine, so that the gradient of a table of 51 MB would cost 29 ms before anything is added.
Tensor new_zeros(const Sizes& sizes);
Sizes sizes_of(const Tensor& tensor);
Sizes row_major(const Sizes& sizes);  // strides

// x (m, k) times w (n, k) transposed, into out (m, n): torch's own product, by its own threads.
void product_into(Tensor out, const Tensor& x, const Tensor& w);

// Refuse what is not an f32 tensor on the CPU; dense() copies where rows are not one behind the other.
void require_f32(const Tensor& tensor, const char* name, const char* op);
Tensor dense(const Tensor& tensor);

}  // namespace weft::torch_ops
