#include "weft/base/pages.h"

#include <sys/mman.h>

#include <cstdint>

namespace weft {

void ask_for_huge_pages(void* memory, std::size_t bytes) {
  constexpr std::uintptr_t kPage = std::uintptr_t{2} << 20;
  const auto begin = (reinterpret_cast<std::uintptr_t>(memory) + kPage - 1) / kPage * kPage;
  const auto end = (reinterpret_cast<std::uintptr_t>(memory) + bytes) / kPage * kPage;
  if (begin < end) madvise(reinterpret_cast<void*>(begin), end - begin, MADV_HUGEPAGE);
}

}  // namespace weft
