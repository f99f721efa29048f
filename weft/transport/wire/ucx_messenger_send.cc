#ifdef WEFT_UCX
// The sending half of the messenger: puts cut into messages, counters held back and joined.
#include <algorithm>

#include "weft/base/clock.h"
#include "weft/base/error.h"
#include "weft/base/index.h"
#include "weft/transport/wire/ucx_messenger.h"
#include "weft/transport/wire/ucx_settings.h"

namespace weft {
namespace {

// What has no rows to travel with grants a permission for a later run, mostly: it can wait until a small op, in whose
// midst it would take as long to send as the rows, is over. About 20 us.
constexpr std::int64_t kHoldTicks = 60'000;

// Shorter runs of bytes are worth no put of their own: packed into messages they cost the receiver a copy.
constexpr std::uint64_t kLeastRun = 1024;

void address_rows(MessageHeader& header, const Rows& box) {
  header.segment = box.segment;
  header.offset = box.offset;
  header.stride = box.stride;
  header.rows = static_cast<std::uint32_t>(box.rows);
  header.row_bytes = static_cast<std::uint32_t>(box.row_bytes);
  header.landing = static_cast<std::uint32_t>(box.landing);
}

}  // namespace

UcxMessenger::Message& UcxMessenger::fresh_message(Peer& peer) {
  if (at_rest_ == nullptr) {
    messages_.emplace_back();
    at_rest_ = &messages_.back();
    at_rest_->wire = this;
    at_rest_->next = nullptr;
  }
  Message& message = *at_rest_;
  at_rest_ = message.next;
  message.header = {};
  message.header.key = peer.key;
  message.header.from = static_cast<std::uint32_t>(host_.rank);
  message.block = nullptr;
  return message;
}

void UcxMessenger::post(Peer& peer, Message& message, const std::byte* data) {
  MessageHeader& header = message.header;
  header.sequence = peer.sequence++;
  const std::size_t bytes = std::size_t{header.rows} * header.row_bytes;
  const std::size_t num_counters = std::size_t{header.counters_before} + header.counters_after;
  bytes_sent_.fetch_add(bytes, std::memory_order_relaxed);
  messages_sent_.fetch_add(1, std::memory_order_relaxed);
  ++under_way_;
  if (peer.endpoint == nullptr) return sent(message);  // lost, and told

  ucp_request_param_t param{};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_FLAGS;
  param.flags = UCP_AM_SEND_FLAG_EAGER;
  param.cb.send = &on_sent;
  param.user_data = &message;
  handed_over(peer, message,
              ucp_am_send_nbx(peer.endpoint, kMessages, &header, sizeof header + num_counters * sizeof(MessageCounter),
                              data, bytes, &param));
}

// To UCX: it is sent already, or on_sent will be called, or the peer is lost.
void UcxMessenger::handed_over(Peer& peer, Message& message, ucs_status_ptr_t request) {
  if (UCS_PTR_IS_PTR(request)) return;
  if (UCS_PTR_IS_ERR(request)) blame(peer, ucs_status_string(UCS_PTR_STATUS(request)));
  sent(message);
}

void UcxMessenger::on_sent(void* request, ucs_status_t, void* message) {
  ucp_request_free(request);  // a failure is told through the endpoint
  auto& done = *static_cast<Message*>(message);
  done.wire->sent(done);
}

void UcxMessenger::sent(Message& message) {
  --under_way_;
  if (message.block != nullptr) staging_.give_back(message.block);
  message.next = at_rest_;
  at_rest_ = &message;
}

void UcxMessenger::post_counters(Peer& peer, std::span<const MessageCounter> counters) {
  while (!counters.empty()) {
    const auto some = counters.first(std::min(counters.size(), kMostCounters));
    Message& message = fresh_message(peer);
    std::copy(some.begin(), some.end(), message.counters.begin());
    message.header.counters_before = static_cast<std::uint16_t>(some.size());
    post(peer, message, nullptr);
    counters = counters.subspan(some.size());
  }
}

void UcxMessenger::take_held(Peer& peer) {
  const std::lock_guard lock(held_mutex_);
  taken_.clear();
  taken_.swap(peer.held);
  num_held_.fetch_sub(taken_.size(), std::memory_order_relaxed);
}

void UcxMessenger::post_held(Peer& peer) {
  take_held(peer);
  post_counters(peer, taken_);
}

void UcxMessenger::post_all_held() {
  if (num_held_.load(std::memory_order_acquire) == 0) return;
  for (Peer& peer : peers_) post_held(peer);
}

bool UcxMessenger::held_for_long() const {
  return num_held_.load(std::memory_order_acquire) > 0 &&
         ticks() - held_since_.load(std::memory_order_relaxed) > kHoldTicks;
}

// Puts, and a fence: what is sent to the peer after this arrives after the rows.
bool UcxMessenger::write_rows(Peer& peer, const Rows& to, std::byte* staged) {
  const bool gapless = to.rows == 1 || to.stride == to.row_bytes;
  const std::uint64_t runs = gapless ? 1 : to.rows, run_bytes = gapless ? to.bytes() : to.row_bytes;
  if (peer.endpoint == nullptr || run_bytes < kLeastRun || to.landing != Landing::as_it_is) return false;
  const std::optional<Grants::Place> place = peer.grants.find(peer.endpoint, to);
  if (!place) return false;
  if (runs > 1) staging_.split(staged, static_cast<std::uint32_t>(runs));
  for (std::uint64_t run = 0; run < runs; ++run) {
    Message& message = fresh_message(peer);  // gives its block back when the run has left
    message.block = staged;
    bytes_sent_.fetch_add(run_bytes, std::memory_order_relaxed);
    ++under_way_;
    ucp_request_param_t param{};
    param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
    param.cb.send = &on_sent;
    param.user_data = &message;
    handed_over(peer, message,
                ucp_put_nbx(peer.endpoint, staged + run * run_bytes, run_bytes,
                            place->address + to.offset + run * to.stride, place->key, &param));
  }
  ucp_worker_fence(worker_.get());
  return true;
}

void UcxMessenger::grant(Peer& peer, const Registrations::Entry& segment) {
  if (peer.endpoint == nullptr) return;
  struct Letter {
    GrantHeader header;
    std::string packed_key;
    UcxMessenger* wire;
  };
  auto letter = std::make_unique<Letter>(Letter{{peer.key, reinterpret_cast<std::uint64_t>(segment.base), segment.bytes,
                                                 static_cast<std::uint32_t>(host_.rank), segment.segment},
                                                segment.packed_key,
                                                this});
  ucp_request_param_t param{};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_FLAGS;
  param.flags = UCP_AM_SEND_FLAG_EAGER;
  param.user_data = letter.get();
  param.cb.send = [](void* request, ucs_status_t, void* sent) {
    ucp_request_free(request);
    const std::unique_ptr<Letter> gone(static_cast<Letter*>(sent));
    --gone->wire->under_way_;
  };
  const ucs_status_ptr_t request = ucp_am_send_nbx(peer.endpoint, kGrants, &letter->header, sizeof letter->header,
                                                   letter->packed_key.data(), letter->packed_key.size(), &param);
  if (UCS_PTR_IS_ERR(request)) return blame(peer, ucs_status_string(UCS_PTR_STATUS(request)));
  if (!UCS_PTR_IS_PTR(request)) return;
  ++under_way_;
  letter.release();  // the callback's
}

void UcxMessenger::put(int peer_rank, const Rows& to, std::byte* staged, std::span<const RemoteCounter> counters) {
  Lock lock(mutex_);
  Peer& peer = peers_[at(peer_rank)];
  take_held(peer);
  if (taken_.size() + counters.size() > kMostCounters) {
    post_counters(peer, taken_);
    taken_.clear();
  }
  if (write_rows(peer, to, staged)) {
    for (const RemoteCounter& counter : counters) taken_.push_back({counter.offset, counter.segment, 1});
    post_counters(peer, taken_);
    return tell(std::move(lock));
  }
  const Cut cut(to, kMessageBytes);
  if (staged != nullptr && cut.size() > 1) staging_.split(staged, static_cast<std::uint32_t>(cut.size()));
  if (staged != nullptr && cut.size() == 0) staging_.give_back(staged);
  for (std::uint64_t i = 0; i < cut.size(); ++i) {
    const Cut::Piece piece = cut[i];
    Message& message = fresh_message(peer);
    address_rows(message.header, piece.box);
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
    post(peer, message, staged + piece.packed);
  }
  for (const RemoteCounter& counter : counters) taken_.push_back({counter.offset, counter.segment, 1});
  post_counters(peer, taken_);  // where there were no rows, or more counters than one message holds
  tell(std::move(lock));
}

void UcxMessenger::signal(int peer_rank, const RemoteCounter& counter) {
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

void UcxMessenger::flush() {
  if (num_held_.load(std::memory_order_acquire) == 0) return;
  Lock lock(mutex_);
  post_all_held();
  tell(std::move(lock));
}

}  // namespace weft
#endif
