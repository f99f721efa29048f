// The style `panels`: the product in panels of rows, each summed over the ranks by collectives that do not block
// (weft/world/split_sum.h), so that a panel travels while the next is made. weft/study/panels.h has it for single ops.
#include <algorithm>
#include <array>
#include <vector>

#include "weft/base/error.h"
#include "weft/base/index.h"
#include "weft/kernel/gemm/matmul.h"
#include "weft/llm/engine/parallel_rows.h"
#include "weft/llm/engine/reduction.h"
#include "weft/world/split_sum.h"
#include "weft/world/world.h"

namespace weft {
namespace {

class PanelledProduct final : public ReducedProduct {
 public:
  PanelledProduct(World& world, const ReductionShape& shape, const ReductionOptions& options)
      : shape_(shape), threads_(*options.threads), ranks_(world.size()) {
    const std::int64_t most = std::max<std::int64_t>(1, shape.rows / ranks_);
    const std::int64_t count = std::clamp<std::int64_t>(options.panels, 1, most);
    panel_rows_ = (shape.rows + count * ranks_ - 1) / (count * ranks_) * ranks_;
    const Mesh mesh = world.mesh({{"tp", ranks_}});
    for (std::int64_t at = 0; at < shape.rows; at += panel_rows_) {
      auto& step = steps_.emplace_back();
      step.made.resize(num(panel_rows_ * shape.n));
      step.sum = std::make_unique<SplitSum>(world, all_reduce(mesh, "tp"), panel_rows_, shape.n);
    }
    for (auto& copy : y_) copy.resize(num(shape.rows * shape.n));
  }

  // Fewer rows take fewer panels, the last one sent whole.
  const float* run(const ReductionInputs& in, std::int64_t rows) override {
    const auto used = num((rows + panel_rows_ - 1) / panel_rows_);
    for (std::size_t p = 0; p < used; ++p) {
      make(in, static_cast<std::int64_t>(p) * panel_rows_, rows, steps_[p]);
      steps_[p].sum->start(steps_[p].made.data());
      if (p > 0) steps_[p - 1].sum->add_up();
      for (std::size_t before = 0; before < p; ++before) steps_[before].sum->poll();
    }
    if (used > 0) steps_[used - 1].sum->add_up();
    float* y = y_[turn_ ^= 1].data();
    for (std::size_t p = 0; p < used; ++p) {
      const std::int64_t begin = static_cast<std::int64_t>(p) * panel_rows_;
      const std::int64_t count = std::min(panel_rows_, rows - begin) * shape_.n;
      std::copy_n(steps_[p].sum->output().data, count, y + begin * shape_.n);
    }
    finish_rows(threads_, rows, shape_.n, in.bias, in.residual, y);
    return y;
  }

  std::int64_t bytes_sent() const override {
    std::int64_t bytes = 0;
    for (const Step& step : steps_) bytes += step.sum->bytes_sent();
    return bytes;
  }

 private:
  struct Step {
    std::vector<float> made;  // (panel_rows, n)
    std::unique_ptr<SplitSum> sum;
  };

  void make(const ReductionInputs& in, std::int64_t begin, std::int64_t rows, Step& step) const {
    const std::int64_t count = std::min(panel_rows_, rows - begin);
    matmul(threads_, count, linear_of(shape_, in.w), in.x + begin * shape_.k, shape_.k, step.made.data(), shape_.n);
    if (shape_.addend) add_rows(threads_, count, shape_.n, in.addend + begin * shape_.n, step.made.data());
  }

  ReductionShape shape_;
  ThreadPool& threads_;
  int ranks_;
  std::int64_t panel_rows_ = 0;
  std::vector<Step> steps_;
  std::array<std::vector<float>, 2> y_;
  std::size_t turn_ = 0;
};

}  // namespace

std::unique_ptr<ReducedProduct> make_panel_reduction(World& world, const ReductionShape& shape,
                                                     const ReductionOptions& options) {
  if (shape.wire != BlockWire::f32)
    bad_input("sync panels sends sums as f32 alone; use sync fused or sequential for blocks of mode {}",
              to_string(BlockMode{shape.addend, shape.wire}));
  return std::make_unique<PanelledProduct>(world, shape, options);
}

}  // namespace weft
