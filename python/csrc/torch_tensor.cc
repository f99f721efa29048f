#include "python/csrc/torch_tensor.h"

#include <array>
#include <cstdint>
#include <cstring>
#include <utility>

#include "weft/base/error.h"
#include "weft/base/index.h"
#include "weft/base/pages.h"
#include "weft/kernel/rows/sum.h"
#include "weft/transport/local/memory.h"

namespace weft::torch_ops {
namespace {

using torch::headeronly::ScalarType;
using torch::stable::detail::from;
using torch::stable::detail::to;

const torch::stable::Device kCpu(torch::headeronly::DeviceType::CPU);

ScalarType scalar_type_of(Dtype type) { return type == Dtype::bf16 ? ScalarType::BFloat16 : ScalarType::Float; }
const char* torch_name_of(Dtype type) { return type == Dtype::bf16 ? "bfloat16" : "float32"; }

}  // namespace

Tensor view_of(const void* data, const Sizes& sizes, const Sizes& strides, Dtype type) {
  return torch::stable::from_blob(const_cast<void*>(data), sizes, strides, kCpu, scalar_type_of(type));
}

Tensor matrix_at(const void* data, std::int64_t rows, std::int64_t cols, Dtype type) {
  return view_of(data, {rows, cols}, {cols, 1}, type);
}

Tensor new_tensor(const Sizes& sizes, Dtype type) { return torch::stable::empty(sizes, scalar_type_of(type)); }

Tensor new_zeros(const Sizes& sizes) {
  constexpr std::size_t kHuge = std::size_t{2} << 20;  // a huge page
  std::size_t bytes = sizeof(float);
  for (const std::int64_t size : sizes) bytes *= num(size);
  if (bytes < 2 * kHuge) {
    Tensor small = new_tensor(sizes);
    if (bytes > 0) std::memset(small.data_ptr(), 0, bytes);
    return small;
  }
  auto pages = reserve(bytes + 2 * kHuge);  // room to begin and end at a huge page
  const auto first = (reinterpret_cast<std::uintptr_t>(pages.get()) + kHuge - 1) / kHuge * kHuge;
  void* const begin = reinterpret_cast<void*>(first);
  ask_for_huge_pages(begin, (bytes + kHuge - 1) / kHuge * kHuge);
  return torch::stable::from_blob(begin, sizes, row_major(sizes), kCpu, ScalarType::Float,
                                  [pages = std::move(pages)](void*) mutable { pages.reset(); });
}

Sizes row_major(const Sizes& sizes) {
  Sizes strides(sizes.size(), 1);
  for (std::size_t d = sizes.size(); d-- > 1;) strides[d - 1] = strides[d] * sizes[d];
  return strides;
}

Sizes sizes_of(const Tensor& tensor) {
  const auto sizes = tensor.sizes();
  return {sizes.begin(), sizes.end()};
}

void product_into(Tensor out, const Tensor& x, const Tensor& w) {
  const Dtype type = x.scalar_type() == ScalarType::BFloat16 ? Dtype::bf16 : Dtype::f32;
  const Tensor turned = view_of(w.data_ptr(), {w.size(1), w.size(0)}, {w.stride(1), w.stride(0)}, type);
  const Tensor rows = view_of(x.data_ptr(), {x.size(0), x.size(1)}, {x.stride(0), x.stride(1)}, type);
  std::array<StableIValue, 3> stack{from(rows), from(turned), from(out)};
  STABLE_TORCH_ERROR_CODE_CHECK(torch_call_dispatcher("aten::mm", "out", stack.data(), TORCH_ABI_VERSION));
  to<Tensor>(stack[0]);  // the same tensor once more, which is to be let go
}

Dtype type_of(const Tensor& tensor, const char* name, const char* op) {
  if (tensor.scalar_type() == ScalarType::BFloat16) return Dtype::bf16;
  if (tensor.scalar_type() != ScalarType::Float)
    bad_input("weft.{}: {} has elements of {} bytes that are not float32 or bfloat16; convert it with {}.float()", op,
              name, tensor.element_size(), name);
  return Dtype::f32;
}

void require_type(const Tensor& tensor, Dtype type, const char* name, const char* op) {
  if (tensor.scalar_type() != scalar_type_of(type))
    bad_input("weft.{}: {} has elements of {} bytes that are not {}; convert it with {}.{}()", op, name,
              tensor.element_size(), torch_name_of(type), name, type == Dtype::bf16 ? "bfloat16" : "float");
}

void require_f32(const Tensor& tensor, const char* name, const char* op) { require_type(tensor, Dtype::f32, name, op); }

Tensor dense(const Tensor& tensor) { return tensor.is_contiguous() ? tensor : torch::stable::contiguous(tensor); }

Tensor widened(const Tensor& tensor) {
  const Tensor rows = dense(tensor);
  if (rows.scalar_type() != ScalarType::BFloat16) return rows;
  const Tensor wide = new_tensor(sizes_of(rows));
  copy(1, rows.numel(), {rows.data_ptr(), rows.numel(), Dtype::bf16}, {wide.data_ptr(), rows.numel(), Dtype::f32});
  return wide;
}

}  // namespace weft::torch_ops
