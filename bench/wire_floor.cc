// What the wire between hosts costs: latency of put + signal, bandwidth, and CPU time a byte, between two processes
// that may be in two network namespaces. Beside it, the same bytes through a plain socket: send() and recv(), nothing
// else.
//
//   wire_floor --serve PORT [--device DEV]            the one end
//   wire_floor --connect HOST:PORT [--device DEV]     the other; prints the tables
//   both take --what latency|bandwidth|idle (all by default) and --link tls|ucx,trusted, the same at both ends
//
// Latency is half a round trip, the median of all. "spinning": both ranks call progress() in a loop; "asleep": both
// sleep on their bells and their wires' threads do the work. Bandwidth has its sender wait in stage() and its receiver
// asleep. CPU time is user and system time of both processes, packing into staging included, over the bytes sent.
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/core.h>

#include "weft/base/clock.h"
#include "weft/base/error.h"
#include "weft/base/index.h"
#include "weft/base/statistics.h"
#include "weft/transport/local/bell.h"
#include "weft/transport/wire/network_wire.h"

namespace {

constexpr std::uint32_t kSegment = 1;
constexpr std::size_t kMost = 4 << 20, kBytes = kMost + 4096;
constexpr double kLatencyUs = 200e3;  // spent on one cell

enum class Wait { spinning, asleep };

// The plain connection over which the two ends meet; also the socket to compare with.
class Control {
 public:
  explicit Control(int fd) : fd_(fd) {
    const int one = 1;
    setsockopt(fd_, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  }
  void send(const void* data, std::size_t bytes) const {
    for (const char* at = static_cast<const char*>(data); bytes > 0;) {
      const ssize_t some = ::send(fd_, at, bytes, MSG_NOSIGNAL);
      if (some <= 0) weft::fail(weft::Code::io, "cannot send: {}", std::strerror(errno));
      at += some;
      bytes -= weft::num(some);
    }
  }
  void receive(void* data, std::size_t bytes) const {
    for (char* at = static_cast<char*>(data); bytes > 0;) {
      const ssize_t some = recv(fd_, at, bytes, 0);
      if (some <= 0) weft::fail(weft::Code::io, "cannot receive: {}", some == 0 ? "closed" : std::strerror(errno));
      at += some;
      bytes -= weft::num(some);
    }
  }
  template <class T>
  T exchange(T mine) const {
    send(&mine, sizeof mine);
    receive(&mine, sizeof mine);
    return mine;
  }
  std::string exchange(const std::string& mine) const {
    std::string theirs(exchange(mine.size()), '\0');
    send(mine.data(), mine.size());
    receive(theirs.data(), theirs.size());
    return theirs;
  }

 private:
  int fd_;
};

int listen_and_accept(int port) {
  const int listener = socket(AF_INET, SOCK_STREAM, 0), one = 1;
  setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
  sockaddr_in address{.sin_family = AF_INET, .sin_port = htons(static_cast<std::uint16_t>(port)), .sin_addr = {}};
  if (bind(listener, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0 || listen(listener, 1) != 0)
    weft::fail(weft::Code::io, "cannot listen on port {}: {}", port, std::strerror(errno));
  const int fd = accept(listener, nullptr, nullptr);
  close(listener);
  return fd;
}

int connect_to(const std::string& host, int port) {
  sockaddr_in address{.sin_family = AF_INET, .sin_port = htons(static_cast<std::uint16_t>(port)), .sin_addr = {}};
  inet_pton(AF_INET, host.c_str(), &address.sin_addr);
  for (int tries = 0; tries < 100; ++tries) {
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0) return fd;
    close(fd);
    usleep(50'000);
  }
  weft::fail(weft::Code::io, "cannot connect to {}:{}", host, port);
}

std::int64_t cpu_ns() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto ns = [](const timeval& time) { return time.tv_sec * 1'000'000'000 + time.tv_usec * 1000; };
  return ns(usage.ru_utime) + ns(usage.ru_stime);
}

struct Rate {
  double mb_s, send_ns, receive_ns;  // CPU time a byte
};

class Bench {
 public:
  Bench(int rank, Control control, const std::string& device, weft::WireKind kind)
      : rank_(rank), control_(control), memory_(kBytes), source_(kMost, std::byte{1}) {
    weft::WireHost host;
    host.rank = rank;
    host.size = 2;
    host.peers = {1 - rank};
    host.secret = "of a measurement on hosts of one's own";
    host.device = device;
    host.bell = &bell_;
    host.lost = [this](int, std::string_view) { lost_ = true; };
    host.check = [this] { check(); };
    wire_ = weft::NetworkWire::make(kind, host);
    wire_->add_segment(kSegment, memory_.data(), memory_.size());
    wire_->connect(1 - rank, control_.exchange(wire_->address()));
  }

  double latency_us(std::size_t bytes, Wait wait) {
    const double first = median_us(bytes, wait, 10);
    return median_us(bytes, wait, agree(static_cast<std::uint32_t>(std::clamp(kLatencyUs / 2 / first, 20.0, 5000.0))));
  }

  Rate wire_rate(std::size_t bytes, std::size_t total) {
    return rate(total, [&] {
      const auto times = static_cast<std::uint32_t>(total / bytes);
      if (rank_ == 0) {
        await(times, Wait::asleep);
        wire_->signal(1, {kSegment, kMost});
        wire_->flush();
      } else {
        for (std::uint32_t i = 0; i < times; ++i) send(bytes);
        await(1, Wait::asleep);
      }
    });
  }

  Rate socket_rate(std::size_t total) {
    return rate(total, [&] {
      constexpr std::size_t kPiece = 128 << 10;
      for (std::size_t at = 0; at < total; at += kPiece)
        if (rank_ == 0)
          control_.receive(memory_.data() + at % kMost, kPiece);
        else
          control_.send(source_.data() + at % kMost, kPiece);
    });
  }

  void meet() { control_.exchange('.'); }

  double idle_share() {
    meet();
    const std::int64_t before = cpu_ns();
    sleep(5);
    return static_cast<double>(cpu_ns() - before) / 5e9;
  }

 private:
  void check() const {
    if (lost_) weft::fail(weft::Code::peer_failed, "the other end is gone");
  }
  std::uint32_t agree(std::uint32_t mine) { return std::min(mine, control_.exchange(mine)); }

  // Nobody may block otherwise while he attends: what he has put would stay here.
  double median_us(std::size_t bytes, Wait wait, std::uint32_t rounds) {
    meet();
    if (wait == Wait::spinning) wire_->attend();
    std::vector<double> us;
    for (std::uint32_t round = 0; round < rounds; ++round) {
      const std::int64_t start = weft::now_ns();
      if (rank_ == 1) send(bytes);
      await(1, wait);
      if (rank_ == 0) send(bytes);
      us.push_back(static_cast<double>(weft::now_ns() - start) * 0.5e-3);
    }
    if (wait == Wait::spinning) wire_->leave();
    return weft::median(us);
  }

  template <class Body>
  Rate rate(std::size_t total, Body&& body) {
    meet();
    const std::int64_t start = weft::now_ns(), cpu = cpu_ns();
    body();
    meet();
    const auto ns = static_cast<double>(weft::now_ns() - start);
    const std::int64_t mine = cpu_ns() - cpu;
    const auto a_byte = [&](std::int64_t time) { return static_cast<double>(time) / static_cast<double>(total); };
    return {static_cast<double>(total) * 1e3 / ns, a_byte(mine), a_byte(control_.exchange(mine))};
  }

  void send(std::size_t bytes) {
    const weft::RemoteCounter counter{kSegment, kMost};
    for (std::size_t at = 0; at < bytes;) {
      const std::size_t some = std::min(bytes - at, wire_->most_staged_bytes());
      std::byte* staged = wire_->stage(some);
      std::memcpy(staged, source_.data() + at, some);
      wire_->put(1 - rank_, {kSegment, at, 1, some, some}, staged, {&counter, at + some == bytes ? 1u : 0u});
      at += some;
    }
  }

  void await(std::uint32_t times, Wait wait) {
    const std::atomic_ref counter(*reinterpret_cast<std::uint32_t*>(memory_.data() + kMost));
    awaited_ += times;
    const auto ready = [&] { return counter.load(std::memory_order_seq_cst) >= awaited_; };
    while (!ready()) {
      if (wait == Wait::spinning)
        wire_->progress();
      else
        weft::sleep_unless(bell_, ready, std::chrono::milliseconds(100));
      check();
    }
  }

  int rank_;
  Control control_;
  weft::Bell bell_;
  std::vector<std::byte> memory_, source_;
  std::atomic<bool> lost_{false};
  std::uint32_t awaited_ = 0;
  std::unique_ptr<weft::NetworkWire> wire_;
};

struct Report {
  Bench& bench;
  bool print;

  void say(const std::string& line) const {
    if (print) fmt::print("{}\n", line);
    std::fflush(stdout);
  }

  void latency() const {
    say("put + signal, us one way\n     bytes   spinning     asleep");
    for (const std::size_t bytes : {8, 64, 1024, 4096, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20}) {
      const double spinning = bench.latency_us(bytes, Wait::spinning), asleep = bench.latency_us(bytes, Wait::asleep);
      say(fmt::format("{:10} {:10.1f} {:10.1f}", bytes, spinning, asleep));
    }
  }

  void bandwidth() const {
    constexpr std::size_t kTotal = 64 << 20;
    say("bandwidth, receiver asleep; CPU time in ns a byte\n     bytes       MB/s   send  receive   both");
    const auto row = [&](const std::string& name, const Rate& rate) {
      say(fmt::format("{:>10} {:10.1f} {:6.2f} {:8.2f} {:6.2f}", name, rate.mb_s, rate.send_ns, rate.receive_ns,
                      rate.send_ns + rate.receive_ns));
    };
    for (int round = 0; round < 3; ++round) {
      row("socket", bench.socket_rate(kTotal));
      for (const std::size_t bytes : {16 << 10, 64 << 10, 1 << 20, 4 << 20})
        row(std::to_string(bytes), bench.wire_rate(bytes, kTotal));
    }
  }

  void idle() const { say(fmt::format("idle for 5 s, connected: {:.3f} % of a core", 100 * bench.idle_share())); }
};

}  // namespace

int main(int argc, char** argv) {
  try {
    std::string device, where, what = "all", link = "tls";
    int rank = -1;
    for (int i = 1; i + 1 < argc; i += 2) {
      const std::string_view option = argv[i];
      if (option == "--device") device = argv[i + 1];
      if (option == "--what") what = argv[i + 1];
      if (option == "--link") link = argv[i + 1];
      if (option != "--serve" && option != "--connect") continue;
      rank = option == "--serve" ? 0 : 1;
      where = argv[i + 1];
    }
    const std::size_t colon = where.find(':');
    if (rank < 0 || (rank == 1 && colon == where.npos))
      weft::bad_input("usage: wire_floor --serve PORT | --connect HOST:PORT [--device DEV] [--link tls|ucx,trusted]");
    const int fd = rank == 0 ? listen_and_accept(std::stoi(where))
                             : connect_to(where.substr(0, colon), std::stoi(where.substr(colon + 1)));
    const auto kind = weft::parse_wire(link);
    if (!kind) weft::bad_input("--link is \"{}\"; use tls, ucx or ucx,trusted", link);
    Bench bench(rank, Control(fd), device, *kind);
    const Report report{bench, rank == 1};
    if (what == "all" || what == "latency") report.latency();
    if (what == "all" || what == "bandwidth") report.bandwidth();
    if (what == "all" || what == "idle") report.idle();
    bench.meet();  // who goes while the other still waits for a counter is missed
  } catch (const std::exception& error) {
    fmt::print(stderr, "wire_floor: {}\n", error.what());
    return 1;
  }
}
