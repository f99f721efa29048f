// Ranks that mpirun started, all on one host: they find each other without any MPI or PMIx library. Rank 0
// serves the hub (rendezvous.h) from a thread, at an abstract socket named after the user and the job; the
// others connect, trying again until the deadline. From there on all is as under our own launcher (shm.h).
//
// An abstract socket has no file: it is gone with rank 0, however that ends. Both sides ask the kernel for the
// other's user and refuse any but their own.
#pragma once

#include <memory>

#include "weft/transport/transport.h"

namespace weft {

// What Open MPI's mpirun (4 and later) gives to each process.
inline constexpr const char* kMpiRankEnv = "OMPI_COMM_WORLD_RANK";
inline constexpr const char* kMpiSizeEnv = "OMPI_COMM_WORLD_SIZE";
inline constexpr const char* kMpiLocalSizeEnv = "OMPI_COMM_WORLD_LOCAL_SIZE";
inline constexpr const char* kMpiJobEnv = "PMIX_NAMESPACE";

// Whether mpirun made this process a rank; `weft run` inside of a job makes ranks of its own.
bool under_mpirun();

// Collective over the job, once a process. The process dies with its parent (mpirun, or the script it runs);
// a peer's death is seen as shm.h says. bad_input where ranks are on several hosts, or the environment is
// not one that mpirun makes; deadline, naming the rank, where one does not come.
std::unique_ptr<Transport> attach_mpirun();

}  // namespace weft
