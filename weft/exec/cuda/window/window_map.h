// Windows inside a GPU: an unmodified gemm writes its output through a plain pointer, and what it writes for another
// rank lies in that rank's output, since both addresses have the same pages. For plans whose steps only store: a
// product that is kept, or goes straight to its receivers by all_to_all. A stretch of rows is shared in whole pages, of
// 2 MB on an H200, so each must be a multiple of that.
//
// stretches_of() reads the plan and needs no GPU; MappedWindows makes the pages (cuMemCreate) and maps each twice.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "weft/plan/program.h"

namespace weft {

struct WindowStretch {
  int from = 0, to = 0;             // ranks: whose product, and whose output
  std::int64_t made = 0, kept = 0;  // where it begins in the one and in the other, in bytes
  std::int64_t bytes = 0;
};

// Of all ranks. Throws bad_input, with the remedy, where the plan sums, copies or finishes, where a stretch is no whole
// number of pages, or where outputs have columns of several ranks side by side.
std::vector<WindowStretch> stretches_of(const Plan& plan, const Expander& expander, std::int64_t page_bytes);

class MappedWindows {
 public:
  explicit MappedWindows(const Plan& plan);  // throws bad_input as above, or where there is no GPU
  ~MappedWindows();
  MappedWindows(const MappedWindows&) = delete;
  MappedWindows& operator=(const MappedWindows&) = delete;

  std::byte* window(int rank) const;  // (m, n) of what the rank makes
  std::byte* output(int rank) const;  // "y"

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace weft
