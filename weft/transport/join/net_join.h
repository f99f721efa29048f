// How ranks of several hosts find each other. All ways lead to the hub in rank 0's process (net_hub.h); through it
// ranks learn who shares a host with whom, and those then meet there (host_hub.h, or at the launcher that started
// them).
//
//   rendezvous   WEFT_RENDEZVOUS=HOST:PORT names where rank 0 listens; WEFT_RANK and WEFT_SIZE are of the world, and
//                all hosts hold one secret (net_handshake.h). `weft run --rendezvous` sets these; without it, set them
//                yourself for every process.
//   mpirun       PMIx carries rank 0's address, and a secret made for the job, to all ranks. Rank 0 listens at the
//                interface WEFT_INTERFACE, or at the address of its host as mpirun knows it (net_address.h).
//   directory    the same, where somebody else keeps the texts (directory.h).
#pragma once

#include <memory>
#include <optional>

#include "weft/transport/transport.h"
#include "weft/transport/wire/wire_kind.h"

namespace weft {

inline constexpr const char* kRendezvousEnv = "WEFT_RENDEZVOUS";

// Of a world, over all hosts.
inline constexpr int kMaxWorldRanks = 1024;

// Each collective, once a process. `wire`: what is to join the hosts; none: what they have (wire_kind.h). bad_input for
// what cannot be used or is refused, deadline and peer_failed with the rank that did not come, or failed meanwhile.
std::unique_ptr<Transport> attach_rendezvous(std::optional<WireKind> wire);
std::unique_ptr<Transport> attach_mpirun_hosts(int rank, int size, int ranks_here, std::optional<WireKind> wire);

}  // namespace weft
