#include "weft/study/device/cuda_tracked.h"

#include <algorithm>

#include "weft/base/index.h"

namespace weft {

CudaTracked::CudaTracked(const OpSpec& spec, const DeviceInputs& inputs, int panels)
    : n_(spec.producer.n),
      row_bytes_(spec.producer.k * 2),
      operands_(inputs.operands()),
      rows_(fused_plan(spec, Route::direct), {.panels = panels}) {
  for (int r = 0; r < spec.ranks; ++r)
    for (const RowPanel& panel : rows_.panels(r)) {
      const auto [gemm, added] = gemms_.try_emplace(panel.rows, panel.rows, n_, spec.producer.k, WeightLayout::nk);
      if (added) gemm->second.tune(operands_[0].x, operands_[0].w, rows_.rows(0));
    }
}

// A panel of each rank in turn, as ranks with a GPU each would make them.
void CudaTracked::run() {
  std::size_t most = 0;
  for (int r = 0; r < int_size(operands_); ++r) most = std::max(most, rows_.panels(r).size());
  for (std::size_t i = 0; i < most; ++i)
    for (int r = 0; r < int_size(operands_); ++r) {
      if (i >= rows_.panels(r).size()) continue;
      const RowPanel& panel = rows_.panels(r)[i];
      const auto* x = static_cast<const std::byte*>(operands_[at(r)].x) + panel.row * row_bytes_;
      gemms_.at(panel.rows).run(x, operands_[at(r)].w, rows_.rows(r) + panel.row * n_ * 2);
      rows_.made(r, static_cast<int>(i), device_queue());
    }
  rows_.join(device_queue());
}

Places CudaTracked::places() const {
  return [this](int rank, std::int64_t row, std::int64_t col) { return rows_.output(rank) + (row * n_ + col) * 2; };
}

}  // namespace weft
