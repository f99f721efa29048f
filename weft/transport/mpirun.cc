#include "weft/transport/mpirun.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "weft/base/error.h"
#include "weft/transport/heartbeat.h"
#include "weft/transport/process.h"
#include "weft/transport/shm.h"
#include "weft/transport/wait.h"

namespace weft {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::milliseconds kRetry{5};   // between two attempts to reach rank 0
constexpr std::chrono::seconds kLastAnswers{2};  // for the hub to send what it owes before it goes
// For ranks that come after the job has failed: they hear who failed, not just that rank 0 is gone.
constexpr std::chrono::milliseconds kLastGuests{500};

// What a rank says first.
struct Hello {
  std::int32_t rank;
  std::int32_t size;
};

int number_from_env(const char* name, int least, int most) {
  const char* text = std::getenv(name);
  return parse_env_number(name, text == nullptr ? "" : text, {least, most}, "mpirun -n N PROG");
}

struct Address {
  sockaddr_un name{};
  socklen_t bytes = 0;
};

// The job's number alone could come again; with the folder of the server that runs the job it is one of a kind.
Address address_of_job() {
  const char* folder = std::getenv("PMIX_SERVER_TMPDIR");
  const auto text = fmt::format("weft {} {} {}", geteuid(), std::getenv(kMpiJobEnv), folder == nullptr ? "" : folder);
  Address address;
  address.name.sun_family = AF_UNIX;
  const std::size_t length = std::min(text.size(), sizeof address.name.sun_path - 1);
  std::memcpy(address.name.sun_path + 1, text.data(), length);  // the first byte is 0: abstract
  address.bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + length);
  return address;
}

Fd open_socket() {
  Fd out(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!out) fail(Code::io, "cannot make a socket: {}", std::strerror(errno));
  return out;
}

bool same_user(const Fd& peer) {
  ucred who{};
  socklen_t bytes = sizeof who;
  return getsockopt(peer.get(), SOL_SOCKET, SO_PEERCRED, &who, &bytes) == 0 && who.uid == geteuid();
}

Fd listen_as_rank_zero(const Address& address) {
  Fd listener = open_socket();
  fcntl(listener.get(), F_SETFL, O_NONBLOCK);
  if (bind(listener.get(), reinterpret_cast<const sockaddr*>(&address.name), address.bytes) != 0)
    bad_input(
        "rank 0 of this mpirun job cannot open its rendezvous: {}; a program that a rank starts is no rank: unset {}",
        std::strerror(errno), kMpiRankEnv);
  if (listen(listener.get(), kMaxLocalRanks) != 0) fail(Code::io, "cannot listen: {}", std::strerror(errno));
  return listener;
}

Fd connect_to_rank_zero(const Address& address, int rank) {
  const auto start = Clock::now();
  const auto limit = patience_from_env().total;
  while (true) {
    Fd peer = open_socket();
    if (connect(peer.get(), reinterpret_cast<const sockaddr*>(&address.name), address.bytes) == 0) {
      if (!same_user(peer)) bad_input("the rendezvous of this mpirun job belongs to another user; start the job again");
      return peer;
    }
    if (Clock::now() - start > limit)
      throw Error(Code::deadline,
                  fmt::format("rank {} waited {:.1f} s for rank 0 of this mpirun job to call World::init ({}); "
                              "WEFT_WAIT_S sets the limit",
                              rank, std::chrono::duration<double>(limit).count(), std::strerror(errno)),
                  0);
    std::this_thread::sleep_for(kRetry);
  }
}

// The hub and the thread that serves it.
class HubThread {
 public:
  HubThread(int num_ranks, Fd listener, std::shared_ptr<const Fd> control_fd, Control control)
      : control_(std::move(control)),
        hub_(num_ranks, std::move(control_fd)),
        listener_(std::move(listener)),
        stop_(eventfd(0, EFD_CLOEXEC)),
        own_end_(hub_.take_rank_end(0)) {
    if (!stop_) fail(Code::io, "cannot make an eventfd: {}", std::strerror(errno));
    sigset_t all;
    sigset_t before;
    sigfillset(&all);  // signals are the program's business, as in heartbeat.cc
    pthread_sigmask(SIG_SETMASK, &all, &before);
    thread_ = std::thread([this] { run(); });
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }
  ~HubThread() {
    const std::uint64_t one = 1;
    while (write(stop_.get(), &one, sizeof one) < 0 && errno == EINTR) {
    }
    thread_.join();
  }
  HubThread(const HubThread&) = delete;
  HubThread& operator=(const HubThread&) = delete;

  Fd take_own_end() { return std::move(own_end_); }

 private:
  void run() {
    try {
      while (turn()) {
      }
      const auto last_guests = Clock::now() + kLastGuests;
      while (control_.failed() && !all_seated() && Clock::now() < last_guests) {
        wait_for_news(10);
        admit();
      }
      listener_ = {};
      const auto until = Clock::now() + kLastAnswers;
      while (hub_.has_outgoing() && Clock::now() < until) {
        wait_for_news(10);
        hub_.serve();
      }
    } catch (const std::exception& error) {
      control_.report(control_.num_ranks(), 0, error.what());
    }
  }

