// Ranks that mpirun started. All on one host, they find each other without any MPI or PMIx library: they meet
// (host_hub.h) at a name made of the user and the job. On several hosts they need PMIx (net_join.h).
#pragma once

#include <poll.h>

#include <memory>
#include <optional>

#include "weft/transport/transport.h"
#include "weft/transport/wire/wire_kind.h"

namespace weft {

// What Open MPI's mpirun (4 and later) gives to each process.
inline constexpr const char* kMpiRankEnv = "OMPI_COMM_WORLD_RANK";
inline constexpr const char* kMpiSizeEnv = "OMPI_COMM_WORLD_SIZE";
inline constexpr const char* kMpiLocalSizeEnv = "OMPI_COMM_WORLD_LOCAL_SIZE";
inline constexpr const char* kMpiJobEnv = "PMIX_NAMESPACE";

// Whether mpirun made this process a rank; `weft run` inside of a job makes ranks of its own.
bool under_mpirun();

// Collective over the job, once a process. The process dies with its parent (mpirun, or the script it runs);
// a peer's death is seen as shm.h says. bad_input where the environment is not one that mpirun makes; deadline, naming
// the rank, where one does not come.
std::unique_ptr<Transport> attach_mpirun(std::optional<WireKind> wire);

// Has an event when the parent has ended (heartbeat.h).
pollfd watch_parent();

}  // namespace weft
