// What one action costs the rank that runs it, apart from waiting and links:
//
//   step_s for every tile (of a trigger too, moving or not), and signal_s for every counter of another rank that it
//                              raises: the counter is in that rank's cache
//   + what the producer does   gemm: multiply-adds at flops_per_s, then its rows of x and its weights, each read once;
//                              gemv: row_s for every output, and its weights; of many rows, as gemm;
//                              embedding_bag: nothing beside the pass, of which its rows (estimate_tables.h) are a part
//   + one pass over memory     the longer of reading (sources, and the rows of a copy or of bags) and storing, and half
//                              of the shorter: hardware overlaps the rest. Tiles go into a peer's memory, on this host
//                              or (through the transport) on another, at the local link's rate where they are kept tile
//                              by tile; scattered over the rows of an output no faster than write_bytes_per_s. A gemm's
//                              tiles with one target and at most one source or addend are made where they belong: they
//                              cost tile_bytes_per_s, and half of reading the source or addend
//   + narrow formats           passes over f32 values at the cache's rate: two for bf16 and int8 to be made, one to be
//                              widened (bench/int8_rate: 22 and 60 to 90 GB/s in the cache, 16 from memory; a cache of
//                              35)
//
// Reads and stores are served by the cache where all that the rank touches in a run fits into it, by memory where it is
// twice as much or more, and between the two in proportion. The first step's weights come from memory, unless a hint
// says that they fit into the rank's part of the last-level cache: a model's next layer does not.
#pragma once

#include <vector>

#include "weft/cluster/cluster.h"
#include "weft/plan/price/estimate.h"
#include "weft/plan/price/tables.h"
#include "weft/plan/verify/model.h"

namespace weft::estimating {

// Part of the shorter of reading and storing that the longer does not hide. Seen on Zen 4, outputs of 16 MB: with 0.5 a
// reduce-scatter, an all-gather and a one-shot all-reduce come out within a sixth; with 0 or 1 some are off by a half.
inline constexpr double kExposed = 0.5;

struct Cost {
  double busy = 0;     // of the rank, seconds
  double compute = 0;  // the same, were its output kept local
};

class Costs {
 public:
  Costs(const verifying::Model& model, const Cluster& cluster, const EstimateHint& hint);

  Cost of(const verifying::Act& act) const;
  double bytes(const verifying::VPiece& piece) const;
  double sent_bytes(const verifying::Act& act, const verifying::VPiece& target) const;  // to another host
  double store_seconds(const verifying::Act& act, const verifying::VPiece& piece) const;

 private:
  struct Memory {
    double read, write, tile, store;  // seconds a byte; store: into a peer's memory
  };
  Memory memory_for(double touched, double cache_bytes) const;
  double touched_by(const verifying::Act& act) const;
  double produce(const verifying::Act& act, const Memory& memory) const;
  double convert(const verifying::Act& act) const;
  bool made_in_place(const verifying::Act& act) const;
  bool first_with_weights(const verifying::Act& act) const;

  const verifying::Model& m_;
  const Cluster& cluster_;
  const EstimateHint hint_;
  std::vector<Memory> memory_;                    // of each rank
  std::vector<std::vector<TableReads>> lookups_;  // of each producer, if it pools bags, on each rank
  double cold_read_;                              // seconds a byte of weights that no step before has read
};

}  // namespace weft::estimating
