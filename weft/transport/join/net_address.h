// Addresses of ranks on other hosts: HOST:PORT, interfaces, and the sockets that listen at them and connect to them.
#pragma once

#include <sys/socket.h>

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

#include "weft/transport/local/memory.h"

namespace weft {

struct NetAddress {
  sockaddr_storage name{};
  socklen_t bytes = 0;
};

std::string to_string(const NetAddress& address);  // 10.0.0.1:5000 or [fd00::1]:5000

// HOST:PORT or [HOST]:PORT, a name or a number; bad_input where it is neither, or nobody knows the name.
NetAddress parse_address(std::string_view text);

// A socket that listens at that address and no other: an address for "all interfaces" is refused, as is one that this
// host does not have (bad_input). Port 0: any that is free; `bound` says which.
struct Listener {
  Fd socket;
  NetAddress bound;
};
Listener listen_at(const NetAddress& address);

// The next that has called, without waiting for it; none: errno says why. It does not block.
Fd accept_one(const Fd& listener);

// A socket that does not block and is connecting, or has failed to: using it says so.
Fd begin_connect(const NetAddress& address);
// One attempt; nothing where it does not succeed within that time, errno says why.
std::optional<Fd> try_connect(const NetAddress& address, std::chrono::nanoseconds limit);

// Of this host, port 0: that of the interface WEFT_INTERFACE; else, no loopback, the one that `host` stands for or the
// first that `uri` names (tcp://10.0.0.1,10.1.0.1:5000 of a daemon on this host); else that of the first interface that
// is up and no loopback, or the loopback itself. bad_input where WEFT_INTERFACE is no interface with an address.
inline constexpr const char* kInterfaceEnv = "WEFT_INTERFACE";
NetAddress own_address(const std::string& host, const std::string& uri = {});

// Of a network device of this host, port 0, brought up a moment ago or before; "": as own_address(). bad_input where
// there is no such device, or it has no address.
NetAddress address_of_device(const std::string& device);

NetAddress local_address(const Fd& socket);
NetAddress peer_address(const Fd& socket);
std::string interface_of(const NetAddress& own);  // "" where none has it

}  // namespace weft
