#include "weft/transport/shm.h"

#include <poll.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <charconv>
#include <csignal>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "weft/base/error.h"
#include "weft/transport/heartbeat.h"
#include "weft/transport/local.h"
#include "weft/transport/mpirun.h"
#include "weft/transport/process.h"

namespace weft {
namespace {

constexpr int kPollSliceMs = 50;  // how often a set-up call looks for dead peers
// From the end of the hub to the report of how the rank that served it ended (heartbeat.h).
constexpr std::chrono::seconds kLetPeersSpeak{1};

int number_from_env(const char* name, int least, int most) {
  const char* text = std::getenv(name);
  if (text == nullptr) bad_input("{} is not set; start ranks with `weft run -n N -- PROG`", name);
  return parse_env_number(name, text, {least, most}, "weft run -n N -- PROG");
}

// The inherited end. Forgotten in the environment, so that programs this rank starts do not take themselves
// for it.
FrameSocket open_rendezvous() {
  const int fd = number_from_env(kRendezvousFdEnv, 3, 1 << 20);
  struct stat status {};
  if (fstat(fd, &status) != 0 || !S_ISSOCK(status.st_mode))
    bad_input("{}={} is not an open socket; start ranks with `weft run -n N -- PROG`", kRendezvousFdEnv, fd);
  unsetenv(kRendezvousFdEnv);
  return FrameSocket(Fd(fd));
}

// Moves frames until one has come, or nothing once the hub has hung up; `look_around` is called in between and
// may throw.
template <class LookAround>
std::optional<Frame> receive(FrameSocket& socket, LookAround&& look_around) {
  const auto start = std::chrono::steady_clock::now();
  while (true) {
    const bool open = socket.transfer();
    if (auto frame = socket.next()) return frame;
    if (!open) return std::nullopt;
    pollfd ready{socket.fd(), socket.events(), 0};
    poll(&ready, 1, kPollSliceMs);
    look_around(std::chrono::nanoseconds(std::chrono::steady_clock::now() - start));
  }
}

// A direct child dies with its launcher. One that a script or a debugger started in between cannot ask the
// kernel for that; its heartbeat watches the socket instead.
void die_with_launcher(const Control& control) {
  if (getppid() == control.launcher_pid()) prctl(PR_SET_PDEATHSIG, SIGKILL);
}

class ShmTransport final : public LocalTransport {
 public:
  explicit ShmTransport(ShmSeat seat)
      : LocalTransport(seat.rank, std::move(seat.control)),
        hub_(std::move(seat.hub)),
        hub_rank_(seat.hub_rank),
        socket_(std::move(seat.socket)) {
    try {
      attach(seat.launcher);
    } catch (...) {
      abort_with_current_exception(*this);
      throw;
    }
  }

  std::string_view name() const override { return "shm"; }

  std::chrono::nanoseconds silent_for(int rank) const override { return since_beat(control(), rank); }

 private:
  std::vector<std::string> gather(const std::string& mine) override {
    std::vector<std::string> texts;
    for (Parcel& parcel : exchange({mine, nullptr}, "a set-up call")) texts.push_back(std::move(parcel.text));
    return texts;
  }

  void attach(pollfd launcher) {
    beat(control(), rank());
    auto self = std::make_shared<const Fd>(open_process(getpid()));
    std::vector<std::shared_ptr<const Fd>> processes;
    for (Parcel& parcel : exchange({{}, std::move(self)}, "attach")) processes.push_back(std::move(parcel.fd));
    heartbeat_.emplace(control(), rank(), std::move(processes), launcher);
  }

  std::vector<std::shared_ptr<void>> share(const std::vector<std::size_t>& bytes) override {
    Parcel mine;
    try {
      mine.fd = std::make_shared<const Fd>(make_memfd(bytes[rank()]));
    } catch (const Error& error) {
      mine.text = error.what();  // goes to all ranks, which then fail alike
    }
    std::vector<std::shared_ptr<void>> memory;
    for (const Parcel& parcel : exchange(std::move(mine), "allocate")) {
      const int owner = static_cast<int>(memory.size());
      if (!parcel.fd) throw Error(Code::no_memory, fmt::format("rank {}: {}", owner, parcel.text), owner, host(owner));
      memory.push_back(map_shared(*parcel.fd, bytes[owner]));
    }
    return memory;
  }

