// One op's memory as one rank sees it: every rank's segment mapped here, with its layout and its bell.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "weft/exec/layout.h"
#include "weft/transport/local/bell.h"

namespace weft {

struct Memory {
  std::vector<Layout> layouts;  // of every rank of the plan
  std::vector<std::byte*> base;
  std::vector<Bell*> bells;
  std::vector<int> world_rank;  // of every rank of the plan

  std::byte* copy(int rank, int buffer, std::uint64_t run) const {
    const BufferLayout& b = layouts[rank].buffers[buffer];
    return base[rank] + b.offset + run % static_cast<std::uint64_t>(b.depth) * b.copy_bytes;
  }
  std::atomic_ref<std::uint32_t> counter(int rank, std::int64_t id) const {
    return std::atomic_ref<std::uint32_t>(reinterpret_cast<std::uint32_t*>(base[rank] + layouts[rank].counters)[id]);
  }
};

}  // namespace weft
