// Ranks as threads of one process: the transport of tests (sanitizers see everything) and of programs that
// keep one address space. Segments are ordinary memory that all ranks hold together.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "weft/transport/transport.h"

namespace weft {

// One Transport per rank, to be used by the thread (or threads) of its rank.
std::vector<std::unique_ptr<Transport>> make_thread_transports(int num_ranks);

// Runs `body` as ranks 0 to num_ranks - 1, each on a new thread, and joins them. When one throws, the waits
// of the others throw too; the exception that came first is rethrown here.
void run_thread_ranks(int num_ranks, const std::function<void(Transport&)>& body);

}  // namespace weft
