#include "weft/transport/join/net.h"

#include <algorithm>
#include <utility>

#include "weft/base/error.h"
#include "weft/base/index.h"
#include "weft/transport/wire/network_wire.h"

namespace weft {

NetTransport::NetTransport(ShmSeat seat, NetSeat net)
    : ShmTransport(std::move(seat)), net_(std::move(net)), everyone_(ranks_from(0, size())) {}

// First it says that it leaves: a peer that sees the wire close must be able to find out that this was in order.
NetTransport::~NetTransport() {
  leave();
  net_.client->beat_now();
  wire_.reset();
  net_.client->finish();
  net_.hub.reset();
}

void NetTransport::attach() {
  ShmTransport::attach();
  try {
    make_wire();
  } catch (...) {
    abort_with_current_exception(*this);
    throw;
  }
}

// What all were asked for, or RDMA where all have it, else TLS.
WireKind NetTransport::agree_on_wire() {
  const bool rdma = has_rdma_device() && available(WireKind::ucx);
  const auto answers = all_gather(net_.wire ? std::string(to_string(*net_.wire)) : rdma ? "any" : "any but rdma");
  std::string asked;
  int first = 0;
  for (int peer = 0; peer < size(); ++peer) {
    if (answers[peer].starts_with("any") || answers[peer] == asked) continue;
    if (!asked.empty())
      bad_input("rank {} (host {}) asks for --link {} and rank {} (host {}) for --link {}; give all ranks the same",
                first, host(first), asked, peer, host(peer), answers[peer]);
    asked = answers[peer];
    first = peer;
  }
  if (const auto kind = parse_wire(asked)) return *kind;
  const bool all = std::count(answers.begin(), answers.end(), "any") == size();
  return all ? WireKind::ucx : WireKind::tls;
}

void NetTransport::make_wire() {
  if (!several_hosts()) return;
  kind_ = agree_on_wire();
  WireHost wired{.rank = rank(),
                 .size = size(),
                 .device = net_.device,
                 .secret = net_.secret,
                 .bell = &bell(rank()),
                 .lost = [client = net_.client.get()](int peer, std::string_view) { client->lost(peer); },
                 .check = [this] { check(); },
                 .remote_writes = kind_ != WireKind::tls && NetworkWire::remote_writes_wanted()};
  for (int peer = 0; peer < size(); ++peer)
    if (!reaches(peer)) wired.peers.push_back(peer);
  wire_ = NetworkWire::make(kind_, std::move(wired));
  const auto addresses = all_gather(wire_->address());
  for (int peer = 0; peer < size(); ++peer)
    if (!reaches(peer)) wire_->connect(peer, addresses[peer]);
}

Wire* NetTransport::wire() { return wire_.get(); }

std::string NetTransport::host(int rank) const { return net_.hosts[rank]; }

std::chrono::nanoseconds NetTransport::silent_for(int rank) const {
  return reaches(rank) ? ShmTransport::silent_for(rank) : net_.client->silent_for(rank);
}

std::vector<std::string> NetTransport::gather(const std::string& mine) {
  const std::uint32_t at = arrive();
  return net_.client->gather(
      mine, [&](std::chrono::nanoseconds waited) { keep_waiting("a set-up call", at, waited, everyone_); });
}

std::vector<std::shared_ptr<void>> NetTransport::map_segment(const std::vector<std::size_t>& bytes,
                                                             const Parcel& mine) {
  std::vector<std::shared_ptr<void>> memory(num(size()));
  const auto parcels = exchange_here(mine, "allocate");
  for (std::size_t position = 0; position < parcels.size(); ++position) {
    const int owner = ranks_on_host()[position];
    if (parcels[position].fd) memory[owner] = map_shared(*parcels[position].fd, bytes[owner]);
  }
  for (int peer = 0; peer < size(); ++peer)
    if (!reaches(peer)) memory[peer] = reserve_addresses(bytes[peer]);
  return memory;
}

// Nobody returns before every rank has its memory and takes what the wire brings for it, or all hear why not.
std::vector<std::shared_ptr<void>> NetTransport::share(std::uint32_t id, const std::vector<std::size_t>& bytes) {
  Parcel mine = own_piece(bytes[rank()]);
  std::vector<std::shared_ptr<void>> memory;
  try {
    memory = map_segment(bytes, mine);
  } catch (const Error& error) {
    if (error.code() != Code::no_memory) throw;
    mine.text = error.what();
  }
  if (wire_ && mine.text.empty()) {
    const auto own = memory[rank()];
    wire_->add_segment(id, static_cast<std::byte*>(own.get()), bytes[rank()]);
    memory[rank()] = {own.get(), [own, id, wire = std::weak_ptr(wire_)](void*) {
                        if (const auto still = wire.lock()) still->remove_segment(id);
                      }};
  }
  const auto problems = all_gather(mine.text);
  for (int owner = 0; owner < size(); ++owner)
    if (!problems[owner].empty())
      throw Error(Code::no_memory, fmt::format("rank {} (host {}): {}", owner, host(owner), problems[owner]), owner,
                  host(owner));
  return memory;
}

}  // namespace weft
