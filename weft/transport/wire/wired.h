// Ranks of one machine, as threads or processes, that behave as if they were on several hosts: ranks of different hosts
// reach each other only through a wire over the loopback device, and never touch each other's memory. What runs here is
// what runs between machines, with no network and no root: for tests, and to see what the wire itself costs.
#pragma once

#include <memory>

#include "weft/transport/transport.h"
#include "weft/transport/wire/wire_kind.h"

namespace weft {

// Collective. Ranks fill hosts in blocks of ranks_per_host. bad_input where this build has no such wire. UCX may use
// TCP here, whatever the kind: its port is that of the loopback device.
std::unique_ptr<Transport> make_wired(Transport& inner, int ranks_per_host, WireKind kind);

}  // namespace weft
