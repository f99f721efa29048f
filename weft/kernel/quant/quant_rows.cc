#include "weft/kernel/quant/quant_rows.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <memory>

#include "weft/base/error.h"
#include "weft/base/index.h"
#include "weft/base/quant/blocks.h"
#include "weft/base/thread_pool.h"
#include "weft/kernel/quant/variant.h"

namespace weft {
namespace {

// Rows of x up to which w is read in one go, each thread its own stretch; beyond, threads take tiles of rows of w that
// stay in the second-level cache while all rows of x pass by, four of them in the first. With kPanelFrom rows it pays
// to unpack a tile into a panel.
constexpr std::int64_t kOnePass = 4, kTileRows = 64, kPanelFrom = 16;
constexpr std::int64_t kWorthThreads = 1 << 15;  // values to round; waking a thread takes as long as rounding these

QuantWeight checked_blocks(std::int64_t m, QuantWeight w, std::int64_t ldx, std::int64_t ldy) {
  if (!is_blocked(w.dtype))
    bad_input("the weights of a product in blocks are {}; use q8_0, q4_0, q4_k or q6_k", to_string(w.dtype));
  const std::int64_t values = block_shape(w.dtype).values;
  if (m < 0 || w.rows < 0 || w.cols < 0)
    bad_input("a product of {} x {} with k = {}: sizes must be at least 0", m, w.rows, w.cols);
  if (w.first < 0 || w.first >= values || w.ld % values != 0 || w.first + w.cols > w.ld)
    bad_input(
        "columns {} to {} of rows of {} in {} blocks of {}: the first lies in the first block, and rows are whole",
        w.first, w.first + w.cols, w.ld, to_string(w.dtype), values);
  if (ldx < w.cols || ldy < w.rows)
    bad_input("rows are {} and {} elements apart in x and y, but {} and {} long", ldx, ldy, w.cols, w.rows);
  return w;
}

// A thread's bytes: kept between calls.
class KeptMemory {
 public:
  std::byte* room_for(std::size_t bytes) {
    if (bytes > size_) {
      memory_.reset(std::aligned_alloc(64, (bytes + 63) / 64 * 64));
      size_ = memory_ == nullptr ? 0 : bytes;
      if (memory_ == nullptr) fail(Code::no_memory, "no memory for {} bytes of a product in blocks", bytes);
    }
    return static_cast<std::byte*>(memory_.get());
  }

 private:
  std::unique_ptr<void, void (*)(void*)> memory_{nullptr, std::free};
  std::size_t size_ = 0;
};

RoundedRows rounded_in(KeptMemory& memory, std::int64_t m, std::int64_t parts) {
  constexpr std::size_t kPartBytes = 32 + 2 * 4 + 4 + 4;
  std::byte* at = memory.room_for(num(m * parts) * kPartBytes);  // parts are a multiple of 8: arrays begin on 32 bytes
  RoundedRows rows{.parts = parts};
  rows.bytes = reinterpret_cast<std::int8_t*>(at), at += m * parts * 32;
  rows.offsets = reinterpret_cast<std::int32_t*>(at), at += m * parts * 8;
  rows.scales = reinterpret_cast<float*>(at), at += m * parts * 4;
  rows.sums = reinterpret_cast<float*>(at);
  return rows;
}

RoundedRows row_of(const RoundedRows& all, std::int64_t row) {
  const std::int64_t part = row * all.parts;
  return {all.parts, all.bytes + part * 32, all.offsets + part * 2, all.scales + part, all.sums + part};
}

void round_rows(ThreadPool& threads, std::int64_t m, const QuantWeight& w, const float* x, std::int64_t ldx,
                const RoundedRows& out) {
  const QuantVariant& best = quant_variant();
  const auto some = [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) best.round({x + i * ldx, w.cols, w.first, w.dtype}, row_of(out, i));
  };
  if (threads.size() == 1 || m == 1 || m * w.cols < kWorthThreads) return some(0, m);
  threads.run([&](int thread) { some(m * thread / threads.size(), m * (thread + 1) / threads.size()); });
}

enum class By { rows, panel };

// Rows [begin, begin + count) of w by all rows of x.
void some_rows(const QuantWeight& w, const QuantVectors& all, std::int64_t begin, std::int64_t count, By by) {
  if (count <= 0) return;
  const std::int64_t bytes = row_bytes(w.dtype, w.ld), m = all.m, ldy = all.ldy;
  float* y = all.y;
  const QuantRows rows{
      w.data + begin * bytes, w.dtype, count, bytes, w.first / kPart, (w.first + w.cols + kPart - 1) / kPart};
  const QuantVectors vectors{m, all.x, y + begin, ldy};
  if (by == By::panel) {
    thread_local KeptMemory memory;
    const QuantPanels& panels = quant_variant().panels;
    panels.dot(rows, vectors, memory.room_for(panels.bytes(all.x.parts / kStepParts)));
  } else {
    quant_variant().dot(rows, vectors);
  }
  if (w.bias == nullptr) return;
  for (std::int64_t i = 0; i < m; ++i)
    for (std::int64_t r = begin; r < begin + count; ++r) y[i * ldy + r] = w.bias[r] + y[i * ldy + r];
}

}  // namespace

void quant_matmul(ThreadPool& threads, std::int64_t m, const QuantWeight& described, const float* x, std::int64_t ldx,
                  float* y, std::int64_t ldy) {
  const QuantWeight w = checked_blocks(m, described, ldx, ldy);
  if (m == 0 || w.rows == 0) return;
  thread_local KeptMemory memory;
  const std::int64_t parts = (w.first + w.cols + kPart - 1) / kPart;
  const RoundedRows rounded = rounded_in(memory, m, (parts + kStepParts - 1) / kStepParts * kStepParts);
  round_rows(threads, m, w, x, ldx, rounded);
  const std::int64_t share = (w.rows + threads.size() - 1) / threads.size();
  const QuantVectors vectors{m, rounded, y, ldy};
  const By by = m >= kPanelFrom && quant_variant().panels.dot != nullptr ? By::panel : By::rows;
  const std::int64_t tile = by == By::panel ? quant_variant().panels.rows : kTileRows;
  std::atomic<std::int64_t> next{0};
  threads.run([&](int thread) {
    if (m <= kOnePass) {
      const std::int64_t begin = thread * share;
      return some_rows(w, vectors, begin, std::min(share, w.rows - begin), By::rows);
    }
    for (;;) {
      const std::int64_t begin = next.fetch_add(tile, std::memory_order_relaxed);
      if (begin >= w.rows) return;
      some_rows(w, vectors, begin, std::min(tile, w.rows - begin), by);
    }
  });
}

}  // namespace weft