  short wait_for_news(int milliseconds) {
    std::vector<pollfd> polls{{stop_.get(), POLLIN, 0}, {listener_.get(), POLLIN, 0}};
    for (const Fd& guest : guests_) polls.push_back({guest.get(), POLLIN, 0});
    hub_.add_polls(polls);
    if (milliseconds >= 0) polls[0].fd = -1;
    poll(polls.data(), polls.size(), milliseconds);
    return polls[0].revents;
  }

  bool turn() {
    if (wait_for_news(-1) != 0) return false;
    admit();
    report_lost();
    return true;
  }

  void admit() {
    while (true) {
      Fd guest(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
      if (!guest) break;
      if (same_user(guest)) guests_.push_back(std::move(guest));
    }
    greet();
    hub_.serve();
  }

  bool all_seated() const {
    for (int rank = 0; rank < control_.num_ranks(); ++rank)
      if (!hub_.seated(rank)) return false;
    return true;
  }

  // Seats the guests that have said who they are; one whose place is taken, or that speaks nonsense, is sent away.
  void greet() {
    std::vector<Fd> waiting;
    for (Fd& guest : guests_) {
      Hello hello{};
      const ssize_t count = recv(guest.get(), &hello, sizeof hello, MSG_DONTWAIT);
      if (count < 0 && (errno == EAGAIN || errno == EINTR))
        waiting.push_back(std::move(guest));
      else if (count == sizeof hello && hello.size == control_.num_ranks() && hello.rank > 0 &&
               hello.rank < hello.size && !hub_.seated(hello.rank))
        hub_.seat(hello.rank, std::move(guest));
    }
    guests_ = std::move(waiting);
  }

  // A rank that ends before it has attached has given nobody a pidfd to watch.
  void report_lost() const {
    for (int rank = 0; rank < control_.num_ranks(); ++rank)
      if (hub_.seated(rank) && !hub_.open(rank) && !hub_.attached(rank))
        control_.report(control_.num_ranks(), rank, "its process ended before it had joined the others");
  }

  Control control_;
  Hub hub_;
  Fd listener_;
  Fd stop_;
  Fd own_end_;
  std::vector<Fd> guests_;  // connected, but not yet seated
  std::thread thread_;
};

ShmSeat seat_of_rank_zero(const Address& address, int size) {
  Fd listener = listen_as_rank_zero(address);
  const std::size_t bytes = Control::bytes_for(size);
  auto control_fd = std::make_shared<const Fd>(make_memfd(bytes));
  Control control = Control::create(map_shared(*control_fd, bytes), size);
  for (int rank = 0; rank < size; ++rank) beat(control, rank);  // silence counts from here
  auto hub = std::make_shared<HubThread>(size, std::move(listener), std::move(control_fd), control);
  FrameSocket socket(hub->take_own_end());
  receive_control(socket, size);  // the same block, which this rank has already
  return {.rank = 0, .socket = std::move(socket), .control = std::move(control), .hub = std::move(hub)};
}

ShmSeat seat_of_other(const Address& address, int rank, int size) {
  Fd peer = connect_to_rank_zero(address, rank);
  const Hello hello{rank, size};
  if (send(peer.get(), &hello, sizeof hello, MSG_NOSIGNAL) != sizeof hello)
    throw Error(Code::peer_failed, fmt::format("rank 0 hung up on rank {}: {}", rank, std::strerror(errno)), 0);
  FrameSocket socket(std::move(peer));
  Control control = receive_control(socket, size);
  return {.rank = rank, .socket = std::move(socket), .control = std::move(control)};
}

}  // namespace

bool under_mpirun() {
  return std::getenv(kMpiRankEnv) != nullptr && std::getenv(kMpiJobEnv) != nullptr && std::getenv(kRankEnv) == nullptr;
}

std::unique_ptr<Transport> attach_mpirun() {
  static std::atomic<bool> attached{false};
  const int size = number_from_env(kMpiSizeEnv, 1, kMaxLocalRanks);
  const int rank = number_from_env(kMpiRankEnv, 0, size - 1);
  const int here = number_from_env(kMpiLocalSizeEnv, 1, size);
  if (here != size)
    bad_input(
        "{} of the {} ranks of this mpirun job are on this host; Weft joins ranks of one host only, as yet: "
        "use `mpirun --host localhost:{} -n {}`",
        here, size, size, size);
  if (attached.exchange(true)) bad_input("this process has joined its mpirun job already; call World::init once");
  const Address address = address_of_job();
  ShmSeat seat = rank == 0 ? seat_of_rank_zero(address, size) : seat_of_other(address, rank, size);
  seat.hub_rank = 0;
  // Kept open as long as the process lives. A parent in another pid namespace (0) cannot be watched.
  static const Fd parent = getppid() > 0 ? open_process(getppid()) : Fd();
  seat.launcher = {parent.get(), POLLIN, 0};
  return join_shm(std::move(seat));
}

}  // namespace weft
