#include "weft/base/os/read_rate.h"

#include <atomic>
#include <cstring>

#include "weft/base/clock.h"
#include "weft/base/error.h"
#include "weft/base/index.h"
#include "weft/base/pages.h"
#include "weft/base/thread_pool.h"

namespace weft {
namespace {

constexpr std::size_t kReadBytes = std::size_t{512} << 20;

}  // namespace

ReadRate::ReadRate(ThreadPool& threads)
    : threads_(threads), part_(kReadBytes / num(threads.size())), memory_(new char[kReadBytes]) {
  ask_for_huge_pages(memory_.get(), kReadBytes);
  threads_.run([&](int thread) { std::memset(&memory_[part_ * num(thread)], 1, part_); });
}

void ReadRate::pass() {
  std::atomic<bool> found = false;
  const std::int64_t start = now_ns();
  threads_.run([&](int thread) {
    // A search for what is not there: the C library reads with the widest vectors there are, and keeps nothing.
    if (std::memchr(&memory_[part_ * num(thread)], 0, part_) != nullptr) found = true;
  });
  seconds_ += seconds_since(start);
  bytes_ += static_cast<double>(part_) * threads_.size();
  if (found) fail(Code::internal, "memory that was filled with ones has a zero");
}

double ReadRate::bytes_per_s() const { return seconds_ > 0 ? bytes_ / seconds_ : 0; }

}  // namespace weft
