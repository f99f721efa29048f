// Ranks as processes of one machine, joined by shared memory. A launcher (launch.h) starts them; each
// attaches.
#pragma once

#include <memory>

#include "weft/transport/transport.h"

namespace weft {

// The environment a launcher gives to each rank.
inline constexpr const char* kRankEnv = "WEFT_RANK";
inline constexpr const char* kSizeEnv = "WEFT_SIZE";
inline constexpr const char* kRendezvousFdEnv = "WEFT_RENDEZVOUS_FD";

// Whether this process was started as a rank.
bool launched();

// Joins the ranks of this launch: collective, once a process. From then on the process dies with its
// launcher, and its end counts as a failure for its peers unless the transport was destroyed before, and not
// by an exception. Bad environment: bad_input. Starts one thread, for the heartbeat.
std::unique_ptr<Transport> attach_shm();

}  // namespace weft
