#include "weft/virtual/network.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <sched.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <fstream>
#include <set>
#include <sstream>

#include <fmt/core.h>

#include "weft/base/error.h"
#include "weft/base/os/net_device.h"
#include "weft/virtual/tools.h"

namespace weft::virtual_hosts {
namespace {

// "10.77.3" of every IPv4 address in this thread's namespace.
void add_subnets(std::set<std::string>* subnets) {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return;
  for (const ifaddrs* one = list; one != nullptr; one = one->ifa_next) {
    if (one->ifa_addr == nullptr || one->ifa_addr->sa_family != AF_INET) continue;
    sockaddr_in address{};
    std::memcpy(&address, one->ifa_addr, sizeof address);
    char text[INET_ADDRSTRLEN] = "";
    inet_ntop(AF_INET, &address.sin_addr, text, sizeof text);
    subnets->insert(std::string(text, std::strrchr(text, '.')));
  }
  freeifaddrs(list);
}

// Destinations in the machine's routing table, which may reach further than its own addresses. True where one of them
// covers the subnet, but for the default route.
bool routed(std::uint32_t subnet) {
  std::ifstream table("/proc/net/route");
  std::string line;
  std::getline(table, line);
  while (std::getline(table, line)) {
    std::istringstream words(line);
    std::string device, destination, gateway, flags, references, use, metric, mask;
    words >> device >> destination >> gateway >> flags >> references >> use >> metric >> mask;
    const auto net = ntohl(static_cast<std::uint32_t>(std::stoul(destination, nullptr, 16)));
    const auto bits = ntohl(static_cast<std::uint32_t>(std::stoul(mask, nullptr, 16)));
    if (bits != 0 && (subnet & bits) == (net & bits)) return true;
  }
  return false;
}

// Segments of 16 KB: half the bucket. Larger ones would pass a slow link in lumps of 64 KB; a bucket smaller than a
// segment costs 30 times the CPU, and a larger one lets a pause be caught up with at the speed of memory.
constexpr const char* kSegment = "gso_max_size 16384";

// BBR, the default on some machines, sets a timer for every segment. In a virtual machine those cost the hosts more
// than the bytes do (8.4 MB each way beside a gemm, 1 Gbit/s, ms of CPU: 95 to 97 with bbr, 90 with reno). Namespaces
// may choose this one always; cubic, only where the machine allows it.
constexpr const char* kCongestion = "reno";

std::string shaping(const std::string& device, double bytes_per_s) {
  return fmt::format("qdisc add dev {} root tbf rate {:.0f}bit burst 32kb latency 20ms\n", device, bytes_per_s * 8);
}

// A setting of one namespace, where the kernel has it.
void set_kernel(const std::string& name, const std::string& key, const std::string& value) {
  const InNamespace there(name);
  std::ofstream("/proc/sys/net/" + key) << value;
}

void make_namespaces(const VirtualHosts& all) {
  std::string batch = fmt::format("netns add {}\n", switch_name(all.name));
  for (const VirtualHost& host : all.hosts) batch += fmt::format("netns add {}\n", host.name);
  run_tool({"ip", "-batch", "-"}, batch);
}

void make_switch(const VirtualHosts& all) {
  std::string links =
      "link add bridge0 type bridge stp_state 0 forward_delay 0 mcast_snooping 0\n"
      "link set bridge0 addrgenmode none up\n";
  std::string buckets;
  for (std::size_t i = 0; i < all.hosts.size(); ++i) {
    const VirtualHost& host = all.hosts[i];
    const std::string port = fmt::format("port{}", i);
    links += fmt::format("link add {} type veth peer name {} netns {}\n", port, kHostDevice, host.name);
    links += fmt::format("link set {} {} addrgenmode none master bridge0 up\n", port, kSegment);
    if (host.rate) buckets += shaping(port, *host.rate);
  }
  run_tool({"ip", "-n", switch_name(all.name), "-batch", "-"}, links);
  // A switch looks at no firewall: that would take CPU time from the hosts.
  for (const char* table : {"iptables", "ip6tables", "arptables"})
    set_kernel(switch_name(all.name), fmt::format("bridge/bridge-nf-call-{}", table), "0");
  if (!buckets.empty()) run_tool({"tc", "-n", switch_name(all.name), "-batch", "-"}, buckets);
}

void make_host(const VirtualHost& host) {
  std::string links = "link set lo up\n";
  links += fmt::format("link set {} {} addrgenmode none up\n", kHostDevice, kSegment);
  links += fmt::format("addr add {}/24 dev {}\n", host.address, kHostDevice);
  run_tool({"ip", "-n", host.name, "-batch", "-"}, links);
  set_kernel(host.name, "ipv4/tcp_congestion_control", kCongestion);
  if (host.rate) run_tool({"tc", "-n", host.name, "-batch", "-"}, shaping(kHostDevice, *host.rate));
}

// Programs that are started at once find a device that works.
void await_device(const VirtualHost& host) {
  constexpr std::chrono::seconds kLimit{5};
  const InNamespace there(host.name);
  if (!wait_until_running(kHostDevice, kLimit))
    fail(Code::io, "the device {} of host {} is not up after {} s", kHostDevice, host.name, kLimit.count());
}

}  // namespace

InNamespace::InNamespace(const std::string& name) : before_(open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC)) {
  const Fd there(open(namespace_path(name).c_str(), O_RDONLY | O_CLOEXEC));
  if (!before_ || !there || setns(there.get(), CLONE_NEWNET) != 0)
    fail(Code::io, "cannot enter the network namespace {}: {}", name, std::strerror(errno));
}

InNamespace::~InNamespace() { setns(before_.get(), CLONE_NEWNET); }

std::string free_subnet() {
  std::set<std::string> taken;
  add_subnets(&taken);
  for (const std::string& set : find_virtual_hosts())
    for (const std::string& name : find_namespaces(set)) {
      try {
        const InNamespace there(name);
        add_subnets(&taken);
      } catch (const Error&) {  // going away just now
      }
    }
  for (int x = 77; x < 256; ++x)
    for (int y = 0; y < 256; ++y) {
      std::string subnet = fmt::format("10.{}.{}", x, y);
      const auto number = 10u << 24 | static_cast<std::uint32_t>(x) << 16 | static_cast<std::uint32_t>(y) << 8;
      if (!taken.contains(subnet) && !routed(number)) return subnet;
    }
  bad_input("all of 10.77.0.0 to 10.255.255.0 is taken; take a cluster down, or remove a route to 10.0.0.0/8");
}

void make_network(const VirtualHosts& all, bool (*interrupted)()) {
  const auto go_on = [&] {
    if (interrupted()) fail(Code::io, "interrupted");
  };
  make_namespaces(all);
  go_on();
  make_switch(all);
  for (const VirtualHost& host : all.hosts) {
    go_on();
    make_host(host);
  }
  for (const VirtualHost& host : all.hosts) await_device(host);
}

void read_counters(VirtualHost& host) {
  if (geteuid() != 0) return;
  const InNamespace there(host.name);
  std::ifstream file("/proc/thread-self/net/dev");
  for (std::string line; std::getline(file, line);) {
    const std::size_t colon = line.find(':');
    if (colon == std::string::npos || line.substr(line.find_first_not_of(' '), 5) != std::string(kHostDevice) + ":")
      continue;
    std::istringstream numbers(line.substr(colon + 1));
    std::int64_t values[9] = {};  // received: bytes, packets and six more; then sent: bytes
    for (std::int64_t& value : values) numbers >> value;
    host.received = values[0];
    host.sent = values[8];
  }
}

}  // namespace weft::virtual_hosts
