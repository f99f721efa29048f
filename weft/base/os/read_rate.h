// How fast threads read memory from one end to the other: the bound of whatever reads all of its weights for one row.
#pragma once

#include <cstddef>
#include <memory>

namespace weft {

class ThreadPool;

// Passes over 512 MB in huge pages, as weights have them, which no cache holds; all threads of the pool together.
// Others may use the memory too, so passes take turns with what is measured beside them.
class ReadRate {
 public:
  explicit ReadRate(ThreadPool& threads);
  void pass();
  double bytes_per_s() const;  // of all passes; 0 before the first

 private:
  ThreadPool& threads_;
  std::size_t part_;  // of a thread
  std::unique_ptr<char[]> memory_;
  double bytes_ = 0, seconds_ = 0;
};

}  // namespace weft
