#include "weft/transport/wire/watch.h"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <ctime>
#include <utility>

#include "weft/base/error.h"
#include "weft/transport/local/own_thread.h"

namespace weft {
namespace {

// How long a rank that has left keeps the wire's thread waiting, and how long one that keeps coming back does.
constexpr long kLingerNs = 200'000;
constexpr long kLongerNs = 1'000'000;

}  // namespace

Watch::Watch(int descriptor, std::function<void()> serve, std::function<std::chrono::nanoseconds()> pause)
    : descriptor_(descriptor),
      serve_(std::move(serve)),
      pause_(std::move(pause)),
      epoll_(epoll_create1(EPOLL_CLOEXEC)),
      stop_(eventfd(0, EFD_CLOEXEC)),
      timer_(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK)) {
  if (!epoll_ || !stop_ || !timer_) fail(Code::io, "cannot make an epoll descriptor: {}", std::strerror(errno));
  for (const int fd : {descriptor_, stop_.get(), timer_.get()}) {
    epoll_event event{.events = EPOLLIN, .data = {.fd = fd}};
    if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0)
      fail(Code::io, "cannot watch a descriptor: {}", std::strerror(errno));
  }
  thread_ = start_own_thread([this] { run(); });
}

Watch::~Watch() {
  wake(stop_);
  thread_.join();
}

void Watch::run() {
  while (true) {
    epoll_event events[3];
    const int num_events = epoll_wait(epoll_.get(), events, 3, -1);
    for (int i = 0; i < num_events; ++i) {
      if (events[i].data.fd == stop_.get()) return;
      if (events[i].data.fd == timer_.get()) {
        on_timer();
        continue;
      }
      serve_();
      if (!nap(pause_())) return;
    }
  }
}

bool Watch::nap(std::chrono::nanoseconds time) {
  if (time.count() <= 0) return true;
  const timespec timeout{.tv_sec = time.count() / 1'000'000'000, .tv_nsec = time.count() % 1'000'000'000};
  pollfd stop{stop_.get(), POLLIN, 0};
  return ppoll(&stop, 1, &timeout, nullptr) == 0;
}

void Watch::attend() {
  const std::lock_guard lock(mutex_);
  came_back_ = true;
  if (attending_++ == 0 && interested_) set_interest(false);
}

void Watch::leave() {
  const std::lock_guard lock(mutex_);
  if (--attending_ == 0 && !interested_) linger();
}

void Watch::rest() {
  const std::lock_guard lock(mutex_);
  if (--attending_ <= 0 && !interested_) take_over();
}

// One timer for all that come and go meanwhile. On virtual machines setting it takes 6 us, as much as sending a
// message: a rank that runs one small op after another sets it once, and then the thread does.
void Watch::linger() {
  if (lingering_) return;
  lingering_ = true;
  set_timer(kLingerNs);
}

void Watch::set_timer(long ns) {
  came_back_ = false;
  const itimerspec then{.it_interval = {}, .it_value = {.tv_sec = 0, .tv_nsec = ns}};
  timerfd_settime(timer_.get(), 0, &then, nullptr);
}

void Watch::on_timer() {
  std::uint64_t times = 0;
  if (::read(timer_.get(), &times, sizeof times) != sizeof times) return;
  const std::lock_guard lock(mutex_);
  lingering_ = attending_ <= 0 && !interested_ && came_back_;
  if (lingering_) {
    serve_();  // what was held back goes now
    set_timer(kLongerNs);
  } else if (attending_ <= 0 && !interested_) {
    take_over();
  }
}

// serve() leaves the descriptor armed: what comes after it wakes the thread.
void Watch::take_over() {
  serve_();
  set_interest(true);
}

// The kernel looks at the descriptor when the interest comes back: if it is readable by then, the thread wakes.
void Watch::set_interest(bool interested) {
  interested_ = interested;
  epoll_event event{.events = interested ? EPOLLIN : 0u, .data = {.fd = descriptor_}};
  epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, descriptor_, &event);
}

}  // namespace weft
