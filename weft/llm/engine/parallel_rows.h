// Rows shared out among a rank's threads; few elements are not worth waking anybody.
#pragma once

#include <cstdint>
#include <functional>

#include "weft/base/thread_pool.h"

namespace weft {

constexpr std::int64_t kWorthAThread = 1 << 14;  // elements; waking a thread takes as long as touching these

// work(begin, end) for parts of [0, rows), each of `cols` elements.
template <typename Work>
void parallel_rows(ThreadPool& threads, std::int64_t rows, std::int64_t cols, const Work& work) {
  const std::int64_t count = threads.size();
  if (count == 1 || rows < 2 || rows * cols < kWorthAThread) {
    if (rows > 0) work(std::int64_t{0}, rows);
    return;
  }
  const auto part = [&](int thread) {
    const std::int64_t begin = rows * thread / count, end = rows * (thread + 1) / count;
    if (begin < end) work(begin, end);
  };
  threads.run(std::cref(part));  // a reference, for which std::function allocates nothing
}

}  // namespace weft
