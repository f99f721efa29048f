#include "weft/transport/join/mpirun.h"

#include <poll.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <string>
#include <utility>

#include "weft/base/error.h"
#include "weft/transport/join/host_hub.h"
#include "weft/transport/join/host_identity.h"
#include "weft/transport/join/net_join.h"
#include "weft/transport/local/process.h"
#include "weft/transport/local/shm.h"

namespace weft {
namespace {

int mpi_number(const char* name, int least, int most) {
  const char* text = std::getenv(name);
  return parse_env_number(name, text == nullptr ? "" : text, {least, most}, "mpirun -n N PROG");
}

// The job's number alone could come again; with the folder of the server that runs the job it is one of a kind.
std::string name_of_job() {
  const char* folder = std::getenv("PMIX_SERVER_TMPDIR");
  return fmt::format("weft {} {} {}", geteuid(), std::getenv(kMpiJobEnv), folder == nullptr ? "" : folder);
}

}  // namespace

bool under_mpirun() {
  return std::getenv(kMpiRankEnv) != nullptr && std::getenv(kMpiJobEnv) != nullptr && std::getenv(kRankEnv) == nullptr;
}

pollfd watch_parent() {
  // Kept open as long as the process lives. A parent in another pid namespace (0) cannot be watched.
  static const Fd parent = getppid() > 0 ? open_process(getppid()) : Fd();
  return {parent.get(), POLLIN, 0};
}

std::unique_ptr<Transport> attach_mpirun(std::optional<WireKind> wire) {
  static std::atomic<bool> attached{false};
  const int size = mpi_number(kMpiSizeEnv, 1, kMaxWorldRanks);
  const int rank = mpi_number(kMpiRankEnv, 0, size - 1);
  const int here = mpi_number(kMpiLocalSizeEnv, 1, size);
  if (here > kMaxLocalRanks)
    bad_input("{} ranks of this mpirun job are on one host; use up to {} a host", here, kMaxLocalRanks);
  if (attached.exchange(true)) bad_input("this process has joined its mpirun job already; call World::init once");
  // Ranks that are told to count as several hosts need what those need.
  if (here != size || std::getenv(kHostEnv) != nullptr) return attach_mpirun_hosts(rank, size, here, wire);
  ShmSeat seat = meet({.name = name_of_job(),
                       .job = "this mpirun job",
                       .rank = rank,
                       .ranks = ranks_from(0, size),
                       .world_size = size});
  seat.launcher = watch_parent();
  return join_shm(std::move(seat));
}

}  // namespace weft
