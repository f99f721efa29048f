// The sending half of the messenger: puts cut into messages, counters held back and joined.
#include <algorithm>

#include "weft/base/clock.h"
#include "weft/base/index.h"
#include "weft/transport/wire/messenger.h"

namespace weft {
namespace {

// What has no rows to travel with grants a permission for a later run, mostly: it can wait until a small op, in whose
// midst it would take as long to send as the rows, is over. About 20 us.
constexpr std::int64_t kHoldTicks = 60'000;

void address_rows(MessageHeader& header, const Rows& box) {
  header.segment = box.segment;
  header.offset = box.offset;
  header.stride = box.stride;
  header.rows = static_cast<std::uint32_t>(box.rows);
  header.row_bytes = static_cast<std::uint32_t>(box.row_bytes);
  header.landing = static_cast<std::uint32_t>(box.landing);
}

}  // namespace

Message& Messenger::fresh_message() {
  if (at_rest_ == nullptr) {
    messages_.emplace_back();
    at_rest_ = &messages_.back();
    at_rest_->next = nullptr;
  }
  Message& message = *at_rest_;
  at_rest_ = message.next;
  message.header = {};
  message.header.from = static_cast<std::uint32_t>(host_.rank);
  message.data = nullptr;
  message.block = nullptr;
  return message;
}

void Messenger::post(Peer& peer, Message& message) {
  bytes_sent_.fetch_add(message.data_bytes(), std::memory_order_relaxed);
  messages_sent_.fetch_add(1, std::memory_order_relaxed);
  carrier_->send(peer.rank, message);
}

void Messenger::sent(Message& message) {
  if (message.block != nullptr) staging_.give_back(message.block);
  message.next = at_rest_;
  at_rest_ = &message;
}

void Messenger::post_counters(Peer& peer, std::span<const MessageCounter> counters) {
  while (!counters.empty()) {
    const auto some = counters.first(std::min(counters.size(), kMostCounters));
    Message& message = fresh_message();
    std::copy(some.begin(), some.end(), message.counters.begin());
    message.header.counters_before = static_cast<std::uint16_t>(some.size());
    post(peer, message);
    counters = counters.subspan(some.size());
  }
}

void Messenger::take_held(Peer& peer) {
  const std::lock_guard lock(held_mutex_);
  taken_.clear();
  taken_.swap(peer.held);
  num_held_.fetch_sub(taken_.size(), std::memory_order_relaxed);
}

void Messenger::post_held(Peer& peer) {
  take_held(peer);
  post_counters(peer, taken_);
}

void Messenger::post_all_held() {
  if (num_held_.load(std::memory_order_acquire) == 0) return;
  for (Peer& peer : peers_) post_held(peer);
}

bool Messenger::held_for_long() const {
  return num_held_.load(std::memory_order_acquire) > 0 &&
         ticks() - held_since_.load(std::memory_order_relaxed) > kHoldTicks;
}

void Messenger::put(int peer_rank, const Rows& to, std::byte* staged, std::span<const RemoteCounter> counters) {
  Lock lock(mutex_);
  Peer& peer = peers_[at(peer_rank)];
  take_held(peer);
  if (taken_.size() + counters.size() > kMostCounters) {
    post_counters(peer, taken_);
    taken_.clear();
  }
  if (const std::uint32_t runs = carrier_->runs_to_write(peer_rank, to); runs > 0) {
    if (runs > 1) staging_.split(staged, runs);
    bytes_sent_.fetch_add(to.bytes(), std::memory_order_relaxed);
    carrier_->write_rows(peer_rank, to, staged);
    for (const RemoteCounter& counter : counters) taken_.push_back({counter.offset, counter.segment, 1});
    post_counters(peer, taken_);
  } else {
    post_rows(peer, to, staged, counters);
  }
  tell(std::move(lock));
}

// In messages: what was held back goes before the first one's rows, the counters after the last one's.
void Messenger::post_rows(Peer& peer, const Rows& to, std::byte* staged, std::span<const RemoteCounter> counters) {
  const Cut cut(to, carrier_->most_data_bytes());
  if (staged != nullptr && cut.size() > 1) staging_.split(staged, static_cast<std::uint32_t>(cut.size()));
  if (staged != nullptr && cut.size() == 0) staging_.give_back(staged);
  for (std::uint64_t i = 0; i < cut.size(); ++i) {
    const Cut::Piece piece = cut[i];
    Message& message = fresh_message();
    address_rows(message.header, piece.box);
    message.data = staged + piece.packed;
    message.block = staged;
    std::copy(taken_.begin(), taken_.end(), message.counters.begin());
    message.header.counters_before = static_cast<std::uint16_t>(taken_.size());
    taken_.clear();
    if (i + 1 == cut.size() && message.header.counters_before + counters.size() <= kMostCounters) {
      for (const RemoteCounter& counter : counters)
        message.counters[message.header.counters_before + message.header.counters_after++] = {counter.offset,
                                                                                              counter.segment, 1};
      counters = {};
    }
    post(peer, message);
  }
  for (const RemoteCounter& counter : counters) taken_.push_back({counter.offset, counter.segment, 1});
  post_counters(peer, taken_);  // where there were no rows, or more counters than one message holds
}

void Messenger::signal(int peer_rank, const RemoteCounter& counter) {
  const std::lock_guard lock(held_mutex_);
  std::vector<MessageCounter>& held = peers_[at(peer_rank)].held;
  // Only with the last one: counters are raised in the order of the calls.
  if (!held.empty() && held.back().offset == counter.offset && held.back().segment == counter.segment) {
    ++held.back().amount;
    return;
  }
  held.push_back({counter.offset, counter.segment, 1});
  if (num_held_.load(std::memory_order_relaxed) == 0) held_since_.store(ticks(), std::memory_order_relaxed);
  num_held_.fetch_add(1, std::memory_order_release);
}

void Messenger::flush() {
  if (num_held_.load(std::memory_order_acquire) == 0) return;
  Lock lock(mutex_);
  post_all_held();
  tell(std::move(lock));
}

}  // namespace weft
