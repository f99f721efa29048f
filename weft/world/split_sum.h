// A sum over ranks that does not block, for whoever overlaps by hand. Weft's routes of reduce_scatter and all_reduce
// add while they run, which waits for peers. Here the parts go by an all_to_all whose start returns once they are on
// their way; they are added when they have come, in rank order; and an all_reduce sends the sums on by an all_gather.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "weft/plan/space.h"
#include "weft/world/op.h"

namespace weft {

class World;
struct Cluster;

class SplitSum {
 public:
  // Collective. The space is a reduce_scatter, or an all_reduce of rows that divide among its ranks; its options do not
  // count. Every rank has at least one row to add up.
  SplitSum(World& world, const Space& space, std::int64_t rows, std::int64_t cols);
  static bool possible(SpaceKind kind, std::int64_t rows, int ranks);

  void start(const float* made);  // (rows, cols)
  // Waits for the parts, adds them and sends the sums on. All ranks start their ops in one order (Op::run), so where
  // sums are sent on, the caller gives this a fixed place: behind the start of the next sum. Started whenever its parts
  // are there, the gather would come before that exchange on one rank and behind it on another, and each would wait
  // until the other opens.
  void add_up();
  bool added() const { return added_; }
  bool sends_sums() const { return gather_ != nullptr; }
  void poll();      // helps what is under way along; adds up where that starts no op
  Matrix output();  // of all rows, or of this rank's part; once added up

  std::int64_t bytes_sent() const;               // to other ranks, over all runs
  double seconds(const Cluster& cluster) const;  // estimated, of a run

 private:
  int ranks_;
  std::int64_t cols_;
  std::unique_ptr<Op> exchange_, gather_;  // no gather: a reduce_scatter
  std::vector<float> sums_;                // this rank's part of the rows
  bool added_ = false;
};

}  // namespace weft
