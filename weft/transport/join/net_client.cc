#include "weft/transport/join/net_client.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "weft/base/clock.h"
#include "weft/base/error.h"
#include "weft/base/index.h"
#include "weft/transport/join/net_hub.h"
#include "weft/transport/local/heartbeat.h"
#include "weft/transport/local/own_thread.h"

namespace weft {
namespace {

using namespace std::chrono_literals;
constexpr auto kLook = 50ms;            // between two looks at the control block
constexpr auto kAsleep = 1s;            // as in net_hub.cc
constexpr auto kLetHubSpeak = 3s;       // after the data path to a rank broke: it may have left
constexpr auto kLastWords = 2s;         // for the hub to read them
constexpr auto kLetFailureSpread = 1s;  // after the hub is gone

void raise_to(std::atomic<std::int64_t>& value, std::int64_t to) {
  std::int64_t seen = value.load(std::memory_order_relaxed);
  while (seen < to && !value.compare_exchange_weak(seen, to, std::memory_order_relaxed)) {
  }
}

void raise_to(std::atomic<std::uint32_t>& value, std::uint32_t to) {
  std::uint32_t seen = value.load(std::memory_order_relaxed);
  while (seen < to && !value.compare_exchange_weak(seen, to, std::memory_order_seq_cst)) {
  }
}

}  // namespace

NetClient::NetClient(FrameSocket socket, Options options)
    : options_(std::move(options)),
      wake_(eventfd(0, EFD_CLOEXEC)),
      socket_(std::move(socket)),
      turned_(Clock::now()),
      beaten_(),
      heard_ns_(now_ns()),
      lost_ns_(num(options_.size)) {
  if (!wake_) fail(Code::io, "cannot make an eventfd: {}", std::strerror(errno));
  socket_.queue(say(Says::host, options_.host));
  thread_ = start_own_thread([this] { run(); });
}

NetClient::~NetClient() { finish(); }

void NetClient::watch(Control control, std::vector<int> remote) {
  const std::lock_guard lock(mutex_);
  for (const int rank : remote) beat(control, rank);
  control_ = std::move(control);
  remote_ = std::move(remote);
  report_failure();
}

void NetClient::run() {
  while (!stop_.load()) {
    pollfd polls[2];
    {
      const std::lock_guard lock(mutex_);
      polls[0] = {open_ ? socket_.fd() : -1, socket_.events(), 0};
    }
    polls[1] = {wake_.get(), POLLIN, 0};
    poll(polls, 2, static_cast<int>(kLook / 1ms));
    const std::lock_guard lock(mutex_);
    turn();
    news_.notify_all();
  }
}

void NetClient::turn() {
  const auto now = Clock::now();
  const auto slept = now - std::exchange(turned_, now);
  if (slept > kAsleep) heard_ns_ += slept.count();  // time that this process was stopped for is nobody's silence
  if (open_) {
    if (now - beaten_ >= beat_period(options_.size) && !socket_.has_outgoing()) {
      beaten_ = now;
      socket_.queue(own_beat());
    }
    tell_failure();
    try {
      open_ = socket_.transfer();
      while (const auto frame = socket_.next()) take(*frame);
    } catch (const Error&) {
      open_ = false;
    }
    if (!open_ && !closing_)
      fail_here({0, Code::peer_failed, {}, "its connection closed, so its process died or its host is gone"});
  }
  judge_hub(now);
  judge_lost(now);
}

// Left before arrived, as in keep_waiting() (local.cc).
Frame NetClient::own_beat() const {
  Beat beat;
  if (control_) {
    const RankState& state = control_->rank(options_.rank);
    beat.left = state.left.load(std::memory_order_seq_cst);
    beat.arrived = state.arrived.load(std::memory_order_seq_cst);
    beat.progress = state.progress.load(std::memory_order_relaxed);
  }
  return say(beat);
}

void NetClient::take(const Frame& frame) {
  heard_ns_.store(now_ns());
  switch (kind_of(frame)) {
    case Says::answer: {
      std::vector<std::string> texts;
      for (Parcel& parcel : unpack({std::string(text_of(frame)), {}})) texts.push_back(std::move(parcel.text));
      answers_.push_back(std::move(texts));
      return;
    }
    case Says::digest:
      if (control_) mirror(pulses_of(frame, options_.size));
      return;
    case Says::failure:
      told_ = true;
      fail_here(failure_of(frame));
      return;
    case Says::closing:
      closing_ = true;
      return;
    default:
      fail(Code::io, "the hub says \"{}\"", frame.bytes.front());
  }
}

// All ranks of this host write what the hub told each, so values only grow; arrived before left, as ranks do.
void NetClient::mirror(const std::vector<Pulse>& pulses) const {
  const std::int64_t now = now_ns();
  for (const int rank : remote_) {
    RankState& state = control_->rank(rank);
    const Pulse& pulse = pulses[rank];
    raise_to(state.heartbeat_ns, now - std::int64_t{pulse.silent_ms} * 1'000'000);
    state.progress.store(pulse.beat.progress, std::memory_order_relaxed);
    raise_to(state.arrived, pulse.beat.arrived);
    raise_to(state.left, pulse.beat.left);
  }
}

void NetClient::fail_here(NetFailure failure) {
  if (failure_) return;
  failure_ = std::move(failure);
  report_failure();
}

void NetClient::report_failure() const {
  if (!failure_ || !control_) return;
  const int rank = failure_->failed_rank;
  if (rank >= 0 && rank < options_.size) control_->set_host(rank, failure_->host);
  control_->report(options_.rank, rank, failure_->reason);
}

void NetClient::tell_failure() {
  if (told_ || !control_ || !control_->failed()) return;
  const auto failure = control_->first_failure();
  if (!failure) return;
  told_ = true;
  const int rank = failure->failed_rank;
  socket_.queue(say(NetFailure{rank, Code::peer_failed, rank < 0 ? "" : control_->host(rank), failure->reason}));
}

void NetClient::judge_hub(Clock::time_point) {
  if (options_.rank == 0 || !open_ || failure_) return;
  const auto silence = std::chrono::nanoseconds(now_ns() - heard_ns_.load());
  if (silence <= options_.patience.silence) return;
  fail_here({0,
             Code::peer_failed,
             {},
             fmt::format("it has been silent for {:.1f} s: stopped, or the link to its host is down; WEFT_DEADLINE_S "
                         "sets the limit",
                         seconds(silence))});
}

void NetClient::judge_lost(Clock::time_point) {
  if (!control_ || failure_) return;
  for (const int rank : remote_) {
    const std::int64_t at = lost_ns_[rank].load();
    if (at == 0 || now_ns() - at < std::chrono::nanoseconds(kLetHubSpeak).count()) continue;
    if (control_->rank(rank).left.load() == 0)
      fail_here({rank, Code::peer_failed, {}, "the data path to it broke, so its process died or its host is gone"});
  }
}

std::vector<std::string> NetClient::gather(const std::string& mine,
                                           const std::function<void(std::chrono::nanoseconds)>& look_around) {
  const auto start = Clock::now();
  std::unique_lock lock(mutex_);
  socket_.queue(say(Says::parcel, mine));
  if (open_) socket_.transfer();  // what cannot be sent at once, the thread sends; that the hub is gone it sees too
  std::optional<Clock::time_point> gone;
  while (true) {
    if (news_.wait_for(lock, kLook, [&] { return !answers_.empty(); })) {
      auto texts = std::move(answers_.front());
      answers_.pop_front();
      if (texts.size() != num(options_.size))
        fail(Code::io, "{} ranks answered in a set-up call, expected {}", texts.size(), options_.size);
      return texts;
    }
    if (failure_ && !control_) throw_failure();
    if (!open_ && !gone) gone = Clock::now();
    if (gone && Clock::now() - *gone > kLetFailureSpread)
      throw Error(Code::peer_failed, "rank 0, which serves the others' set-up calls, is gone", 0);
    lock.unlock();
    look_around(std::chrono::nanoseconds(Clock::now() - start));
    lock.lock();
  }
}

void NetClient::throw_failure() const {
  const NetFailure& failure = *failure_;
  const std::string where = failure.host.empty() ? "" : fmt::format(" (host {})", failure.host);
  throw Error(failure.code, fmt::format("rank {}{} failed: {}", failure.failed_rank, where, failure.reason),
              failure.failed_rank, failure.host);
}

std::chrono::nanoseconds NetClient::hub_silence() const {
  if (options_.rank == 0) return {};
  return std::chrono::nanoseconds(std::max<std::int64_t>(0, now_ns() - heard_ns_.load()));
}

std::chrono::nanoseconds NetClient::silent_for(int rank) const {
  const auto unknown = hub_silence();
  if (rank == 0) return unknown;
  const std::lock_guard lock(mutex_);
  if (!control_) return {};
  return std::max(std::chrono::nanoseconds(0), since_beat(*control_, rank) - unknown);
}

void NetClient::beat_now() {
  const std::lock_guard lock(mutex_);
  if (!open_) return;
  socket_.queue(own_beat());
  socket_.transfer();
}

void NetClient::lost(int rank) noexcept {
  std::int64_t none = 0;
  lost_ns_[rank].compare_exchange_strong(none, now_ns());
}

void NetClient::give_up(const std::string& reason) noexcept {
  try {
    const std::lock_guard lock(mutex_);
    tell_failure();  // where it is another's, seen here
    if (std::exchange(told_, true) || failure_) return;
    socket_.queue(say(NetFailure{options_.rank, Code::peer_failed, options_.host, reason}));
  } catch (const std::exception&) {  // no memory for last words: the closed connection speaks
  }
}

void NetClient::finish() noexcept {
  if (!thread_.joinable()) return;
  stop_.store(true);
  wake(wake_);
  thread_.join();
  try {
    tell_failure();
    socket_.queue(own_beat());
    // A hub that has failed, or whose link is down, reads nothing.
    const bool hub_failed = failure_ && failure_->failed_rank == 0;
    const auto until = Clock::now() + (hub_failed ? kLook : kLastWords);
    bool ended = false;
    // Closing a socket with something unread in it would take back what was sent: read until the hub has closed too.
    while (open_ && Clock::now() < until) {
      open_ = socket_.transfer();
      while (socket_.next()) {
      }
      if (!socket_.has_outgoing() && !std::exchange(ended, true)) socket_.finish();
      pollfd ready{socket_.fd(), socket_.events(), 0};
      if (open_) poll(&ready, 1, 10);
    }
  } catch (const std::exception&) {  // as in give_up()
  }
  socket_ = {};
}

}  // namespace weft
