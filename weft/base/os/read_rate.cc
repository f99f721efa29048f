#include "weft/base/os/read_rate.h"

#include <atomic>
#include <cstring>
#include <memory>
#include <vector>

#include "weft/base/clock.h"
#include "weft/base/index.h"
#include "weft/base/pages.h"
#include "weft/base/statistics.h"
#include "weft/base/thread_pool.h"

namespace weft {

double measured_read_bytes_per_s(ThreadPool& threads) {
  constexpr std::size_t kBytes = std::size_t{512} << 20;  // no cache has them
  const std::unique_ptr<char[]> memory(new char[kBytes]);
  ask_for_huge_pages(memory.get(), kBytes);  // as weights have them
  const auto part = [&](int thread) { return kBytes / num(threads.size()) * num(thread); };
  const std::size_t bytes = part(1);
  threads.run([&](int thread) { std::memset(&memory[part(thread)], 1, bytes); });
  std::vector<double> rates;
  std::atomic<bool> found = false;
  for (int pass = 0; pass < 9; ++pass) {
    const std::int64_t start = now_ns();
    threads.run([&](int thread) {
      // A search for what is not there: the C library reads with the widest vectors there are, and keeps nothing.
      if (std::memchr(&memory[part(thread)], 0, bytes) != nullptr) found = true;
    });
    rates.push_back(bytes * num(threads.size()) / seconds_since(start));
  }
  return found ? 0 : median(rates);
}

}  // namespace weft
