#include "weft/llm/quantise/calibration.h"

#include <algorithm>

#include "weft/base/error.h"
#include "weft/base/index.h"
#include "weft/base/thread_pool.h"
#include "weft/kernel/gemm/matmul.h"
#include "weft/world/world.h"

namespace weft {
namespace {

constexpr std::int64_t kCalibrationRows = 1024;  // of a forward, more or less

EngineOptions calibration_engine(const ModelConfig& config, std::span<const TokenWindow> windows) {
  if (windows.empty()) bad_input("no windows to calibrate on; give a longer text");
  const std::int64_t length = std::ssize(windows[0]);
  return eval_engine(config, length, length, kCalibrationRows);
}

}  // namespace

Calibration::Calibration(World& world, const ModelSource& source, std::span<const TokenWindow> windows)
    : world_(world),
      model_(source, 0, 1),
      engine_(world, model_, calibration_engine(source.config, windows)),
      windows_(windows.begin(), windows.end()) {
  for (const TokenWindow window : windows_)
    if (window.size() != windows_[0].size())
      bad_input("windows of {} and {} tokens; calibrate on windows of one length", windows_[0].size(), window.size());
}

Calibration::~Calibration() = default;

const Compensation& Calibration::of(std::int64_t block, BlockPart part) {
  if (block < next_ - 1 || block >= model_.config().blocks)
    bad_input("block {} of {} after block {}; calibrate blocks in order", block, model_.config().blocks, next_ - 1);
  while (next_ <= block) go_through(next_++);
  const Input input = part == BlockPart::o                               ? Input::heads
                      : part == BlockPart::down                          ? Input::activated
                      : part == BlockPart::gate || part == BlockPart::up ? Input::feed_forward
                                                                         : Input::attention;
  std::unique_ptr<Compensation>& made = made_[at(input)];
  if (made == nullptr) {
    std::vector<float>& sums = sums_[at(input)];
    const std::int64_t k = part == BlockPart::o      ? model_.block(block).o.cols
                           : part == BlockPart::down ? model_.block(block).down.cols
                                                     : model_.config().hidden;
    made = std::make_unique<Compensation>(k, sums);
  }
  return *made;
}

// All windows through one block.
void Calibration::go_through(std::int64_t block) {
  for (auto& sums : sums_) sums.clear();
  for (auto& made : made_) made.reset();
  const BlockWeights& w = model_.block(block);
  engine_.watch_products([&](const Weight& weight, const float* x, std::int64_t rows, std::int64_t ld) {
    if (&weight == &w.q) add(Input::attention, x, rows, weight.cols, ld);
    if (&weight == &w.o) add(Input::heads, x, rows, weight.cols, ld);
    if (&weight == &w.up) add(Input::feed_forward, x, rows, weight.cols, ld);
    if (&weight == &w.down) add(Input::activated, x, rows, weight.cols, ld);
  });
  const std::int64_t per_window = std::ssize(windows_[0]) * model_.config().hidden;
  if (rows_.empty()) rows_.resize(num(per_window * std::ssize(windows_)));
  const std::int64_t batch = engine_.options().sequences;
  for (std::int64_t first = 0; first < std::ssize(windows_); first += batch) {
    const std::int64_t count = std::min(batch, std::ssize(windows_) - first);
    std::vector<Feed> feeds;
    for (std::int64_t i = 0; i < count; ++i) {
      feeds.push_back({static_cast<int>(i), windows_[at(first + i)]});
      engine_.clear(static_cast<int>(i));
    }
    float* rows = rows_.data() + first * per_window;
    const std::span<const float> entering{rows, num(count * per_window)};
    engine_.forward_blocks(block, block + 1, feeds, block == 0 ? std::span<const float>{} : entering);
    const std::span<const float> leaving = engine_.residual();
    std::copy(leaving.begin(), leaving.end(), rows);
  }
  engine_.watch_products({});
}

// sums += x^T x, as a product of x^T with itself.
void Calibration::add(Input input, const float* x, std::int64_t rows, std::int64_t cols, std::int64_t ld) {
  std::vector<float> turned(num(rows * cols)), product(num(cols * cols));
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t c = 0; c < cols; ++c) turned[at(c * rows + r)] = x[r * ld + c];
  matmul(world_.threads(), cols, {.n = cols, .k = rows, .w = turned.data()}, turned.data(), rows, product.data(), cols);
  std::vector<float>& sums = sums_[at(input)];
  sums.resize(product.size());
  for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += product[i];
}

}  // namespace weft
