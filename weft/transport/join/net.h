// The transport of ranks on several hosts. Within a host all is as shm_transport.h says; set-up calls go through the
// TCP hub in rank 0's process (net_hub.h), which also tells each host of the others' life and failures (net_client.h);
// data between hosts goes through a wire (wire.h). How ranks find the hub and each other: net_join.h.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "weft/transport/join/net_client.h"
#include "weft/transport/join/net_hub.h"
#include "weft/transport/local/shm_transport.h"
#include "weft/transport/wire/wire_kind.h"

namespace weft {

class NetworkWire;

struct NetSeat {
  std::shared_ptr<NetHub> hub;  // on rank 0
  std::shared_ptr<NetClient> client;
  std::vector<std::string> hosts;  // what the host of each rank is called
  std::vector<int> host_index;     // of each rank
  std::string device;              // the network device that leads to the others
  std::string secret;              // of this world
  std::optional<WireKind> wire;    // asked for; none: what these hosts have
};

class NetTransport final : public ShmTransport {
 public:
  NetTransport(ShmSeat seat, NetSeat net);
  // Rank 0 stays until the others have left (net_hub.h).
  ~NetTransport() override;

  // Collective, once, before all else; also makes the wire.
  void attach();

  std::string_view name() const override { return several_hosts() ? transport_name(kind_) : "shm"; }
  int host_index(int rank) const override { return net_.host_index[rank]; }
  std::string host(int rank) const override;
  Wire* wire() override;
  std::chrono::nanoseconds silent_for(int rank) const override;

 private:
  std::vector<std::string> gather(const std::string& mine) override;
  std::vector<std::shared_ptr<void>> share(std::uint32_t id, const std::vector<std::size_t>& bytes) override;

  bool several_hosts() const { return ranks_here() < size(); }
  std::vector<std::shared_ptr<void>> map_segment(const std::vector<std::size_t>& bytes, const Parcel& mine);
  WireKind agree_on_wire();
  void make_wire();

  NetSeat net_;
  std::vector<int> everyone_;
  WireKind kind_ = WireKind::tls;  // of wire_
  std::shared_ptr<NetworkWire> wire_;
};

}  // namespace weft
