// Messages by UCX: each an active message of one fragment, from fixed staging; or, where a device writes remote memory,
// rows as puts and their counters as the message behind them (ucx_grants.h). Shared memory is never used, and nothing
// listens on a device other than the named one. Only for builds with UCX.
#pragma once

#include <chrono>
#include <deque>
#include <string>
#include <vector>

#include "weft/transport/wire/carrier.h"
#include "weft/transport/wire/network_wire.h"
#include "weft/transport/wire/ucx_grants.h"
#include "weft/transport/wire/ucx_order.h"
#include "weft/transport/wire/ucx_worker.h"

namespace weft {

class UcxCarrier final : public Carrier {
 public:
  UcxCarrier(const WireHost& host, Events& events);

  std::size_t most_data_bytes() const override;
  // With a key, without which messages are ignored. That keeps out a job that is over, not a stranger: UCX's own
  // protocol lets anyone write who reaches its TCP port.
  std::string address() const override;
  void connect(int peer, std::string_view address) override;
  void send(int peer, Message& message) override;
  std::uint32_t runs_to_write(int peer, const Rows& to) override;
  void write_rows(int peer, const Rows& to, std::byte* staged) override;
  void add_segment(std::uint32_t id, std::byte* base, std::size_t bytes) override;
  void remove_segment(std::uint32_t id) override;
  std::size_t under_way() const override { return under_way_; }
  bool progress() override { return ucp_worker_progress(worker_.get()) != 0; }
  int descriptor() const override { return worker_.descriptor(); }
  bool arm() override { return worker_.arm(); }
  void drop(int peer) override;
  void finish(std::chrono::nanoseconds at_most) override;

 private:
  struct Peer {
    UcxCarrier* carrier = nullptr;
    int rank = 0;
    ucp_ep_h endpoint = nullptr;
    std::uint64_t key = 0, sequence = 0;
    InOrder order;
    Grants grants;
    bool failed = false;
  };
  // What UCX calls back with, once a message or a run of rows has left.
  struct Parting {
    UcxCarrier* carrier;
    Message* message;  // or
    std::byte* block;
    Parting* next;  // in the list of those at rest
  };
  static constexpr unsigned kMessages = 0, kGrants = 1;  // UCX's numbers of the two kinds

  Parting& fresh_parting(Message* message, std::byte* block);
  void handed_over(Peer& peer, Parting& parting, ucs_status_ptr_t request);
  void left(Parting& parting);
  void grant(Peer& peer, const Registrations::Entry& segment);
  void blame(Peer& peer, std::string reason);
  void receive(std::span<const std::byte> header, std::span<const std::byte> data);

  static void on_sent(void* request, ucs_status_t status, void* parting);
  static ucs_status_t on_grant(void* carrier, const void* header, std::size_t header_bytes, void* data,
                               std::size_t bytes, const ucp_am_recv_param_t* param);
  static ucs_status_t on_message(void* carrier, const void* header, std::size_t header_bytes, void* data,
                                 std::size_t bytes, const ucp_am_recv_param_t* param);
  static void on_failure(void* peer, ucp_ep_h endpoint, ucs_status_t status);

  Events& events_;
  int rank_;
  bool remote_writes_;
  std::uint64_t key_;
  UcxWorker worker_;
  Registrations registrations_;
  std::deque<Peer> peers_;  // never moved: UCX holds pointers
  std::deque<Parting> partings_;
  Parting* at_rest_ = nullptr;
  std::size_t under_way_ = 0;  // messages, runs and grants that UCX has not sent yet
};

}  // namespace weft
