// Memory that ranks share, and the descriptors it travels as: memfds, which have no name and so vanish with
// the last process that holds them, however it ends.
#pragma once

#include <cstddef>
#include <memory>

#include "weft/base/os/fd.h"

namespace weft {

// A zeroed memfd with all its pages there already: a later touch cannot raise SIGBUS. Throws no_memory.
Fd make_memfd(std::size_t bytes);

// The file mapped for reading and writing, shared, at least one page; unmapped with the last copy.
std::shared_ptr<void> map_shared(const Fd& memfd, std::size_t bytes);

// Zeroed memory that this process alone can reach, page-aligned; shared, so that it can be mapped again. Throws
// no_memory.
std::shared_ptr<void> map_anonymous(std::size_t bytes);

// A range of addresses to map memory into, whole pages. Where nothing is mapped it is scratch memory.
std::shared_ptr<void> reserve(std::size_t bytes);

// A range of addresses that stand for memory of another host: touching one is a fault.
std::shared_ptr<void> reserve_addresses(std::size_t bytes);

// Maps whole pages that are mapped at `shared` (by one of the two above) a second time, at `again`, which lies in a
// reserved range: both addresses are the same memory. No descriptor is needed, so segments hold none open. The pages
// are entered at once, so that the first touch costs no more than later ones.
void map_again(void* shared, std::size_t bytes, void* again);
std::size_t page_bytes();

// What the kernel says may still be had without swapping. Asking a memfd for more does not fail: it brings
// the out-of-memory killer, so ask here first.
std::size_t available_memory_bytes();

}  // namespace weft
