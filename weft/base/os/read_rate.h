// How fast threads read memory from one end to the other: the bound of whatever reads all of its weights for one row.
#pragma once

namespace weft {

class ThreadPool;

// Bytes per second of all threads of the pool together: the median of nine passes over 512 MB, which no cache holds.
double measured_read_bytes_per_s(ThreadPool& threads);

}  // namespace weft
