#include "weft/transport/local/shm.h"

#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <string>
#include <string_view>
#include <utility>

#include "weft/base/error.h"
#include "weft/base/index.h"
#include "weft/transport/join/mpirun.h"
#include "weft/transport/join/net_join.h"
#include "weft/transport/local/wait.h"

namespace weft {
namespace {

int number_from_env(const char* name, int least, int most) {
  const char* text = std::getenv(name);
  if (text == nullptr) bad_input("{} is not set; start ranks with `weft run -n N -- PROG`", name);
  return parse_env_number(name, text, {least, most}, "weft run -n N -- PROG");
}

[[noreturn]] void refuse_second() {
  bad_input(
      "another process has joined as rank {} already; a program that a rank starts is no rank: unset {} and {} for it",
      launched_rank(), kRankEnv, kMpiRankEnv);
}

// Two processes that inherited the same end would read each other's messages. The first one leaves a mark on the
// socket, which all its holders see, for who comes after it; and holds a name made of the socket while it lives, since
// only one of two that come together can bind it.
void claim(int fd, const struct stat& status) {
  static Fd held(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  const std::string text = fmt::format("weft rank {} {} {}", geteuid(), status.st_dev, status.st_ino);
  std::memcpy(name.sun_path + 1, text.data(), text.size());  // the first byte is 0: abstract
  const auto bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + text.size());
  int joined = 0;
  socklen_t joined_bytes = sizeof joined;
  getsockopt(fd, SOL_SOCKET, SO_PRIORITY, &joined, &joined_bytes);
  if (joined != 0 || (bind(held.get(), reinterpret_cast<const sockaddr*>(&name), bytes) != 0 && errno == EADDRINUSE))
    refuse_second();
  joined = 1;
  setsockopt(fd, SOL_SOCKET, SO_PRIORITY, &joined, sizeof joined);
}

// The inherited end. Forgotten in the environment, so that programs this rank starts do not take themselves
// for it.
FrameSocket open_rendezvous() {
  const int fd = number_from_env(kRendezvousFdEnv, 3, 1 << 20);
  struct stat status {};
  if (fstat(fd, &status) != 0 || !S_ISSOCK(status.st_mode))
    bad_input("{}={} is not an open socket; start ranks with `weft run -n N -- PROG`", kRendezvousFdEnv, fd);
  claim(fd, status);
  unsetenv(kRendezvousFdEnv);
  return FrameSocket(Fd(fd));
}

// A direct child dies with its launcher. One that a script or a debugger started in between cannot ask the
// kernel for that; its heartbeat watches the socket instead.
void die_with_launcher(const Control& control) {
  if (getppid() == control.launcher_pid()) prctl(PR_SET_PDEATHSIG, SIGKILL);
}

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
  const auto frame = receive_frame(socket, [](std::chrono::nanoseconds waited) {
    if (waited > patience_from_env().total) fail(Code::deadline, "the launcher of this rank does not answer");
  });
  if (!frame) fail(Code::peer_failed, "the launcher of this rank is gone");
  if (frame->fds.empty()) refuse_second();
  struct stat status {};
  if (frame->fds.size() != 1 || fstat(frame->fds.front()->get(), &status) != 0)
    fail(Code::io, "the launcher sent no control block");
  const auto bytes = num(status.st_size);
  return Control::open(map_shared(*frame->fds.front(), bytes), bytes, num_ranks);
}

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
int launched_here() {
  if (under_mpirun()) return number_or_less(kMpiLocalSizeEnv);
  const int here = number_or_less(kHereEnv);
  return here > 0 ? here : launched_size();
}
bool launched_on_several_hosts() {
  if (under_mpirun()) return launched_here() < launched_size();
  return std::getenv(kRendezvousEnv) != nullptr;
}

std::vector<int> ranks_from(int first, int count) {
  std::vector<int> ranks(num(count));
  std::iota(ranks.begin(), ranks.end(), first);
  return ranks;
}

ShmSeat seat_at_launcher(int rank, int size, std::vector<int> ranks) {
  FrameSocket socket = open_rendezvous();
  Control control = receive_control(socket, size);
  die_with_launcher(control);
  const pollfd launcher{socket.fd(), 0, 0};  // POLLHUP alone
  return {.rank = rank,
          .ranks = std::move(ranks),
          .socket = std::move(socket),
          .control = std::move(control),
          .launcher = launcher};
}

std::unique_ptr<Transport> join_launch(std::optional<WireKind> wire) {
  if (under_mpirun()) return attach_mpirun(wire);
  if (std::getenv(kRendezvousEnv) != nullptr) return attach_rendezvous(wire);
  const int size = number_from_env(kSizeEnv, 1, kMaxLocalRanks);
  const int rank = number_from_env(kRankEnv, 0, size - 1);
  return join_shm(seat_at_launcher(rank, size, ranks_from(0, size)));
}

}  // namespace weft
