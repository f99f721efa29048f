// The control block: what the ranks of one machine know of each other, in memory that all of them (and their
// launcher) map. Bells, heartbeats, progress, and who failed first. A few cache lines per rank.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "weft/transport/local/bell.h"

namespace weft {

struct RankState {
  Bell bell;
  // Apart from the bell, which peers read at every signal.
  alignas(64) std::atomic<std::int64_t> heartbeat_ns{0};  // steady clock
  std::atomic<std::uint32_t> progress{0};
  std::atomic<std::uint32_t> arrived{0};  // set-up calls entered
  std::atomic<std::uint32_t> left{0};     // 1: needs its peers no more; its end is no failure
  std::atomic<std::uint32_t> named{0};    // 1: someone writes `host`, 2: it is written
  char host[104] = {};
};

struct Failure {
  int reporter;     // the rank that said so, or num_ranks for the launcher
  int failed_rank;  // -1: no rank, but the launcher
  std::string reason;
};

// A view that keeps its memory mapped; copies see the same block.
class Control {
 public:
  static std::size_t bytes_for(int num_ranks);
  // Makes a block in zeroed memory of bytes_for(num_ranks) bytes.
  static Control create(std::shared_ptr<void> memory, int num_ranks);
  // The block another process made; io when it is not one that this build understands.
  static Control open(std::shared_ptr<void> memory, std::size_t bytes, int num_ranks);

  int num_ranks() const { return num_ranks_; }
  RankState& rank(int rank) const { return ranks_[rank]; }
  // Until when the link from one host to another is busy (pace.h); hosts are numbered below num_ranks, and -1 is all.
  std::atomic<std::int64_t>& link_clock(int from_host, int to_host) const {
    return link_clocks_[(from_host + 1) * (num_ranks_ + 1) + to_host + 1];
  }
  int launcher_pid() const;

  // What the rank's host is called; the first to say so stands. Empty: nobody has.
  void set_host(int rank, std::string_view host) const noexcept;
  std::string host(int rank) const;

  bool failed() const { return failed_->load(std::memory_order_relaxed) != 0; }
  std::optional<Failure> first_failure() const;
  // Says that `failed_rank` failed and rings every bell. Only the first report of the block is ever read.
  // Each reporter writes to a place of its own and then claims to be first, so one that is killed half-way
  // harms none.
  void report(int reporter, int failed_rank, std::string_view reason) const noexcept;

 private:
  struct Header;
  struct Report;
  Control(std::shared_ptr<void> memory, int num_ranks);

  std::shared_ptr<void> memory_;
  int num_ranks_;
  std::atomic<std::uint32_t>* failed_;  // 1 + the first reporter, 0 while all is well
  RankState* ranks_;
  Report* reports_;
  std::atomic<std::int64_t>* link_clocks_;
};

}  // namespace weft
