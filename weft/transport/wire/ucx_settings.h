// What the wire tells UCX before it starts: which transports and which device it may use, and how messages travel. Set
// in code, not in the environment, so that a program that uses UCX for something else is left alone.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace weft {

// The value of UCX_TLS for a wire between hosts: what the user asked for (empty: nothing), less every transport that
// goes through shared memory, and less TCP where the network is not trusted. UCX would otherwise take shared memory
// between network namespaces of one machine, at 11 GB/s on a link of 1 Gbit/s, and open a TCP port that lets anyone
// write. Throws bad_input where nothing is left.
std::string allowed_transports(std::string_view asked, bool tcp);

struct UcxNetwork {
  std::string device;  // to bind to; empty: any
  bool tcp = false;    // may be used
};

// {name without UCX_, value}, to be given to ucp_config_modify.
// The environment's UCX_TLS and UCX_NET_DEVICES are heeded. `prefixed`: settings of the TCP transport are called
// TCP_NAME; up to UCX 1.13 they are called NAME here, though TCP_NAME in the environment.
std::vector<std::pair<std::string, std::string>> ucx_settings(const UcxNetwork& network, bool prefixed);

// The most payload of one message: with header and UCX's own it fills one fragment.
inline constexpr std::size_t kMessageBytes = 128 * 1024;

}  // namespace weft
