#include "weft/transport/join/net_address.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "weft/base/error.h"
#include "weft/base/os/net_device.h"

namespace weft {
namespace {

constexpr std::chrono::seconds kBringUp{2};  // for a device that was brought up just now

// Callers who are not taken in yet: beyond, one waits a second for his next attempt, so strangers must not fill it.
constexpr int kBacklog = 1024;

const sockaddr* plain(const NetAddress& address) { return reinterpret_cast<const sockaddr*>(&address.name); }

NetAddress copy_of(const sockaddr* name) {
  NetAddress address;
  address.bytes = name->sa_family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
  std::memcpy(&address.name, name, address.bytes);
  return address;
}

bool is_ip(const sockaddr* name) {
  return name != nullptr && (name->sa_family == AF_INET || name->sa_family == AF_INET6);
}

// The bytes that name the host.
std::string_view host_bytes(const NetAddress& address) {
  if (address.name.ss_family == AF_INET) {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(address.name);
    return {reinterpret_cast<const char*>(&v4.sin_addr), sizeof v4.sin_addr};
  }
  const auto& v6 = reinterpret_cast<const sockaddr_in6&>(address.name);
  return {reinterpret_cast<const char*>(&v6.sin6_addr), sizeof v6.sin6_addr};
}

// Version 4 before 6: hosts that have both are sure to have 4 between them.
std::optional<NetAddress> resolve(const std::string& host, const std::string& port, std::string* problem) {
  addrinfo wanted{};
  wanted.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(host.c_str(), port.c_str(), &wanted, &found);
  if (error != 0) {
    *problem = gai_strerror(error);
    return std::nullopt;
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(found, freeaddrinfo);
  for (const int family : {AF_INET, AF_INET6})
    for (const addrinfo* each = found; each != nullptr; each = each->ai_next)
      if (each->ai_family == family) return copy_of(each->ai_addr);
  *problem = "it has no IP address";
  return std::nullopt;
}

std::string without_port(const std::string& address) { return address.substr(0, address.rfind(':')); }

// "267386880.1;tcp://10.0.0.1,10.1.0.1:33907;tcp6://..." names 10.0.0.1 and 10.1.0.1.
std::vector<std::string> hosts_of_uri(const std::string& uri) {
  constexpr std::string_view kScheme = "tcp://";
  const std::size_t start = uri.find(kScheme);
  if (start == std::string::npos) return {};
  std::string list = uri.substr(start + kScheme.size());
  list = without_port(list.substr(0, list.find(';')));
  std::vector<std::string> hosts;
  for (std::size_t at = 0; at <= list.size();) {
    const std::size_t end = std::min(list.find(',', at), list.size());
    hosts.push_back(list.substr(at, end - at));
    at = end + 1;
  }
  return hosts;
}

struct Interface {
  std::string name;
  NetAddress address;
  bool up = false, loopback = false;
};

std::vector<Interface> interfaces() {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) fail(Code::io, "cannot list the network interfaces: {}", std::strerror(errno));
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owner(list, freeifaddrs);
  std::vector<Interface> all;
  for (const int family : {AF_INET, AF_INET6})
    for (const ifaddrs* each = list; each != nullptr; each = each->ifa_next) {
      if (!is_ip(each->ifa_addr) || each->ifa_addr->sa_family != family) continue;
      all.push_back({each->ifa_name, copy_of(each->ifa_addr), (each->ifa_flags & IFF_UP) != 0,
                     (each->ifa_flags & IFF_LOOPBACK) != 0});
    }
  return all;
}

void prepare(const Fd& socket) {
  const int on = 1;
  setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

Fd open_socket(const NetAddress& address) {
  Fd out(socket(address.name.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!out) fail(Code::io, "cannot make a socket: {}", std::strerror(errno));
  prepare(out);
  return out;
}

}  // namespace

std::string to_string(const NetAddress& address) {
  std::string text(INET6_ADDRSTRLEN, '\0');
  const bool v4 = address.name.ss_family == AF_INET;
  inet_ntop(address.name.ss_family, host_bytes(address).data(), text.data(), static_cast<socklen_t>(text.size()));
  text.resize(std::strlen(text.c_str()));
  const int port = ntohs(v4 ? reinterpret_cast<const sockaddr_in&>(address.name).sin_port
                            : reinterpret_cast<const sockaddr_in6&>(address.name).sin6_port);
  return v4 ? fmt::format("{}:{}", text, port) : fmt::format("[{}]:{}", text, port);
}

NetAddress parse_address(std::string_view text) {
  const std::size_t colon = text.rfind(':');
  std::string host(text.substr(0, colon));
  const std::string port(colon == std::string_view::npos ? "" : text.substr(colon + 1));
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
  const bool number = !port.empty() && port.size() <= 5 && port.find_first_not_of("0123456789") == std::string::npos;
  if (host.empty() || !number || std::atoi(port.c_str()) < 1 || std::atoi(port.c_str()) > 65535)
    bad_input("rendezvous \"{}\" is not HOST:PORT; name the host of rank 0 and a free port, as 10.0.0.1:5000", text);
  std::string problem;
  const auto address = resolve(host, port, &problem);
  if (!address) bad_input("cannot find host \"{}\" of rendezvous \"{}\": {}; give its address", host, text, problem);
  return *address;
}

Listener listen_at(const NetAddress& address) {
  if (host_bytes(address).find_first_not_of('\0') == std::string_view::npos)
    bad_input("{} stands for all interfaces; name the one address of rank 0's host that the others reach it at",
              to_string(address));
  Fd socket = open_socket(address);
  const int on = 1;  // a port whose last user has just ended is free
  setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (bind(socket.get(), plain(address), address.bytes) != 0 || listen(socket.get(), kBacklog) != 0)
    bad_input("this rank cannot listen at {}: {}; give an address of its host and a free port", to_string(address),
              std::strerror(errno));
  NetAddress bound = local_address(socket);
  return {std::move(socket), bound};
}

Fd accept_one(const Fd& listener) {
  Fd socket(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (socket) prepare(socket);
  return socket;
}

Fd begin_connect(const NetAddress& address) {
  Fd socket = open_socket(address);
  connect(socket.get(), plain(address), address.bytes);
  return socket;
}

std::optional<Fd> try_connect(const NetAddress& address, std::chrono::nanoseconds limit) {
  Fd socket = open_socket(address);
  if (connect(socket.get(), plain(address), address.bytes) == 0) return socket;
  if (errno != EINPROGRESS) return std::nullopt;
  pollfd ready{socket.get(), POLLOUT, 0};
  if (poll(&ready, 1, static_cast<int>(limit / std::chrono::milliseconds(1))) <= 0) {
    errno = ETIMEDOUT;
    return std::nullopt;
  }
  int error = 0;
  socklen_t bytes = sizeof error;
  getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &bytes);
  errno = error;
  if (error != 0) return std::nullopt;
  return socket;
}

NetAddress own_address(const std::string& host, const std::string& uri) {
  const auto all = interfaces();
  if (const char* wanted = std::getenv(kInterfaceEnv); wanted != nullptr && *wanted != '\0') {
    for (const Interface& each : all)
      if (each.name == wanted) return each.address;
    bad_input("{}=\"{}\" is no interface of host {} with an address; `ip addr` lists them", kInterfaceEnv, wanted,
              host);
  }
  std::string problem;
  if (const auto named = resolve(host, "0", &problem))
    for (const Interface& each : all)
      if (!each.loopback && host_bytes(each.address) == host_bytes(*named)) return each.address;
  for (const std::string& named : hosts_of_uri(uri))
    for (const Interface& each : all)
      if (!each.loopback && each.address.name.ss_family == AF_INET && without_port(to_string(each.address)) == named)
        return each.address;
  for (const bool loopback : {false, true})
    for (const Interface& each : all)
      if (each.up && each.loopback == loopback) return each.address;
  bad_input("host {} has no network interface that is up; bring one up, or name one with {}", host, kInterfaceEnv);
}

NetAddress address_of_device(const std::string& device) {
  if (device.empty()) return own_address({});
  if (if_nametoindex(device.c_str()) == 0)
    bad_input("there is no network device \"{}\"; name one that `ip addr` lists", device);
  if (!wait_until_running(device, kBringUp)) bad_input("network device \"{}\" is down; bring it up", device);
  for (const Interface& each : interfaces())
    if (each.name == device) return each.address;
  bad_input("network device \"{}\" has no address; name one that `ip addr` lists with one", device);
}

NetAddress local_address(const Fd& socket) {
  NetAddress address;
  address.bytes = sizeof address.name;
  getsockname(socket.get(), reinterpret_cast<sockaddr*>(&address.name), &address.bytes);
  return address;
}

NetAddress peer_address(const Fd& socket) {
  NetAddress address;
  address.bytes = sizeof address.name;
  getpeername(socket.get(), reinterpret_cast<sockaddr*>(&address.name), &address.bytes);
  return address;
}

// The loopback has all addresses of its net, of which it lists one.
std::string interface_of(const NetAddress& own) {
  for (const Interface& each : interfaces()) {
    if (each.address.name.ss_family != own.name.ss_family) continue;
    const std::string_view mine = host_bytes(own);
    const bool loopback = each.loopback && mine.size() == 4 && mine.front() == 127;
    if (loopback || host_bytes(each.address) == mine) return each.name;
  }
  return {};
}

}  // namespace weft
