// What thread ranks and process ranks have in common: all of it rests on the control block of their host, which has a
// line for every rank of the world. They differ in how a set-up message and a piece of memory reach the peers (gather
// and share).
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "weft/transport/local/control.h"
#include "weft/transport/local/wait.h"
#include "weft/transport/transport.h"

namespace weft {

class LocalTransport : public Transport {
 public:
  LocalTransport(int rank, Control control, int ranks_here);
  // Leaves: from here on this rank's end is no failure. Leaving while an exception unwinds the stack is one.
  ~LocalTransport() override;

  std::shared_ptr<Segment> allocate(std::size_t bytes) final;
  std::vector<std::string> all_gather(const std::string& mine) final;
  Bell& bell(int rank) final { return control_.rank(rank).bell; }
  std::atomic<std::int64_t>& link_clock(int from_host, int to_host) final {
    return control_.link_clock(from_host, to_host);
  }
  void check() final {
    if (control_.failed()) [[unlikely]]
      throw_failure();
  }
  void abort(std::string_view reason, int failed_rank = -1) noexcept final;
  void leave() noexcept final;
  bool has_left(int rank) const final { return control_.rank(rank).left.load(std::memory_order_seq_cst) != 0; }
  std::string host(int rank) const override;
  void publish_progress(std::uint32_t step) final {
    control_.rank(rank()).progress.store(step, std::memory_order_relaxed);
  }
  std::uint32_t progress_of(int rank) const final {
    return control_.rank(rank).progress.load(std::memory_order_relaxed);
  }

 protected:
  const Control& control() const { return control_; }

  virtual std::vector<std::string> gather(const std::string& mine) = 0;
  // The memory of a new segment: a zeroed piece from every rank, as mapped here (transport.h says what stands for a
  // rank of another host); called by all with everyone's sizes. Where one rank could get none, all throw no_memory.
  virtual std::vector<std::shared_ptr<void>> share(std::uint32_t id, const std::vector<std::size_t>& bytes) = 0;

  // Enters the next set-up call; returns its number, from 1 on.
  std::uint32_t arrive();
  bool all_arrived(std::uint32_t at) const;
  // Looks around while waiting in that call: throws when a rank has failed, when one that has not come has
  // left, and past the deadline.
  void keep_waiting(std::string_view call, std::uint32_t at, std::chrono::nanoseconds waited,
                    const std::vector<int>& awaited);

  const Patience& patience() const { return patience_; }

 private:
  [[noreturn]] void throw_failure() const;
  void require_memory(const std::vector<std::size_t>& wanted, const std::vector<std::size_t>& free) const;

  Control control_;
  Patience patience_;
  std::string host_;
  int exceptions_at_birth_;
  bool has_left_ = false;
  std::uint32_t late_in_ = 0;   // the last set-up call in which a peer was late
  std::uint32_t segments_ = 0;  // allocated so far; allocate() is collective, so all ranks count alike
};

// What a rank that caught an exception tells the others before it gives up: whom to blame and why.
void abort_with_current_exception(Transport& transport) noexcept;

}  // namespace weft
