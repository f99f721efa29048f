#include "python/csrc/torch_tensor.h"

#include <array>
#include <cstdint>
#include <cstring>
#include <utility>

#include "weft/base/error.h"
#include "weft/base/index.h"
#include "weft/base/pages.h"
#include "weft/transport/local/memory.h"

namespace weft::torch_ops {
namespace {

using torch::headeronly::ScalarType;
using torch::stable::detail::from;
using torch::stable::detail::to;

const torch::stable::Device kCpu(torch::headeronly::DeviceType::CPU);

}  // namespace

Tensor view_of(const void* data, const Sizes& sizes, const Sizes& strides) {
  return torch::stable::from_blob(const_cast<void*>(data), sizes, strides, kCpu, ScalarType::Float);
}

Tensor matrix_at(const void* data, std::int64_t rows, std::int64_t cols) {
  return view_of(data, {rows, cols}, {cols, 1});
}

Tensor new_tensor(const Sizes& sizes) { return torch::stable::empty(sizes, ScalarType::Float); }

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
  const Tensor turned = view_of(w.data_ptr(), {w.size(1), w.size(0)}, {w.stride(1), w.stride(0)});
  const Tensor rows = view_of(x.data_ptr(), {x.size(0), x.size(1)}, {x.stride(0), x.stride(1)});
  std::array<StableIValue, 3> stack{from(rows), from(turned), from(out)};
  STABLE_TORCH_ERROR_CODE_CHECK(torch_call_dispatcher("aten::mm", "out", stack.data(), TORCH_ABI_VERSION));
  to<Tensor>(stack[0]);  // the same tensor once more, which is to be let go
}

void require_f32(const Tensor& tensor, const char* name, const char* op) {
  if (!tensor.is_cpu()) bad_input("weft.{}: {} is not on the CPU, where this build of Weft computes", op, name);
  if (tensor.scalar_type() != ScalarType::Float)
    bad_input("weft.{}: {} has elements of {} bytes that are not float32; convert it with {}.float()", op, name,
              tensor.element_size(), name);
}

Tensor dense(const Tensor& tensor) { return tensor.is_contiguous() ? tensor : torch::stable::contiguous(tensor); }

}  // namespace weft::torch_ops
