#ifdef WEFT_UCX
#include "weft/transport/wire/ucx_messenger.h"

#include <poll.h>
#include <sys/random.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "weft/base/error.h"
#include "weft/base/index.h"
#include "weft/transport/local/bell.h"

namespace weft {
namespace {

using Clock = std::chrono::steady_clock;

// How long the wire, when it goes, waits for what it has been given to leave, and then for endpoints to close.
constexpr std::chrono::seconds kFlushAtMost{2};
constexpr std::chrono::seconds kCloseAtMost{1};
// A sleep in stage() ends when UCX has something to do; another thread may do it and free staging meanwhile.
constexpr int kStageSleepMs = 1;

void listen(ucp_worker_h worker, unsigned id, ucp_am_recv_callback_t callback, void* wire) {
  ucp_am_handler_param_t param{};
  param.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_FLAGS | UCP_AM_HANDLER_PARAM_FIELD_CB |
                     UCP_AM_HANDLER_PARAM_FIELD_ARG;
  param.id = id;
  param.flags = UCP_AM_FLAG_WHOLE_MSG;
  param.cb = callback;
  param.arg = wire;
  const ucs_status_t status = ucp_worker_set_am_recv_handler(worker, &param);
  if (status != UCS_OK) fail(Code::io, "UCX refuses a message handler: {}", ucs_status_string(status));
}

std::uint64_t random_key() {
  std::uint64_t key = 0;
  if (getrandom(&key, sizeof key, 0) != sizeof key) fail(Code::io, "getrandom failed: {}", std::strerror(errno));
  return key;
}

}  // namespace

UcxMessenger::UcxMessenger(WireHost host)
    : host_(std::move(host)),
      key_(random_key()),
      staging_(host_.staging_bytes, host_.staging_bytes / 8),
      worker_(host_.device, host_.remote_writes),
      registrations_(worker_.context()) {
  for (int rank = 0; rank < host_.size; ++rank) {
    Peer& peer = peers_.emplace_back();
    peer.wire = this;
    peer.rank = rank;
  }
  listen(worker_.get(), kMessages, &on_message, this);
  listen(worker_.get(), kGrants, &on_grant, this);
  while (!worker_.arm()) ucp_worker_progress(worker_.get());
  watch_ = std::make_unique<Watch>(
      worker_.descriptor(), [this] { serve(); },
      [this] { return tempo_.nap(bytes_received_.load(std::memory_order_relaxed), Tempo::Clock::now()); });
}

UcxMessenger::~UcxMessenger() {
  watch_.reset();
  const Lock lock(mutex_);
  flush_for(kFlushAtMost);
  close_all(kCloseAtMost);
}

void UcxMessenger::flush_for(std::chrono::nanoseconds at_most) {
  post_all_held();
  const auto stop = Clock::now() + at_most;
  while (under_way_ > 0 && Clock::now() < stop) {
    if (ucp_worker_progress(worker_.get()) != 0 || !worker_.arm()) continue;
    pollfd descriptor{worker_.descriptor(), POLLIN, 0};
    poll(&descriptor, 1, 10);
  }
}

void UcxMessenger::close_all(std::chrono::nanoseconds at_most) {
  std::vector<void*> requests;
  for (Peer& peer : peers_) {
    peer.grants.clear();
    if (peer.endpoint == nullptr) continue;
    ucp_request_param_t param{};
    param.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
    param.flags = peer.failed || under_way_ > 0 ? UCP_EP_CLOSE_FLAG_FORCE : 0;
    void* request = ucp_ep_close_nbx(std::exchange(peer.endpoint, nullptr), &param);
    if (UCS_PTR_IS_PTR(request)) requests.push_back(request);
  }
  const auto stop = Clock::now() + at_most;
  while (!requests.empty() && Clock::now() < stop) {
    ucp_worker_progress(worker_.get());
    std::erase_if(requests, [](void* request) {
      const bool done = ucp_request_check_status(request) != UCS_INPROGRESS;
      if (done) ucp_request_free(request);
      return done;
    });
  }
  for (void* request : requests) ucp_request_free(request);  // a peer that answers no more: the worker ends it
}

std::string UcxMessenger::address() const {
  const Lock lock(mutex_);
  return std::string(reinterpret_cast<const char*>(&key_), sizeof key_) + worker_.address();
}

void UcxMessenger::connect(int rank, std::string_view address) {
  if (rank < 0 || rank >= host_.size || address.size() <= sizeof(std::uint64_t))
    fail(Code::internal, "{} bytes are no address of rank {}", address.size(), rank);
  Lock lock(mutex_);
  Peer& peer = peers_[at(rank)];
  std::memcpy(&peer.key, address.data(), sizeof peer.key);
  peer.endpoint = worker_.connect(address.substr(sizeof peer.key), &on_failure, &peer);
  // An empty message makes the connection now, so that a peer that dies before anything is sent to it is noticed.
  post(peer, fresh_message(peer), nullptr);
  for (const Registrations::Entry& segment : registrations_.all()) grant(peer, segment);
  tell(std::move(lock));
}

void UcxMessenger::add_segment(std::uint32_t id, std::byte* base, std::size_t bytes) {
  Lock lock(mutex_);
  segments_.add(id, base, bytes);
  const Registrations::Entry* segment = host_.remote_writes ? registrations_.add(id, base, bytes) : nullptr;
  if (segment != nullptr)
    for (Peer& peer : peers_) grant(peer, *segment);
  tell(std::move(lock));
}

// Ranks have the same segments: what peers granted of this one is not asked for any more.
void UcxMessenger::remove_segment(std::uint32_t id) {
  const Lock lock(mutex_);
  segments_.remove(id);
  registrations_.remove(id);
  for (Peer& peer : peers_) peer.grants.remove(id);
}

UcxWire::Counts UcxMessenger::counts() const {
  const auto read = [](const std::atomic<std::uint64_t>& count) { return count.load(std::memory_order_relaxed); };
  return {read(bytes_sent_), read(bytes_received_), read(messages_sent_), read(messages_received_)};
}

std::byte* UcxMessenger::stage(std::size_t bytes) {
  if (std::byte* block = staging_.take(bytes)) return block;
  const Staging::Turn turn(staging_);
  struct Attendance {
    explicit Attendance(UcxMessenger& wire) : wire(wire) { wire.attend(); }
    ~Attendance() { wire.leave(); }
    UcxMessenger& wire;
  } const attendance(*this);
  while (true) {
    Lock lock(mutex_);
    post_all_held();
    const bool came = ucp_worker_progress(worker_.get()) != 0;
    if (std::byte* block = staging_.take(bytes, turn)) {
      tell(std::move(lock));
      return block;
    }
    const bool sleep = !came && worker_.arm();
    tell(std::move(lock));
    if (host_.check) host_.check();
    if (!sleep) continue;
    pollfd descriptor{worker_.descriptor(), POLLIN, 0};
    poll(&descriptor, 1, kStageSleepMs);
  }
}

bool UcxMessenger::progress() {
  Lock lock(mutex_, std::try_to_lock);
  if (!lock) {
    // Whoever has it moves data; but he may be past what was held back here.
    if (!held_for_long()) return false;
    lock.lock();
  }
  const std::uint64_t before = messages_received_.load(std::memory_order_relaxed);
  if (held_for_long()) post_all_held();
  ucp_worker_progress(worker_.get());
  const bool came = messages_received_.load(std::memory_order_relaxed) != before;
  tell(std::move(lock));
  return came;
}

// The lock is let go between passes, for those who want to send.
void UcxMessenger::serve() {
  bool more = true;
  while (more) {
    Lock lock(mutex_);
    post_all_held();
    more = ucp_worker_progress(worker_.get()) != 0 || !worker_.arm();
    tell(std::move(lock));
  }
}

ucs_status_t UcxMessenger::on_message(void* wire, const void* header, std::size_t header_bytes, void* data,
                                      std::size_t bytes, const ucp_am_recv_param_t* param) {
  if ((param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) != 0) return UCS_OK;  // not of our making: declined
  return static_cast<UcxMessenger*>(wire)->receive({static_cast<const std::byte*>(header), header_bytes},
                                                   {static_cast<const std::byte*>(data), bytes});
}

ucs_status_t UcxMessenger::receive(std::span<const std::byte> header, std::span<const std::byte> data) {
  MessageHeader fields;
  if (header.size() < sizeof fields) return UCS_OK;
  std::memcpy(&fields, header.data(), sizeof fields);
  if (fields.key != key_ || fields.from >= peers_.size()) return UCS_OK;  // a stranger
  Peer& peer = peers_[fields.from];
  if (peer.failed) return UCS_OK;
  messages_received_.fetch_add(1, std::memory_order_relaxed);
  bytes_received_.fetch_add(data.size(), std::memory_order_relaxed);
  try {
    const auto verdict = peer.order.arrive(fields.sequence, header, data, [&](auto h, auto d) { apply(peer, h, d); });
    if (verdict == InOrder::Verdict::repeated || verdict == InOrder::Verdict::too_early)
      blame(peer, fmt::format("its message {} came twice or far too early", fields.sequence));
  } catch (const std::exception& error) {  // must not pass through UCX
    blame(peer, error.what());
  }
  return UCS_OK;
}

ucs_status_t UcxMessenger::on_grant(void* arg, const void* header, std::size_t header_bytes, void* data,
                                    std::size_t bytes, const ucp_am_recv_param_t* param) {
  auto& wire = *static_cast<UcxMessenger*>(arg);
  GrantHeader fields;
  if ((param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) != 0 || header_bytes != sizeof fields) return UCS_OK;
  std::memcpy(&fields, header, sizeof fields);
  if (fields.key != wire.key_ || fields.from >= wire.peers_.size()) return UCS_OK;  // a stranger
  if (wire.host_.remote_writes) wire.peers_[fields.from].grants.add(fields, {static_cast<const char*>(data), bytes});
  return UCS_OK;
}

void UcxMessenger::apply(Peer& peer, std::span<const std::byte> header, std::span<const std::byte> data) {
  if (peer.failed) return;
  MessageHeader fields;
  std::memcpy(&fields, header.data(), sizeof fields);
  const std::size_t num_counters = std::size_t{fields.counters_before} + fields.counters_after;
  if (num_counters > kMostCounters || header.size() != sizeof fields + num_counters * sizeof(MessageCounter))
    bad_input("it sent a header of {} bytes with {} counters", header.size(), num_counters);
  MessageCounter counters[kMostCounters];
  std::memcpy(counters, header.data() + sizeof fields, num_counters * sizeof(MessageCounter));
  if (segments_.apply(fields, counters, data) && host_.bell != nullptr) ring_if_asleep(*host_.bell);
}

void UcxMessenger::on_failure(void* arg, ucp_ep_h, ucs_status_t status) {
  auto& peer = *static_cast<Peer*>(arg);
  peer.wire->blame(peer, fmt::format("its connection broke: {}", ucs_status_string(status)));
}

void UcxMessenger::blame(Peer& peer, std::string reason) {
  if (peer.failed) return;
  peer.failed = true;
  peer.reason = std::move(reason);
  any_lost_ = true;
}

void UcxMessenger::tell(Lock lock) {
  if (!any_lost_) return;
  any_lost_ = false;
  std::vector<std::pair<int, std::string>> lost;
  for (Peer& peer : peers_) {
    if (!peer.failed || peer.told) continue;
    peer.told = true;
    lost.emplace_back(peer.rank, peer.reason);
    close(peer);
  }
  lock.unlock();
  if (host_.lost)
    for (const auto& [rank, reason] : lost) host_.lost(rank, reason);
}

// By force: nothing is to be had from it any more, and what is under way to it comes back to staging.
void UcxMessenger::close(Peer& peer) {
  peer.grants.clear();
  if (peer.endpoint == nullptr) return;
  ucp_request_param_t param{};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS | UCP_OP_ATTR_FIELD_CALLBACK;
  param.flags = UCP_EP_CLOSE_FLAG_FORCE;
  param.cb.send = [](void* request, ucs_status_t, void*) { ucp_request_free(request); };
  ucp_ep_close_nbx(std::exchange(peer.endpoint, nullptr), &param);
}

}  // namespace weft
#endif
