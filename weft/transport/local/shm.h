// Ranks as processes, and how they find their place: a launcher starts them, ours (launch.h) or mpirun (mpirun.h), and
// each attaches. Those of one host are joined by shared memory (shm_transport.h), several hosts as net_join.h says.
#pragma once

#include <poll.h>

#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "weft/transport/join/rendezvous.h"
#include "weft/transport/local/control.h"
#include "weft/transport/transport.h"
#include "weft/transport/wire/wire_kind.h"

namespace weft {

// The environment a launcher gives to each rank.
inline constexpr const char* kRankEnv = "WEFT_RANK";
inline constexpr const char* kSizeEnv = "WEFT_SIZE";
inline constexpr const char* kHereEnv = "WEFT_SIZE_HERE";  // those that one `weft run` started; others are elsewhere
inline constexpr const char* kRendezvousFdEnv = "WEFT_RENDEZVOUS_FD";

// A number that a launcher put into the environment; bad_input naming it and the command that sets it right.
struct EnvRange {
  int least, most;
};
int parse_env_number(const char* name, std::string_view text, EnvRange range, std::string_view command);

// Whether this process was started as a rank, by `weft run` or by mpirun.
bool launched();
// Which one: -1 where it was not, or where the environment says no number.
int launched_rank();
// Of how many.
int launched_size();
int launched_here();  // how many of them are on this host, as far as mpirun or `weft run` says
// Whether some of them are on other hosts, so that links are what lies between.
bool launched_on_several_hosts();

// Joins the ranks of this launch: collective, once a process. From then on the process dies with its
// launcher, and its end counts as a failure for its peers unless the transport was destroyed before, and not
// by an exception. Bad environment: bad_input. Starts one thread, for the heartbeat; more where there are several
// hosts, which `wire` joins; none: what they have (wire_kind.h).
std::unique_ptr<Transport> join_launch(std::optional<WireKind> wire = {});

// A rank's place among the others, however it was found.
struct ShmSeat {
  int rank = 0;
  std::vector<int> ranks;               // those of this host, ascending: parcels come in this order
  FrameSocket socket;                   // to the hub
  Control control;                      // of this host, for all ranks of the world
  pollfd launcher{-1, 0, 0};            // see heartbeat.h
  int hub_rank = -1;                    // the rank whose process the hub lives in; -1: the launcher's
  std::shared_ptr<void> hub = nullptr;  // on that rank: the hub, which goes with the transport
};
// Of a world of one host.
std::unique_ptr<Transport> join_shm(ShmSeat seat);

std::vector<int> ranks_from(int first, int count);
// The place that `weft run` keeps for this rank, in the hub of its process. bad_input where there is none.
ShmSeat seat_at_launcher(int rank, int size, std::vector<int> ranks);

// The control block, which the hub sends first; or nothing, where it has that rank already: bad_input.
Control receive_control(FrameSocket& socket, int num_ranks);

}  // namespace weft
