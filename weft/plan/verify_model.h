// What the verifier looks at: all ranks' actions as compact records. Boxes are interned, so equal boxes have equal
// ids; counters that are used only lane by lane are one record for the whole range ("block").
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "weft/mesh/box.h"
#include "weft/plan/program.h"

namespace weft::verifying {

// Tiles that one proof may look at singly.
inline constexpr std::int64_t kMaxTiles = std::int64_t{1} << 24;

// Thrown where lanes are not used alike: the caller starts again tile by tile.
struct Misaligned {};

// An open-addressing map from 64-bit keys to int32 values: millions of lookups in one proof.
class FlatMap {
 public:
  FlatMap() : keys_(1024), values_(1024, -1) {}
  std::int32_t& at(std::uint64_t key);            // inserts -1
  std::int32_t find(std::uint64_t key) const;     // -1 where absent

 private:
  void grow();
  std::size_t slot(std::uint64_t key) const;
  std::vector<std::uint64_t> keys_;
  std::vector<std::int32_t> values_;
  std::size_t used_ = 0;
};

class BoxTable {
 public:
  std::int32_t intern(const Box& box);
  const Box& operator[](std::int32_t id) const { return boxes_[id]; }

 private:
  std::vector<Box> boxes_;
  std::vector<std::int32_t> next_;  // boxes with the same hash
  FlatMap first_;
};

struct VWait {
  std::int32_t counter;  // index into Model::counters
  std::uint32_t at;
  std::int32_t lag, per;
};
struct VSignal {
  std::int32_t counter;
  std::int32_t rank;
  std::int32_t per;
};
struct VPiece {
  std::int32_t act, rank, buffer, box;
};

struct Act {
  std::int32_t rank, index;  // index: of the action in its rank's program
  std::int32_t rule, s, lane;
  std::int32_t producer;
  std::int32_t box;          // -1: no data
  std::int32_t tile;         // index into Model::tiles
  std::uint32_t lanes;
  bool is_step, finish;
  Range waits, reads, sources, targets, signals;
};

struct Signaler {
  std::int32_t act;
  std::int32_t per;
  std::uint32_t adds;  // by one lane
};

struct CounterBlock {
  std::int32_t rank, id, span;  // counters id .. id + span - 1 of the rank
  std::uint32_t total = 0;      // growth of each in a run
  bool one_rank = true;         // all signals come from one rank
  Range signalers;              // into Model::signalers
};

struct Model {
  const Plan* plan;
  const Expander* expander;
  bool by_lane;
  std::vector<Act> acts;  // rank by rank, in listed order
  std::vector<Range> acts_of;
  std::vector<VWait> waits;
  std::vector<VPiece> pieces;
  std::vector<VSignal> signals;
  std::vector<CounterBlock> counters;
  std::vector<Signaler> signalers;
  std::vector<std::array<std::int64_t, 2>> tiles;
  BoxTable boxes;
  std::int64_t num_tiles = 0;
  std::vector<std::string>* problems;

  Model(const Plan& plan, const Expander& expander, bool by_lane, std::vector<std::string>* problems);

  std::span<const VWait> waits_of(const Act& a) const { return {waits.data() + a.waits.begin, size_of(a.waits)}; }
  std::span<const VSignal> signals_of(const Act& a) const { return {signals.data() + a.signals.begin, size_of(a.signals)}; }
  std::span<const VPiece> pieces_of(Range range) const { return {pieces.data() + range.begin, size_of(range)}; }
  std::span<const Signaler> signalers_of(const CounterBlock& c) const {
    return {signalers.data() + c.signalers.begin, size_of(c.signalers)};
  }
  const std::array<std::int64_t, 2>& tile_of(const Act& a) const { return tiles[a.tile]; }

  // Does the wait imply that every lane of the signaler (the matching lane, if the counters are per lane) has signalled?
  bool implies(const VWait& wait, const Signaler& signaler) const {
    return wait.at > counters[wait.counter].total - signaler.adds;
  }
  // Does `later`, by one of its own waits, run after `earlier` of the same run has ended?
  bool ends_before(const Act& earlier, const Act& later) const;

  std::string name(const Act& act) const;
  std::string counter_name(const CounterBlock& c) const;
  void problem(std::string text) const;  // keeps the first few
  bool failed() const { return !problems->empty(); }

 private:
  static std::size_t size_of(Range range) { return static_cast<std::size_t>(range.size()); }
  void add(const Program& program);
  void add_act(const Program& program, std::size_t index, std::int64_t lane);
  std::int32_t block(std::int32_t rank, std::int32_t id, std::int64_t span);
  std::int32_t tile_id(const std::array<std::int64_t, 2>& tile);
  void check_pieces(const Program& program, const Action& action, const Act& act);
  void check_piece(const Act& act, const VPiece& piece, bool write);
  void check_packing(const Act& act, const VPiece& piece);
  void check_blocks();
  void collect_signalers();
  void check_totals();
  FlatMap block_of_;
  std::vector<std::vector<std::int64_t>> shapes_;      // [rank * buffers + buffer]
  std::vector<std::int64_t> block_rows_;
};

void check_order(Model& model, std::vector<std::int32_t>* order);                   // promise 2; order of one abstract run
// Which write piece each read or source piece sees: pairs (read piece, write piece), grouped by read piece.
struct Seen {
  std::vector<std::int32_t> first;   // per piece: start in `writers`; size pieces + 1
  std::vector<std::int32_t> writers;
};
Seen check_races(Model& model);                                                     // promises 3 and 4
void check_sums(Model& model, const std::vector<std::int32_t>& order, const Seen& seen);  // promises 1 and 5

}  // namespace weft::verifying
