#include "weft/transport/local/heartbeat.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <utility>

#include "weft/base/clock.h"
#include "weft/base/error.h"
#include "weft/transport/local/own_thread.h"

namespace weft {
namespace {

// The launcher, as the parent, can say which signal killed a rank; a peer sees only that it is gone. So peers
// report a little later, and only what nobody has reported yet.
constexpr std::chrono::milliseconds kLetLauncherSpeak{20};

}  // namespace

void beat(const Control& control, int rank) {
  control.rank(rank).heartbeat_ns.store(now_ns(), std::memory_order_relaxed);
}

std::chrono::nanoseconds since_beat(const Control& control, int rank) {
  const std::int64_t ns = now_ns() - control.rank(rank).heartbeat_ns.load(std::memory_order_relaxed);
  return std::chrono::nanoseconds(ns > 0 ? ns : 0);
}

Heartbeat::Heartbeat(Control control, int rank, std::vector<std::shared_ptr<const Fd>> processes, pollfd launcher)
    : control_(std::move(control)),
      rank_(rank),
      processes_(std::move(processes)),
      launcher_(launcher),
      stop_(eventfd(0, EFD_CLOEXEC)) {
  if (!stop_) fail(Code::io, "cannot make an eventfd: {}", std::strerror(errno));
  thread_ = start_own_thread([this] { run(); });
}

Heartbeat::~Heartbeat() {
  wake(stop_);
  thread_.join();
}

void Heartbeat::run() {
  const int num_ranks = control_.num_ranks();
  std::vector<pollfd> polls;
  for (int peer = 0; peer < num_ranks; ++peer)
    polls.push_back({peer == rank_ || !processes_[peer] ? -1 : processes_[peer]->get(), POLLIN, 0});
  polls.push_back(launcher_);
  polls.push_back({stop_.get(), POLLIN, 0});
  while (true) {
    beat(control_, rank_);
    if (poll(polls.data(), polls.size(), static_cast<int>(kHeartbeat.count())) <= 0) continue;
    if (polls[num_ranks + 1].revents != 0) return;
    if (polls[num_ranks].revents != 0) kill(getpid(), SIGKILL);
    std::vector<int> dead;
    for (int peer = 0; peer < num_ranks; ++peer) {
      if (polls[peer].revents == 0) continue;
      polls[peer].fd = -1;
      // The load sees a `left` stored before the process ended: its end came to us through the kernel.
      if (control_.rank(peer).left.load(std::memory_order_seq_cst) == 0) dead.push_back(peer);
    }
    report(dead);
  }
}

void Heartbeat::report(const std::vector<int>& dead) const {
  if (dead.empty()) return;
  pollfd stop{stop_.get(), POLLIN, 0};
  poll(&stop, 1, static_cast<int>(kLetLauncherSpeak.count()));
  for (const int peer : dead) control_.report(rank_, peer, "its process died without leaving");
}

}  // namespace weft
