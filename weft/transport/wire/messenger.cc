#include "weft/transport/wire/messenger.h"

#include <poll.h>

#include <cstring>
#include <utility>

#include "weft/base/error.h"
#include "weft/base/index.h"
#include "weft/transport/local/bell.h"

namespace weft {
namespace {

using Clock = std::chrono::steady_clock;

// How long the wire, when it goes, waits for what it has been given to leave, and then for connections to close.
constexpr std::chrono::seconds kFlushAtMost{2};
constexpr std::chrono::seconds kCloseAtMost{1};
// A sleep in stage() ends when the carrier has something to do; another thread may do it and free staging meanwhile.
constexpr int kStageSleepMs = 1;

}  // namespace

Messenger::Messenger(WireHost host, const MakeCarrier& make_carrier)
    : host_(std::move(host)),
      staging_(host_.staging_bytes, host_.staging_bytes / 8),
      peers_(num(host_.size)),
      carrier_(make_carrier(host_, *this)) {
  for (int rank = 0; rank < host_.size; ++rank) peers_[at(rank)].rank = rank;
  while (!carrier_->arm()) carrier_->progress();
  watch_ = std::make_unique<Watch>(
      carrier_->descriptor(), [this] { serve(); },
      [this] { return tempo_.nap(bytes_received_.load(std::memory_order_relaxed), Tempo::Clock::now()); });
}

Messenger::~Messenger() {
  watch_.reset();
  const Lock lock(mutex_);
  flush_for(kFlushAtMost);
  carrier_->finish(kCloseAtMost);
  carrier_.reset();  // it may still speak of messages
}

void Messenger::flush_for(std::chrono::nanoseconds at_most) {
  post_all_held();
  const auto stop = Clock::now() + at_most;
  while (carrier_->under_way() > 0 && Clock::now() < stop) {
    if (carrier_->progress() || !carrier_->arm()) continue;
    pollfd descriptor{carrier_->descriptor(), POLLIN, 0};
    poll(&descriptor, 1, 10);
  }
}

std::string Messenger::address() const {
  const Lock lock(mutex_);
  return carrier_->address();
}

void Messenger::connect(int rank, std::string_view address) {
  if (rank < 0 || rank >= host_.size) fail(Code::internal, "rank {} does not exist", rank);
  Lock lock(mutex_);
  carrier_->connect(rank, address);
  // An empty message makes the connection now, so that a peer that dies before anything is sent to it is noticed.
  post(peers_[at(rank)], fresh_message());
  tell(std::move(lock));
}

void Messenger::add_segment(std::uint32_t id, std::byte* base, std::size_t bytes) {
  Lock lock(mutex_);
  segments_.add(id, base, bytes);
  carrier_->add_segment(id, base, bytes);
  tell(std::move(lock));
}

void Messenger::remove_segment(std::uint32_t id) {
  const Lock lock(mutex_);
  segments_.remove(id);
  carrier_->remove_segment(id);
}

NetworkWire::Counts Messenger::counts() const {
  const auto read = [](const std::atomic<std::uint64_t>& count) { return count.load(std::memory_order_relaxed); };
  return {read(bytes_sent_), read(bytes_received_), read(messages_sent_), read(messages_received_)};
}

std::byte* Messenger::stage(std::size_t bytes) {
  if (std::byte* block = staging_.take(bytes)) return block;
  const Staging::Turn turn(staging_);
  struct Attendance {
    explicit Attendance(Messenger& wire) : wire(wire) { wire.attend(); }
    ~Attendance() { wire.leave(); }
    Messenger& wire;
  } const attendance(*this);
  while (true) {
    Lock lock(mutex_);
    post_all_held();
    const bool came = carrier_->progress();
    if (std::byte* block = staging_.take(bytes, turn)) {
      tell(std::move(lock));
      return block;
    }
    const bool sleep = !came && carrier_->arm();
    tell(std::move(lock));
    if (host_.check) host_.check();
    if (!sleep) continue;
    pollfd descriptor{carrier_->descriptor(), POLLIN, 0};
    poll(&descriptor, 1, kStageSleepMs);
  }
}

bool Messenger::progress() {
  Lock lock(mutex_, std::try_to_lock);
  if (!lock) {
    // Whoever has it moves data; but he may be past what was held back here.
    if (!held_for_long()) return false;
    lock.lock();
  }
  const std::uint64_t before = messages_received_.load(std::memory_order_relaxed);
  if (held_for_long()) post_all_held();
  carrier_->progress();
  const bool came = messages_received_.load(std::memory_order_relaxed) != before;
  tell(std::move(lock));
  return came;
}

// The lock is let go between passes, for those who want to send.
void Messenger::serve() {
  bool more = true;
  while (more) {
    Lock lock(mutex_);
    post_all_held();
    more = carrier_->progress() || !carrier_->arm();
    tell(std::move(lock));
  }
}

void Messenger::received(int rank, std::span<const std::byte> head, std::span<const std::byte> data) noexcept {
  Peer& peer = peers_[at(rank)];
  if (peer.failed) return;
  messages_received_.fetch_add(1, std::memory_order_relaxed);
  bytes_received_.fetch_add(data.size(), std::memory_order_relaxed);
  try {
    MessageHeader fields;
    if (head.size() < sizeof fields) bad_input("it sent a header of {} bytes", head.size());
    std::memcpy(&fields, head.data(), sizeof fields);
    const std::size_t num_counters = std::size_t{fields.counters_before} + fields.counters_after;
    if (num_counters > kMostCounters || head.size() != sizeof fields + num_counters * sizeof(MessageCounter))
      bad_input("it sent a header of {} bytes with {} counters", head.size(), num_counters);
    MessageCounter counters[kMostCounters];
    std::memcpy(counters, head.data() + sizeof fields, num_counters * sizeof(MessageCounter));
    if (segments_.apply(fields, counters, data) && host_.bell != nullptr) ring_if_asleep(*host_.bell);
  } catch (const std::exception& error) {
    failed(rank, error.what());
  }
}

void Messenger::failed(int rank, std::string reason) noexcept {
  Peer& peer = peers_[at(rank)];
  if (peer.failed) return;
  peer.failed = true;
  peer.reason = std::move(reason);
  any_lost_ = true;
}

void Messenger::tell(Lock lock) {
  if (!any_lost_) return;
  any_lost_ = false;
  std::vector<std::pair<int, std::string>> lost;
  for (Peer& peer : peers_) {
    if (!peer.failed || peer.told) continue;
    peer.told = true;
    lost.emplace_back(peer.rank, peer.reason);
    carrier_->drop(peer.rank);
  }
  lock.unlock();
  if (host_.lost)
    for (const auto& [rank, reason] : lost) host_.lost(rank, reason);
}

}  // namespace weft
