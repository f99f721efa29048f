#include "weft/kernel/quant/quant_rows.h"

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <vector>

#include "weft/base/error.h"
#include "weft/base/index.h"
#include "weft/base/quant/blocks.h"
#include "weft/base/thread_pool.h"
#include "weft/kernel/quant/quant_tile.h"

namespace weft {
namespace {

constexpr std::int64_t kWorthThreads = 1 << 15;  // values to round; waking a thread takes as long as rounding these

void check_blocks(std::int64_t m, const QuantProduct& product, std::int64_t ldx) {
  const QuantWeight& w = product.w;
  if (!is_blocked(w.dtype))
    bad_input("the weights of a product in blocks are {}; use q8_0, q4_0, q4_k or q6_k", to_string(w.dtype));
  const std::int64_t values = block_shape(w.dtype).values;
  if (m < 0 || w.rows < 0 || w.cols < 0)
    bad_input("a product of {} x {} with k = {}: sizes must be at least 0", m, w.rows, w.cols);
  if (w.first < 0 || w.first >= values || w.ld % values != 0 || w.first + w.cols > w.ld)
    bad_input(
        "columns {} to {} of rows of {} in {} blocks of {}: the first lies in the first block, and rows are whole",
        w.first, w.first + w.cols, w.ld, to_string(w.dtype), values);
  if (ldx < w.cols || product.ldy < w.rows)
    bad_input("rows are {} and {} elements apart in x and y, but {} and {} long", ldx, product.ldy, w.cols, w.rows);
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

// x as each product takes it; those of one form share a copy.
std::vector<RoundedRows> rounded_for(ThreadPool& threads, std::int64_t m, std::span<const QuantProduct> products,
                                     const float* x, std::int64_t ldx) {
  thread_local KeptMemory memory;
  const auto form_of = [&](std::size_t p) { return rounded_form(products[p].w); };
  const auto first_of_form = [&](std::size_t p) {
    std::size_t first = 0;
    while (form_of(first) != form_of(p)) ++first;
    return first;
  };
  std::size_t bytes = 0;
  for (std::size_t p = 0; p < products.size(); ++p)
    if (first_of_form(p) == p) bytes += rounded_bytes(m, form_of(p));
  std::byte* at = memory.room_for(bytes);
  std::vector<RoundedRows> rows;
  for (std::size_t p = 0; p < products.size(); ++p) {
    const std::size_t first = first_of_form(p);
    rows.push_back(first < p ? rows[first] : rounded_in(at, m, form_of(p)));
    if (first == p) at += rounded_bytes(m, form_of(p));
  }
  const auto some = [&](std::int64_t begin, std::int64_t end) {
    for (std::size_t p = 0; p < products.size(); ++p)
      if (first_of_form(p) == p) round_rows(form_of(p), begin, end, x, ldx, rows[p]);
  };
  if (threads.size() == 1 || m == 1 || m * products[0].w.cols < kWorthThreads)
    some(0, m);
  else
    threads.run([&](int thread) { some(m * thread / threads.size(), m * (thread + 1) / threads.size()); });
  return rows;
}

// Rows [begin, begin + count) of a product's weights by all rows of x.
void some_rows(std::int64_t m, const QuantProduct& product, const RoundedRows& x, std::int64_t begin,
               std::int64_t count) {
  if (count <= 0) return;
  thread_local KeptMemory memory;
  QuantWeight w = product.w;
  w.data += begin * row_bytes(w.dtype, w.ld), w.rows = count;
  quant_tile(m, w, x, product.y + begin, product.ldy, memory.room_for(quant_tile_bytes(m, w.cols)));
  if (w.bias == nullptr) return;
  for (std::int64_t i = 0; i < m; ++i) {
    float* y = product.y + i * product.ldy;
    for (std::int64_t r = begin; r < begin + count; ++r) y[r] = w.bias[r] + y[r];
  }
}

// Few rows: each thread reads one stretch of each of the weights from end to end.
void in_stretches(ThreadPool& threads, std::int64_t m, std::span<const QuantProduct> products,
                  const std::vector<RoundedRows>& x) {
  threads.run([&](int thread) {
    for (std::size_t p = 0; p < products.size(); ++p) {
      const std::int64_t rows = products[p].w.rows, share = (rows + threads.size() - 1) / threads.size();
      const std::int64_t begin = thread * share;
      some_rows(m, products[p], x[p], begin, std::min(share, rows - begin));
    }
  });
}

void in_tiles(ThreadPool& threads, std::int64_t m, std::span<const QuantProduct> products,
              const std::vector<RoundedRows>& x) {
  const std::int64_t tile = quant_tile_rows(m);
  std::vector<std::int64_t> tiles;
  for (const QuantProduct& product : products) tiles.push_back((product.w.rows + tile - 1) / tile);
  deal(threads, tiles, [&](std::size_t p, std::int64_t i) {
    some_rows(m, products[p], x[p], i * tile, std::min(tile, products[p].w.rows - i * tile));
  });
}

}  // namespace

void quant_matmul(ThreadPool& threads, std::int64_t m, std::span<const QuantProduct> products, const float* x,
                  std::int64_t ldx) {
  for (const QuantProduct& product : products) check_blocks(m, product, ldx);
  if (m == 0 || products.empty()) return;
  const std::vector<RoundedRows> rounded = rounded_for(threads, m, products, x, ldx);
  (quant_tile_rows(m) == 0 ? in_stretches : in_tiles)(threads, m, products, rounded);
}

void quant_matmul(ThreadPool& threads, std::int64_t m, const QuantWeight& w, const float* x, std::int64_t ldx, float* y,
                  std::int64_t ldy) {
  const QuantProduct one{w, y, ldy};
  quant_matmul(threads, m, {&one, 1}, x, ldx);
}

}  // namespace weft
