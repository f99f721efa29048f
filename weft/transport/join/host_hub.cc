#include "weft/transport/join/host_hub.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <string_view>
#include <thread>
#include <utility>

#include "weft/base/error.h"
#include "weft/base/index.h"
#include "weft/transport/join/mpirun.h"
#include "weft/transport/local/heartbeat.h"
#include "weft/transport/local/own_thread.h"
#include "weft/transport/local/wait.h"

namespace weft {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::milliseconds kHostRetry{5};   // between two attempts to reach the rank that serves
constexpr std::chrono::seconds kHostLastAnswers{2};  // for the hub to send what it owes before it goes
// For ranks that come after the job has failed: they hear who failed, not just that the hub is gone.
constexpr std::chrono::milliseconds kHostLastGuests{500};

// What a rank says first.
struct Greeting {
  std::int32_t position;  // in Meeting::ranks
  std::int32_t size;
};

struct Address {
  sockaddr_un name{};
  socklen_t bytes = 0;
};

Address address_of(std::string_view text) {
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

Fd listen_for_others(const Meeting& meeting) {
  const Address address = address_of(meeting.name);
  Fd listener = open_socket();
  fcntl(listener.get(), F_SETFL, O_NONBLOCK);
  if (bind(listener.get(), reinterpret_cast<const sockaddr*>(&address.name), address.bytes) != 0)
    bad_input(
        "rank {} of {} cannot open its rendezvous: {}; a program that a rank starts is no rank: unset {} and {} for it",
        meeting.rank, meeting.job, std::strerror(errno), kMpiRankEnv, kRankEnv);
  if (listen(listener.get(), kMaxLocalRanks) != 0) fail(Code::io, "cannot listen: {}", std::strerror(errno));
  return listener;
}

Fd connect_to_first(const Meeting& meeting) {
  const Address address = address_of(meeting.name);
  const auto start = Clock::now();
  const auto limit = patience_from_env().total;
  while (true) {
    Fd peer = open_socket();
    if (connect(peer.get(), reinterpret_cast<const sockaddr*>(&address.name), address.bytes) == 0) {
      if (!same_user(peer)) bad_input("the rendezvous of {} belongs to another user; start it again", meeting.job);
      return peer;
    }
    if (Clock::now() - start > limit)
      throw Error(Code::deadline,
                  fmt::format("rank {} waited {:.1f} s for rank {} of {} to call World::init ({}); "
                              "WEFT_WAIT_S sets the limit",
                              meeting.rank, std::chrono::duration<double>(limit).count(), meeting.ranks.front(),
                              meeting.job, std::strerror(errno)),
                  meeting.ranks.front());
    std::this_thread::sleep_for(kHostRetry);
  }
}

// The hub and the thread that serves it.
class HubThread {
 public:
  HubThread(std::vector<int> ranks, Fd listener, std::shared_ptr<const Fd> control_fd, Control control)
      : ranks_(std::move(ranks)),
        control_(std::move(control)),
        hub_(size(), std::move(control_fd)),
        listener_(std::move(listener)),
        stop_(eventfd(0, EFD_CLOEXEC)),
        own_end_(hub_.take_rank_end(0)) {
    if (!stop_) fail(Code::io, "cannot make an eventfd: {}", std::strerror(errno));
    thread_ = start_own_thread([this] { run(); });
  }
  ~HubThread() {
    wake(stop_);
    thread_.join();
  }
  HubThread(const HubThread&) = delete;
  HubThread& operator=(const HubThread&) = delete;

  Fd take_own_end() { return std::move(own_end_); }

 private:
  int size() const { return int_size(ranks_); }

  void run() {
    try {
      while (turn()) {
      }
      const auto last_guests = Clock::now() + kHostLastGuests;
      while (control_.failed() && !all_seated() && Clock::now() < last_guests) {
        wait_for_news(10);
        admit();
      }
      listener_ = {};
      const auto until = Clock::now() + kHostLastAnswers;
      while (hub_.has_outgoing() && Clock::now() < until) {
        wait_for_news(10);
        hub_.serve();
      }
    } catch (const std::exception& error) {
      control_.report(control_.num_ranks(), ranks_.front(), error.what());
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
    for (int position = 0; position < size(); ++position)
      if (!hub_.seated(position)) return false;
    return true;
  }

  // Seats the guests that have said who they are; one that speaks nonsense is sent away, and so, with an empty message,
  // is one whose place is taken.
  void greet() {
    std::vector<Fd> waiting;
    for (Fd& guest : guests_) {
      Greeting hello{};
      const ssize_t count = recv(guest.get(), &hello, sizeof hello, MSG_DONTWAIT);
      if (count < 0 && (errno == EAGAIN || errno == EINTR))
        waiting.push_back(std::move(guest));
      else if (count == sizeof hello && hello.size == size() && hello.position > 0 && hello.position < hello.size)
        hub_.seated(hello.position) ? send_away(std::move(guest)) : hub_.seat(hello.position, std::move(guest));
    }
    guests_ = std::move(waiting);
  }

  static void send_away(Fd guest) {
    FrameSocket socket(std::move(guest));
    socket.queue({});
    socket.transfer();
  }

  // A rank that ends before it has attached has given nobody a pidfd to watch.
  void report_lost() const {
    for (int position = 0; position < size(); ++position)
      if (hub_.seated(position) && !hub_.open(position) && !hub_.attached(position))
        control_.report(control_.num_ranks(), ranks_[position], "its process ended before it had joined the others");
  }

  std::vector<int> ranks_;
  Control control_;
  Hub hub_;
  Fd listener_;
  Fd stop_;
  Fd own_end_;
  std::vector<Fd> guests_;  // connected, but not yet seated
  std::thread thread_;
};

ShmSeat seat_of_first(const Meeting& meeting) {
  Fd listener = listen_for_others(meeting);
  const int size = meeting.world_size;
  const std::size_t bytes = Control::bytes_for(size);
  auto control_fd = std::make_shared<const Fd>(make_memfd(bytes));
  Control control = Control::create(map_shared(*control_fd, bytes), size);
  for (int rank = 0; rank < size; ++rank) beat(control, rank);  // silence counts from here
  auto hub = std::make_shared<HubThread>(meeting.ranks, std::move(listener), std::move(control_fd), control);
  FrameSocket socket(hub->take_own_end());
  receive_control(socket, size);  // the same block, which this rank has already
  return {.rank = meeting.rank,
          .ranks = meeting.ranks,
          .socket = std::move(socket),
          .control = std::move(control),
          .hub_rank = meeting.rank,
          .hub = std::move(hub)};
}

ShmSeat seat_of_other(const Meeting& meeting) {
  Fd peer = connect_to_first(meeting);
  const int first = meeting.ranks.front();
  const auto place = std::find(meeting.ranks.begin(), meeting.ranks.end(), meeting.rank) - meeting.ranks.begin();
  const Greeting hello{static_cast<std::int32_t>(place), int_size(meeting.ranks)};
  if (send(peer.get(), &hello, sizeof hello, MSG_NOSIGNAL) != sizeof hello)
    throw Error(Code::peer_failed,
                fmt::format("rank {} hung up on rank {}: {}", first, meeting.rank, std::strerror(errno)), first);
  FrameSocket socket(std::move(peer));
  Control control = receive_control(socket, meeting.world_size);
  return {.rank = meeting.rank,
          .ranks = meeting.ranks,
          .socket = std::move(socket),
          .control = std::move(control),
          .hub_rank = first};
}

}  // namespace

ShmSeat meet(const Meeting& meeting) {
  return meeting.rank == meeting.ranks.front() ? seat_of_first(meeting) : seat_of_other(meeting);
}

}  // namespace weft
