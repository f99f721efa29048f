// Pages of large memory that is read from end to end, again and again. With pages of 4 KB a core that streams weights
// waits for address translation as much as for memory (seen on Zen 4 in a virtual machine: up to 1.5 times as quick
// with 2 MB).
#pragma once

#include <cstddef>

namespace weft {

// Asks the kernel for huge pages in the part of the memory that can have them; before it is first touched, to be of
// use. A wish: where it is not granted nothing changes.
void ask_for_huge_pages(void* memory, std::size_t bytes);

}  // namespace weft
