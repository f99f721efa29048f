#ifdef WEFT_UCX
#include "weft/transport/wire/ucx_carrier.h"

#include <sys/random.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>

#include "weft/base/error.h"
#include "weft/base/index.h"
#include "weft/transport/wire/ucx_settings.h"

namespace weft {
namespace {

// Shorter runs of bytes are worth no put of their own: packed into messages they cost the receiver a copy.
constexpr std::uint64_t kLeastRun = 1024;

void listen(ucp_worker_h worker, unsigned id, ucp_am_recv_callback_t callback, void* carrier) {
  ucp_am_handler_param_t param{};
  param.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_FLAGS | UCP_AM_HANDLER_PARAM_FIELD_CB |
                     UCP_AM_HANDLER_PARAM_FIELD_ARG;
  param.id = id;
  param.flags = UCP_AM_FLAG_WHOLE_MSG;
  param.cb = callback;
  param.arg = carrier;
  const ucs_status_t status = ucp_worker_set_am_recv_handler(worker, &param);
  if (status != UCS_OK) fail(Code::io, "UCX refuses a message handler: {}", ucs_status_string(status));
}

std::uint64_t random_key() {
  std::uint64_t key = 0;
  if (getrandom(&key, sizeof key, 0) != sizeof key) fail(Code::io, "getrandom failed: {}", std::strerror(errno));
  return key;
}

// Rows without gaps are one run.
struct Runs {
  explicit Runs(const Rows& to) : count(gapless(to) ? 1 : to.rows), bytes(gapless(to) ? to.bytes() : to.row_bytes) {}
  static bool gapless(const Rows& to) { return to.rows == 1 || to.stride == to.row_bytes; }
  std::uint64_t count, bytes;
};

}  // namespace

UcxCarrier::UcxCarrier(const WireHost& host, Events& events)
    : events_(events),
      rank_(host.rank),
      remote_writes_(host.remote_writes),
      key_(random_key()),
      worker_({host.device, host.remote_writes, host.trusted}),
      registrations_(worker_.context()) {
  for (int rank = 0; rank < host.size; ++rank) {
    Peer& peer = peers_.emplace_back();
    peer.carrier = this;
    peer.rank = rank;
  }
  listen(worker_.get(), kMessages, &on_message, this);
  listen(worker_.get(), kGrants, &on_grant, this);
}

std::size_t UcxCarrier::most_data_bytes() const { return kMessageBytes; }

std::string UcxCarrier::address() const {
  return std::string(reinterpret_cast<const char*>(&key_), sizeof key_) + worker_.address();
}

void UcxCarrier::connect(int rank, std::string_view address) {
  if (address.size() <= sizeof(std::uint64_t))
    fail(Code::internal, "{} bytes are no address of rank {}", address.size(), rank);
  Peer& peer = peers_[at(rank)];
  std::memcpy(&peer.key, address.data(), sizeof peer.key);
  peer.endpoint = worker_.connect(address.substr(sizeof peer.key), &on_failure, &peer);
  for (const Registrations::Entry& segment : registrations_.all()) grant(peer, segment);
}

void UcxCarrier::add_segment(std::uint32_t id, std::byte* base, std::size_t bytes) {
  const Registrations::Entry* segment = remote_writes_ ? registrations_.add(id, base, bytes) : nullptr;
  if (segment != nullptr)
    for (Peer& peer : peers_) grant(peer, *segment);
}

// Ranks have the same segments: what peers granted of this one is not asked for any more.
void UcxCarrier::remove_segment(std::uint32_t id) {
  registrations_.remove(id);
  for (Peer& peer : peers_) peer.grants.remove(id);
}

UcxCarrier::Parting& UcxCarrier::fresh_parting(Message* message, std::byte* block) {
  if (at_rest_ == nullptr) {
    partings_.emplace_back();
    at_rest_ = &partings_.back();
    at_rest_->carrier = this;
    at_rest_->next = nullptr;
  }
  Parting& parting = *at_rest_;
  at_rest_ = parting.next;
  parting.message = message;
  parting.block = block;
  ++under_way_;
  return parting;
}

void UcxCarrier::send(int rank, Message& message) {
  Peer& peer = peers_[at(rank)];
  if (peer.endpoint == nullptr) return events_.sent(message);
  message.envelope = {peer.key, peer.sequence++};
  Parting& parting = fresh_parting(&message, nullptr);
  ucp_request_param_t param{};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_FLAGS;
  param.flags = UCP_AM_SEND_FLAG_EAGER;
  param.cb.send = &on_sent;
  param.user_data = &parting;
  handed_over(
      peer, parting,
      ucp_am_send_nbx(peer.endpoint, kMessages, &message.envelope, sizeof message.envelope + message.head_bytes(),
                      message.data, message.data_bytes(), &param));
}

// To UCX: it is sent already, or on_sent will be called, or the peer is lost.
void UcxCarrier::handed_over(Peer& peer, Parting& parting, ucs_status_ptr_t request) {
  if (UCS_PTR_IS_PTR(request)) return;
  if (UCS_PTR_IS_ERR(request)) blame(peer, ucs_status_string(UCS_PTR_STATUS(request)));
  left(parting);
}

void UcxCarrier::on_sent(void* request, ucs_status_t, void* parting) {
  ucp_request_free(request);  // a failure is told through the endpoint
  auto& done = *static_cast<Parting*>(parting);
  done.carrier->left(done);
}

void UcxCarrier::left(Parting& parting) {
  --under_way_;
  if (parting.message != nullptr)
    events_.sent(*parting.message);
  else
    events_.written(parting.block);
  parting.next = at_rest_;
  at_rest_ = &parting;
}

std::uint32_t UcxCarrier::runs_to_write(int rank, const Rows& to) {
  Peer& peer = peers_[at(rank)];
  const Runs runs(to);
  if (peer.endpoint == nullptr || runs.bytes < kLeastRun || to.landing != Landing::as_it_is) return 0;
  return peer.grants.find(peer.endpoint, to) ? static_cast<std::uint32_t>(runs.count) : 0;
}

// Puts, and a fence.
void UcxCarrier::write_rows(int rank, const Rows& to, std::byte* staged) {
  Peer& peer = peers_[at(rank)];
  const Grants::Place place = *peer.grants.find(peer.endpoint, to);
  const Runs runs(to);
  for (std::uint64_t run = 0; run < runs.count; ++run) {
    Parting& parting = fresh_parting(nullptr, staged);  // gives its block back when the run has left
    ucp_request_param_t param{};
    param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
    param.cb.send = &on_sent;
    param.user_data = &parting;
    handed_over(peer, parting,
                ucp_put_nbx(peer.endpoint, staged + run * runs.bytes, runs.bytes,
                            place.address + to.offset + run * to.stride, place.key, &param));
  }
  ucp_worker_fence(worker_.get());
}

void UcxCarrier::grant(Peer& peer, const Registrations::Entry& segment) {
  if (peer.endpoint == nullptr) return;
  struct Letter {
    GrantHeader header;
    std::string packed_key;
    UcxCarrier* carrier;
  };
  auto letter = std::make_unique<Letter>(Letter{{peer.key, reinterpret_cast<std::uint64_t>(segment.base), segment.bytes,
                                                 static_cast<std::uint32_t>(rank_), segment.segment},
                                                segment.packed_key,
                                                this});
  ucp_request_param_t param{};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_FLAGS;
  param.flags = UCP_AM_SEND_FLAG_EAGER;
  param.user_data = letter.get();
  param.cb.send = [](void* request, ucs_status_t, void* sent) {
    ucp_request_free(request);
    const std::unique_ptr<Letter> gone(static_cast<Letter*>(sent));
    --gone->carrier->under_way_;
  };
  const ucs_status_ptr_t request = ucp_am_send_nbx(peer.endpoint, kGrants, &letter->header, sizeof letter->header,
                                                   letter->packed_key.data(), letter->packed_key.size(), &param);
  if (UCS_PTR_IS_ERR(request)) return blame(peer, ucs_status_string(UCS_PTR_STATUS(request)));
  if (!UCS_PTR_IS_PTR(request)) return;
  ++under_way_;
  letter.release();  // the callback's
}

ucs_status_t UcxCarrier::on_message(void* carrier, const void* header, std::size_t header_bytes, void* data,
                                    std::size_t bytes, const ucp_am_recv_param_t* param) {
  if ((param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) != 0) return UCS_OK;  // not of our making: declined
  static_cast<UcxCarrier*>(carrier)->receive({static_cast<const std::byte*>(header), header_bytes},
                                             {static_cast<const std::byte*>(data), bytes});
  return UCS_OK;
}

void UcxCarrier::receive(std::span<const std::byte> header, std::span<const std::byte> data) {
  Message fields;
  constexpr std::size_t kLeast = sizeof fields.envelope + sizeof fields.header;
  if (header.size() < kLeast) return;
  std::memcpy(&fields, header.data(), kLeast);
  const auto [key, sequence] = fields.envelope;
  if (key != key_ || fields.header.from >= peers_.size()) return;  // a stranger
  Peer& peer = peers_[fields.header.from];
  if (peer.failed) return;
  try {
    const auto verdict = peer.order.arrive(sequence, header.subspan(sizeof fields.envelope), data, [&](auto h, auto d) {
      if (!peer.failed) events_.received(peer.rank, h, d);
    });
    if (verdict == InOrder::Verdict::repeated || verdict == InOrder::Verdict::too_early)
      blame(peer, fmt::format("its message {} came twice or far too early", sequence));
  } catch (const std::exception& error) {  // must not pass through UCX
    blame(peer, error.what());
  }
}

ucs_status_t UcxCarrier::on_grant(void* arg, const void* header, std::size_t header_bytes, void* data,
                                  std::size_t bytes, const ucp_am_recv_param_t* param) {
  auto& carrier = *static_cast<UcxCarrier*>(arg);
  GrantHeader fields;
  if ((param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) != 0 || header_bytes != sizeof fields) return UCS_OK;
  std::memcpy(&fields, header, sizeof fields);
  if (fields.key != carrier.key_ || fields.from >= carrier.peers_.size()) return UCS_OK;  // a stranger
  if (carrier.remote_writes_) carrier.peers_[fields.from].grants.add(fields, {static_cast<const char*>(data), bytes});
  return UCS_OK;
}

void UcxCarrier::on_failure(void* arg, ucp_ep_h, ucs_status_t status) {
  auto& peer = *static_cast<Peer*>(arg);
  peer.carrier->blame(peer, fmt::format("its connection broke: {}", ucs_status_string(status)));
}

void UcxCarrier::blame(Peer& peer, std::string reason) {
  peer.failed = true;
  events_.failed(peer.rank, std::move(reason));
}

// By force: what is under way to it comes back to staging.
void UcxCarrier::drop(int rank) {
  Peer& peer = peers_[at(rank)];
  peer.failed = true;
  peer.grants.clear();
  if (peer.endpoint == nullptr) return;
  ucp_request_param_t param{};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS | UCP_OP_ATTR_FIELD_CALLBACK;
  param.flags = UCP_EP_CLOSE_FLAG_FORCE;
  param.cb.send = [](void* request, ucs_status_t, void*) { ucp_request_free(request); };
  ucp_ep_close_nbx(std::exchange(peer.endpoint, nullptr), &param);
}

void UcxCarrier::finish(std::chrono::nanoseconds at_most) {
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
  const auto stop = std::chrono::steady_clock::now() + at_most;
  while (!requests.empty() && std::chrono::steady_clock::now() < stop) {
    ucp_worker_progress(worker_.get());
    std::erase_if(requests, [](void* request) {
      const bool done = ucp_request_check_status(request) != UCS_INPROGRESS;
      if (done) ucp_request_free(request);
      return done;
    });
  }
  for (void* request : requests) ucp_request_free(request);  // a peer that answers no more: the worker ends it
}

}  // namespace weft
#endif
