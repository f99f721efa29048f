#include "weft/transport/join/net_hub.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "weft/base/clock.h"
#include "weft/base/error.h"
#include "weft/base/index.h"
#include "weft/transport/local/own_thread.h"

namespace weft {
namespace {

using namespace std::chrono_literals;
constexpr auto kHubLook = 50ms;        // between two looks at clocks
constexpr auto kHubAsleep = 1s;        // a hub that has not looked for so long was stopped itself
constexpr auto kLetHostSpeak = 150ms;  // for a host to say how its rank died, before the hub says that it did
constexpr auto kGuestTime = 5s;        // to prove the secret
constexpr std::size_t kMostGuests = 256;
constexpr std::size_t kMostRefusals = 4;  // remembered, for the message of the deadline
constexpr auto kLastGuests = 500ms;       // for ranks that come after a failure: they hear who failed
constexpr auto kLastAnswers = 2s;

}  // namespace

std::chrono::milliseconds beat_period(int num_ranks) { return 200ms * std::max(1, num_ranks / 64); }

NetHub::NetHub(int num_ranks, Fd listener, std::string secret, const Patience& patience)
    : patience_(patience),
      secret_(std::move(secret)),
      listener_(std::move(listener)),
      stop_(eventfd(0, EFD_CLOEXEC)),
      seats_(num(num_ranks)),
      birth_(Clock::now()),
      turned_(birth_),
      digested_(birth_) {
  std::array<int, 2> ends{};
  if (!stop_ || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0)
    fail(Code::io, "cannot make the hub of this world: {}", std::strerror(errno));
  own_end_ = Fd(ends[0]);
  seat(0, FrameSocket(Fd(ends[1])));
  thread_ = start_own_thread([this] { run(); });
}

NetHub::~NetHub() {
  wake(stop_);
  thread_.join();
}

Fd NetHub::take_own_end() { return std::move(own_end_); }

void NetHub::run() {
  try {
    while (!stopping_) turn(true);
    const auto stopped = Clock::now();
    while (!may_close(stopped)) turn(false);
  } catch (const std::exception& error) {
    declare({0, Code::internal, seats_[0].host, error.what()});
  }
  close_all();
}

void NetHub::turn(bool until_stopped) {
  poll_all(until_stopped);
  forgive_own_sleep();
  admit();
  serve();
  judge();
  if (Clock::now() - digested_ >= beat_period(int_size(seats_))) send_digest();
}

void NetHub::poll_all(bool until_stopped) {
  std::vector<pollfd> polls{{until_stopped ? stop_.get() : -1, POLLIN, 0}, {listener_.get(), POLLIN, 0}};
  for (const Waiting& waiting : guests_) polls.push_back({waiting.guest.fd(), waiting.guest.events(), 0});
  for (const Seat& seat : seats_)
    if (seat.open) polls.push_back({seat.socket.fd(), seat.socket.events(), 0});
  poll(polls.data(), polls.size(), static_cast<int>(kHubLook / 1ms));
  if (polls[0].revents != 0) stopping_ = true;
  for (std::size_t i = 0; i < guests_.size(); ++i) guests_[i].ready = polls[2 + i].revents != 0;
}

// Time that this process was stopped for is nobody's silence.
void NetHub::forgive_own_sleep() {
  const auto now = Clock::now();
  const auto slept = now - std::exchange(turned_, now);
  if (slept < kHubAsleep) return;
  for (Seat& seat : seats_) seat.heard += slept;
  birth_ += slept;
}

// Who has waited longest without proving anything makes room for the next: idle strangers keep nobody out. They are
// looked at only when they say something, so they cost nothing either.
void NetHub::admit() {
  while (true) {
    Fd socket = accept_one(listener_);
    const bool none_left = !socket && (errno == EMFILE || errno == ENFILE);
    if ((none_left || guests_.size() >= kMostGuests) && !guests_.empty()) guests_.pop_front();
    if (!socket) break;
    guests_.push_back({Guest(std::move(socket), secret_)});
  }
  const auto now = Clock::now();
  std::erase_if(guests_, [&](Waiting& waiting) {
    if (!std::exchange(waiting.ready, false)) return now - waiting.guest.since() > kGuestTime;
    const Guest::State state = waiting.guest.turn(int_size(seats_));
    if (state == Guest::State::proved) greet(waiting.guest);
    if (!waiting.guest.refusal().empty() && refusals_.size() < kMostRefusals)
      refusals_.push_back(waiting.guest.refusal());
    return state != Guest::State::waiting;
  });
}

void NetHub::greet(Guest& guest) {
  if (seats_[guest.rank()].seated) return guest.refuse(Reception::taken, "that rank has joined already");
  seat(guest.rank(), FrameSocket(guest.accept()));
}

void NetHub::seat(int rank, FrameSocket socket) {
  Seat& seat = seats_[rank];
  seat.socket = std::move(socket);
  seat.open = seat.seated = true;
  seat.heard = Clock::now();
  if (failure_) seat.socket.queue(say(*failure_));
}

void NetHub::serve() {
  for (Seat& seat : seats_)
    if (seat.open) collect(seat);
  answer_if_complete();
}

void NetHub::collect(Seat& seat) {
  try {
    seat.open = seat.socket.transfer();
    while (const auto frame = seat.socket.next()) hear(seat, *frame);
  } catch (const Error& error) {
    seat.open = false;
    seat.how = fmt::format("the hub does not understand it: {}", error.what());
  }
  if (seat.open) return;
  seat.socket = {};  // so that the rank sees that all it sent has been read
  if (seat.beat.left == 0) seat.lost = Clock::now();
  if (seat.how.empty()) seat.how = "its connection closed, so its process died or its host is gone";
}

void NetHub::hear(Seat& seat, const Frame& frame) {
  seat.heard = Clock::now();
  switch (kind_of(frame)) {
    case Says::host:
      seat.host = text_of(frame);
      return;
    case Says::parcel:
      seat.parcels.push_back({std::string(text_of(frame)), nullptr});
      return;
    case Says::beat:
      seat.beat = beat_of(frame);
      return;
    case Says::failure:
      declare(failure_of(frame));
      return;
    default:
      fail(Code::io, "a rank says \"{}\"", frame.bytes.front());
  }
}

void NetHub::answer_if_complete() {
  const auto has_come = [](const Seat& seat) { return !seat.parcels.empty(); };
  while (std::all_of(seats_.begin(), seats_.end(), has_come)) {
    std::vector<Parcel> parcels;
    for (Seat& seat : seats_) {
      parcels.push_back(std::move(seat.parcels.front()));
      seat.parcels.pop_front();
    }
    const Frame answer = say(Says::answer, pack(parcels).bytes);
    for (Seat& seat : seats_)
      if (seat.open) seat.socket.queue(answer);
    for (Seat& seat : seats_)
      if (seat.open) collect(seat);
  }
}

void NetHub::judge() {
  if (failure_) return;
  for (int rank = 0; rank < int_size(seats_) && !failure_; ++rank) judge_rank(rank);
}

void NetHub::judge_rank(int rank) {
  const Seat& seat = seats_[rank];
  const auto now = Clock::now();
  if (!seat.seated && now - birth_ > patience_.total)
    return declare({rank, Code::deadline, "",
                    fmt::format("it has not joined within {:.1f} s{}; WEFT_WAIT_S sets the limit",
                                seconds(patience_.total), who_was_refused())});
  if (seat.lost && now - *seat.lost > kLetHostSpeak) return declare({rank, Code::peer_failed, seat.host, seat.how});
  if (seat.open && seat.beat.left == 0 && rank != 0 && now - seat.heard > patience_.silence)
    declare(
        {rank, Code::peer_failed, seat.host,
         fmt::format("it has been silent for {:.1f} s: stopped, or its link is down; WEFT_DEADLINE_S sets the limit",
                     seconds(now - seat.heard))});
}

std::string NetHub::who_was_refused() const {
  std::string text;
  for (const std::string& refusal : refusals_) text += fmt::format("; {}", refusal);
  return text;
}

void NetHub::declare(NetFailure failure) {
  if (failure_) return;
  if (failure.host.empty() && failure.failed_rank >= 0 && failure.failed_rank < int_size(seats_))
    failure.host = seats_[failure.failed_rank].host;
  failure_ = std::move(failure);
  for (Seat& seat : seats_) {
    if (!seat.open) continue;
    seat.socket.queue(say(*failure_));
    seat.socket.transfer();  // a rank that is gone is found so at its next turn
  }
}

void NetHub::send_digest() {
  digested_ = Clock::now();
  std::vector<Pulse> pulses;
  for (const Seat& seat : seats_) {
    const auto silent = seat.seated ? digested_ - seat.heard : Clock::duration(0);
    pulses.push_back({static_cast<std::uint32_t>(std::max<std::int64_t>(0, silent / 1ms)), seat.beat});
  }
  const Frame digest = say(pulses);
  for (Seat& seat : seats_) {
    if (!seat.open || seat.socket.has_outgoing()) continue;  // a rank that reads nothing needs no more of them
    seat.socket.queue(digest);
    collect(seat);
  }
}

// Nothing to a rank that reads nothing: it is stopped, or behind a link that is down.
bool NetHub::owes(const Seat& seat) const {
  return seat.open && seat.socket.has_outgoing() && Clock::now() - seat.heard < patience_.silence;
}

bool NetHub::may_close(Clock::time_point stopped) const {
  const auto waited = Clock::now() - stopped;
  const auto owed = [this](const Seat& seat) { return owes(seat); };
  if (failure_) {
    const auto here = [](const Seat& seat) { return seat.seated; };
    const bool all_know = std::all_of(seats_.begin(), seats_.end(), here) || waited > kLastGuests;
    return all_know && (std::none_of(seats_.begin(), seats_.end(), owed) || waited > kLastAnswers);
  }
  const auto done = [](const Seat& seat) { return seat.seated && !seat.open; };
  return std::all_of(seats_.begin(), seats_.end(), done) || waited > patience_.total;
}

void NetHub::close_all() {
  listener_ = {};
  guests_.clear();
  for (Seat& seat : seats_)
    if (seat.open) seat.socket.queue(say(Says::closing));
  const auto until = Clock::now() + kLastAnswers;
  const auto owed = [this](const Seat& seat) { return owes(seat); };
  while (std::any_of(seats_.begin(), seats_.end(), owed) && Clock::now() < until) {
    for (Seat& seat : seats_)
      if (seat.open) collect(seat);
    usleep(1000);
  }
}

}  // namespace weft
