// What a link between two virtual hosts gives, seen from TCP. Sockets stay in the namespace they were made in, so one
// process holds both ends.
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include "weft/base/error.h"
#include "weft/base/statistics.h"
#include "weft/virtual/network.h"

namespace weft::virtual_hosts {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kPiece = 64 << 10;
constexpr std::chrono::milliseconds kStream{250};
constexpr double kLongest = 0.35;  // a slow link would take seconds to carry what the sender has buffered by then
constexpr int kRoundTrips = 41;

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

[[noreturn]] void fail_link(const VirtualHost& from, const VirtualHost& to) {
  fail(Code::io, "no bytes pass from {} to {}: {}", from.name, to.name, std::strerror(errno));
}

struct Connection {
  Fd sender, receiver;
};

void set_deadline(int fd) {
  const timeval deadline{.tv_sec = 5, .tv_usec = 0};
  const int on = 1;
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &deadline, sizeof deadline);
  setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &deadline, sizeof deadline);
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

Connection connect_hosts(const VirtualHost& from, const VirtualHost& to) {
  sockaddr_in address{};
  socklen_t size = sizeof address;
  address.sin_family = AF_INET;
  inet_pton(AF_INET, to.address.c_str(), &address.sin_addr);
  auto* const name = reinterpret_cast<sockaddr*>(&address);
  Fd listener;
  {
    const InNamespace there(to.name);
    listener = Fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  }
  if (bind(listener.get(), name, size) != 0 || listen(listener.get(), 1) != 0 ||
      getsockname(listener.get(), name, &size) != 0)
    fail_link(from, to);
  Connection made;
  {
    const InNamespace there(from.name);
    made.sender = Fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  }
  set_deadline(made.sender.get());
  if (connect(made.sender.get(), name, size) != 0) fail_link(from, to);
  made.receiver = Fd(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
  if (!made.receiver) fail_link(from, to);
  set_deadline(made.receiver.get());
  return made;
}

// Half of the median round trip. The echo ends with the connection.
double measure_latency(const Connection& link) {
  std::thread echo([&] {
    char byte = 0;
    for (int i = 0; i < kRoundTrips && recv(link.receiver.get(), &byte, 1, 0) == 1; ++i)
      if (send(link.receiver.get(), &byte, 1, MSG_NOSIGNAL) != 1) break;
  });
  std::vector<double> times;
  char byte = 0;
  for (int i = 0; i < kRoundTrips; ++i) {
    const auto begin = Clock::now();
    if (send(link.sender.get(), &byte, 1, MSG_NOSIGNAL) != 1 || recv(link.sender.get(), &byte, 1, 0) != 1) break;
    times.push_back(seconds_since(begin));
  }
  if (times.size() < kRoundTrips) shutdown(link.receiver.get(), SHUT_RDWR);
  echo.join();
  if (times.size() < kRoundTrips) return -1;
  return median(times) / 2;
}

// Bytes a second at the receiver, after the first tenth of a second, which fills buckets and windows.
double measure_rate(const Connection& link) {
  std::thread sender([&] {
    const std::vector<char> piece(kPiece);
    for (const auto begin = Clock::now(); Clock::now() - begin < kStream;)
      if (send(link.sender.get(), piece.data(), piece.size(), MSG_NOSIGNAL) <= 0) break;
    shutdown(link.sender.get(), SHUT_WR);
  });
  std::vector<char> piece(kPiece);
  const auto begin = Clock::now();
  double bytes = 0, bytes_before = 0, half = 0, end = 0;
  while (end < kLongest) {
    const ssize_t got = recv(link.receiver.get(), piece.data(), piece.size(), 0);
    if (got <= 0) break;
    bytes += got;
    end = seconds_since(begin);
    if (half == 0 && end > 0.1) half = end, bytes_before = bytes;
  }
  shutdown(link.receiver.get(), SHUT_RDWR);
  sender.join();
  return half > 0 && end > half ? (bytes - bytes_before) / (end - half) : -1;
}

}  // namespace

SeenLink measure_link(const VirtualHost& from, const VirtualHost& to) {
  const Connection link = connect_hosts(from, to);
  SeenLink seen;
  seen.latency_s = measure_latency(link);
  seen.bytes_per_s = measure_rate(link);
  if (seen.latency_s <= 0 || seen.bytes_per_s <= 0) fail_link(from, to);
  return seen;
}

}  // namespace weft::virtual_hosts
