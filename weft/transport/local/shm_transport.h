// The transport of process ranks that share a host: memfds and pidfds travel through the host's hub (rendezvous.h), all
// else rests on the control block. It is whole for a world of one host; that of several (net.h) adds the others.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "weft/transport/local/heartbeat.h"
#include "weft/transport/local/local.h"
#include "weft/transport/local/shm.h"

namespace weft {

class ShmTransport : public LocalTransport {
 public:
  explicit ShmTransport(ShmSeat seat);
  // Collective over the ranks of this host, once, before all else.
  void attach();

  std::string_view name() const override { return "shm"; }
  std::chrono::nanoseconds silent_for(int rank) const override { return since_beat(control(), rank); }

 protected:
  std::vector<std::string> gather(const std::string& mine) override;
  std::vector<std::shared_ptr<void>> share(std::uint32_t id, const std::vector<std::size_t>& bytes) override;

  // A parcel from every rank of this host, in the order of ranks_on_host().
  std::vector<Parcel> exchange_here(Parcel mine, std::string_view call);
  const std::vector<int>& ranks_on_host() const { return ranks_; }

  // This rank's piece of a segment, as a parcel for the others of this host: the memfd, or why there is none.
  Parcel own_piece(std::size_t bytes) const;

 private:
  void watch_processes();
  template <class LookAround>
  [[noreturn]] void blame_hub(LookAround&& look_around);

  std::vector<int> ranks_;
  std::shared_ptr<void> hub_;
  int hub_rank_;
  pollfd launcher_;
  FrameSocket socket_;
  std::optional<Heartbeat> heartbeat_;  // stops before the socket it watches is closed
};

}  // namespace weft