  std::vector<Parcel> exchange(Parcel mine, std::string_view call) {
    const std::uint32_t at = arrive();
    socket_.queue(pack({std::move(mine)}));
    const auto look_around = [&](std::chrono::nanoseconds waited) { keep_waiting(call, at, waited); };
    const auto answer = receive(socket_, look_around);
    if (!answer) blame_hub(look_around);
    auto parcels = unpack(*answer);
    if (parcels.size() != static_cast<std::size_t>(size()))
      fail(Code::io, "{} ranks answered in {}, expected {}", parcels.size(), call, size());
    return parcels;
  }

  // The hub has hung up. Where it lived in a rank, that rank is to blame, and best in the words of whoever saw it end.
  template <class LookAround>
  [[noreturn]] void blame_hub(LookAround&& look_around) {
    if (hub_rank_ < 0) fail(Code::peer_failed, "the launcher of this rank is gone");
    const auto stop = std::chrono::steady_clock::now() + kLetPeersSpeak;
    while (std::chrono::steady_clock::now() < stop) {
      look_around(std::chrono::nanoseconds(0));
      usleep(1000);
    }
    throw Error(Code::peer_failed, fmt::format("rank {}, which serves the others' set-up calls, is gone", hub_rank_),
                hub_rank_, host(hub_rank_));
  }

  std::shared_ptr<void> hub_;
  int hub_rank_;
  FrameSocket socket_;
  std::optional<Heartbeat> heartbeat_;  // stops before the socket it watches is closed
};

// -1 where the environment says no number.
int number_or_less(const char* name) {
  const char* text = std::getenv(name);
  const std::string_view digits(text == nullptr ? "" : text);
  int number = -1;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  return error == std::errc() && end == digits.data() + digits.size() ? number : -1;
}

}  // namespace

Control receive_control(FrameSocket& socket, int num_ranks) {
  const auto frame = receive(socket, [](std::chrono::nanoseconds waited) {
    if (waited > patience_from_env().total) fail(Code::deadline, "the launcher of this rank does not answer");
  });
  if (!frame) fail(Code::peer_failed, "the launcher of this rank is gone, or has this rank already");
  struct stat status {};
  if (frame->fds.size() != 1 || fstat(frame->fds.front()->get(), &status) != 0)
    fail(Code::io, "the launcher sent no control block");
  const auto bytes = static_cast<std::size_t>(status.st_size);
  return Control::open(map_shared(*frame->fds.front(), bytes), bytes, num_ranks);
}

std::unique_ptr<Transport> join_shm(ShmSeat seat) { return std::make_unique<ShmTransport>(std::move(seat)); }

int parse_env_number(const char* name, std::string_view text, EnvRange range, std::string_view command) {
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || number < range.least || number > range.most)
    bad_input("{}=\"{}\" is not a number from {} to {}; start ranks with `{}`", name, text, range.least, range.most,
              command);
  return number;
}

bool launched() { return std::getenv(kRankEnv) != nullptr || under_mpirun(); }

int launched_rank() { return number_or_less(under_mpirun() ? kMpiRankEnv : kRankEnv); }
int launched_size() { return number_or_less(under_mpirun() ? kMpiSizeEnv : kSizeEnv); }

std::unique_ptr<Transport> attach_shm() {
  if (under_mpirun()) return attach_mpirun();
  const int size = number_from_env(kSizeEnv, 1, kMaxLocalRanks);
  const int rank = number_from_env(kRankEnv, 0, size - 1);
  FrameSocket socket = open_rendezvous();
  Control control = receive_control(socket, size);
  die_with_launcher(control);
  const pollfd launcher{socket.fd(), 0, 0};  // POLLHUP alone
  return join_shm({.rank = rank, .socket = std::move(socket), .control = std::move(control), .launcher = launcher});
}

}  // namespace weft
