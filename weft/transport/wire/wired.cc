#include "weft/transport/wire/wired.h"

#include <string>
#include <utility>
#include <vector>

#include "weft/transport/join/net_handshake.h"
#include "weft/transport/local/memory.h"
#include "weft/transport/wire/network_wire.h"

namespace weft {
namespace {

constexpr const char* kLoopback = "lo";

class WiredTransport final : public Transport {
 public:
  WiredTransport(Transport& inner, int ranks_per_host, WireKind kind)
      : Transport(inner.rank(), inner.size(), inner.ranks_here()),
        inner_(inner),
        ranks_per_host_(ranks_per_host),
        kind_(kind == WireKind::ucx ? WireKind::trusted_ucx : kind) {
    WireHost host;
    host.rank = rank();
    host.size = size();
    host.device = kLoopback;
    for (int peer = 0; peer < size(); ++peer)
      if (!reaches(peer)) host.peers.push_back(peer);
    host.secret = inner.all_gather(rank() == 0 ? random_bytes(32) : "")[0];
    host.remote_writes = NetworkWire::remote_writes_wanted();
    host.bell = &inner.bell(rank());
    host.lost = [this](int peer, std::string_view reason) {
      if (!inner_.has_left(peer)) inner_.abort(reason, peer);
    };
    host.check = [this] { inner_.check(); };
    wire_ = NetworkWire::make(kind_, std::move(host));
    const auto addresses = inner.all_gather(wire_->address());
    for (int peer = 0; peer < size(); ++peer)
      if (!reaches(peer)) wire_->connect(peer, addresses[peer]);
    inner.barrier();
  }
  // Leaves before the wire goes: peers see its end and ask why.
  ~WiredTransport() override { inner_.leave(); }

  std::string_view name() const override { return transport_name(kind_); }

  std::shared_ptr<Segment> allocate(std::size_t bytes) override {
    const std::shared_ptr<Segment> all = inner_.allocate(bytes);
    const std::weak_ptr<NetworkWire> wire = wire_;
    std::shared_ptr<Segment> mine(new Segment(*all), [wire](Segment* segment) {
      if (const auto still = wire.lock()) still->remove_segment(segment->id);
      delete segment;
    });
    for (int peer = 0; peer < size(); ++peer) {
      if (reaches(peer)) continue;
      mine->memory[peer] = reserve(mine->bytes[peer]);
      mine->base[peer] = static_cast<std::byte*>(mine->memory[peer].get());
    }
    wire_->add_segment(mine->id, mine->base[rank()], mine->bytes[rank()]);
    inner_.barrier();  // nobody sends before all know the segment
    return mine;
  }

  std::vector<std::string> all_gather(const std::string& mine) override { return inner_.all_gather(mine); }
  Bell& bell(int rank) override { return inner_.bell(rank); }
  int host_index(int rank) const override { return rank / ranks_per_host_; }
  Wire* wire() override { return wire_.get(); }
  std::atomic<std::int64_t>& link_clock(int from_host, int to_host) override {
    return inner_.link_clock(from_host, to_host);
  }
  void check() override { inner_.check(); }
  void abort(std::string_view reason, int failed_rank) noexcept override { inner_.abort(reason, failed_rank); }
  void leave() noexcept override { inner_.leave(); }
  bool has_left(int rank) const override { return inner_.has_left(rank); }
  std::chrono::nanoseconds silent_for(int rank) const override { return inner_.silent_for(rank); }
  std::string host(int rank) const override { return inner_.host(rank); }
  void publish_progress(std::uint32_t step) override { inner_.publish_progress(step); }
  std::uint32_t progress_of(int rank) const override { return inner_.progress_of(rank); }

 private:
  Transport& inner_;
  int ranks_per_host_;
  WireKind kind_;
  std::shared_ptr<NetworkWire> wire_;
};

}  // namespace

std::unique_ptr<Transport> make_wired(Transport& inner, int ranks_per_host, WireKind kind) {
  return std::make_unique<WiredTransport>(inner, ranks_per_host, kind);
}

}  // namespace weft
