// What the verifier looks at: all ranks' actions as compact records. Boxes are interned, so equal boxes have
// equal ids; counters that are used only lane by lane are one record for the whole range ("block").
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "weft/base/index.h"
#include "weft/mesh/box.h"
#include "weft/plan/assumptions.h"
#include "weft/plan/budget.h"
#include "weft/plan/program.h"

namespace weft::verifying {

// What records cost, in units of Budget: one that is made, kept and looked at by every pass; a look at one that lies
// anywhere in memory.
inline constexpr std::int64_t kRecord = 60, kLook = 4;

// Thrown where lanes are not used alike: the caller starts again tile by tile.
struct Misaligned {};

// An open-addressing map from integer keys to int32 values, -1 meaning absent: millions of lookups in one
// proof, most of them cache misses, so key and value lie together and tables of one rank are kept apart.
template <typename Key>
class FlatMap {
 public:
  explicit FlatMap(std::size_t expected = 0) : entries_(std::bit_ceil(2 * expected + 16)) { set_shift(); }

  // Inserts -1 where absent. The key counts as present once the caller has stored a value, which callers do
  // at once.
  std::int32_t& at(Key key) {
    if (2 * used_ >= entries_.size()) grow();
    Entry& entry = entries_[slot(key)];
    if (entry.value == -1) {
      entry.key = key;
      ++used_;
    }
    return entry.value;
  }
  std::int32_t find(Key key) const { return entries_[slot(key)].value; }
  void prefetch(Key key) const { __builtin_prefetch(&entries_[hashed(key)], 1); }  // it will be looked up soon

 private:
  struct Entry {
    Key key = 0;
    std::int32_t value = -1;
  };
  void set_shift() { shift_ = std::countl_zero(static_cast<std::uint64_t>(entries_.size())) + 1; }
  std::size_t hashed(Key key) const {
    std::uint64_t hash = key * 0x9e3779b97f4a7c15ULL;
    hash = (hash ^ (hash >> 32)) * 0xd6e8feb86659fd93ULL;
    return hash >> shift_;
  }
  std::size_t slot(Key key) const {
    const std::size_t mask = entries_.size() - 1;
    std::size_t at = hashed(key);
    while (entries_[at].value != -1 && entries_[at].key != key) at = (at + 1) & mask;
    return at;
  }
  void grow() {
    std::vector<Entry> old(entries_.size() * 2);
    old.swap(entries_);
    set_shift();
    for (const Entry& entry : old)
      if (entry.value != -1) entries_[slot(entry.key)] = entry;
  }
  std::vector<Entry> entries_;
  std::size_t used_ = 0;
  int shift_ = 0;
};

class BoxTable {
 public:
  std::int32_t intern(const Box& box);
  const Box& operator[](std::int32_t id) const { return boxes_[id]; }
  std::int64_t looks() const { return looks_; }  // at boxes of the same hash, so far
  // Of a box. Vectors that grow are there twice for a while, and maps are half empty.
  static constexpr std::int64_t kBytes = 2 * sizeof(Box) + 96;
  std::int64_t bytes() const { return std::ssize(boxes_) * kBytes; }

 private:
  std::int64_t looks_ = 0;
  std::vector<Box> boxes_;
  std::vector<std::int32_t> next_;  // boxes with the same hash
  FlatMap<std::uint64_t> first_;
  std::int32_t last_ = -1;  // lists of pieces often repeat one box
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
  std::int32_t box;   // -1: no data
  std::int32_t tile;  // index into Model::tiles
  std::uint32_t lanes;
  bool is_step, finish;
  Range waits, reads, sources, targets, signals;
  Limit limit = Limit::none;
  std::int32_t limit_peer = 0;
  std::int64_t first_row = 0;  // of the action's box, of which this may be one lane
};

struct Signaler {
  std::int32_t act;
  std::int32_t per;
  std::uint32_t adds;  // by one lane
};

struct CounterBlock {
  static constexpr std::int32_t kNobody = -1, kSeveral = -2;
  std::int32_t rank, id, span;  // counters id .. id + span - 1 of the rank
  std::uint32_t total = 0;      // growth of each in a run
  std::int32_t from = kNobody;  // the rank that all signals come from
  Range signalers = {};         // into Model::signalers

  bool one_rank() const { return from != kSeveral; }
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
  Budget* budget;
  std::int64_t num_tiles = 0;
  std::vector<std::string>* problems;
  bool certain = false;  // a problem was found that no look at single tiles could dispel

  Model(const Plan& plan, const Expander& expander, bool by_lane, Budget* budget, std::vector<std::string>* problems);

  std::span<const VWait> waits_of(const Act& a) const { return {waits.data() + a.waits.begin, size_of(a.waits)}; }
  std::span<const VSignal> signals_of(const Act& a) const {
    return {signals.data() + a.signals.begin, size_of(a.signals)};
  }
  std::span<const VPiece> pieces_of(Range range) const { return {pieces.data() + range.begin, size_of(range)}; }
  std::span<const Signaler> signalers_of(const CounterBlock& c) const {
    return {signalers.data() + c.signalers.begin, size_of(c.signalers)};
  }
  const std::array<std::int64_t, 2>& tile_of(const Act& a) const { return tiles[a.tile]; }

  // Does the wait imply that every lane of the signaler (the matching lane, if the counters are per lane) has
  // signalled?
  bool implies(const VWait& wait, const Signaler& signaler) const {
    return wait.at > counters[wait.counter].total - signaler.adds;
  }
  // Does `later`, by one of its own waits, run after `earlier` of the same run has ended?
  bool ends_before(const Act& earlier, const Act& later) const;

  std::string name(const Act& act) const;
  std::string counter_name(const CounterBlock& c) const;
  void problem(std::string text) const;  // keeps the first few
  bool failed() const { return !problems->empty(); }
  // Throw bad_input past the budget: a hostile plan may not take hours or all memory to refuse.
  void spend(std::int64_t looks) const { budget->spend(kLook * std::min(looks, INT64_MAX / kLook)); }
  void hold(std::int64_t bytes) const { budget->hold(bytes); }
  void hold_boxes();  // those interned since
  // Passes over all waits look at counters that lie anywhere: those of the waits to come are asked for in time.
  void ask_for_counter(std::int32_t wait) const {
    constexpr std::int32_t kAhead = 16;
    if (wait + kAhead < int_size(waits)) __builtin_prefetch(&counters[at(waits[at(wait + kAhead)].counter)]);
  }

 private:
  static std::size_t size_of(Range range) { return num(range.size()); }
  void reserve(const Program& program);
  void weigh();
  void add(const Program& program);
  void charge(const Program& program, const Action& action, std::int64_t lanes);
  void make_room(std::size_t acts, std::size_t waits, std::size_t pieces, std::size_t signals);
  void add_act(const Program& program, std::size_t index, std::int64_t lane);
  void ask_for_blocks(const Program& program, Range now);
  // The block that begins at a counter; made with that span where there is none.
  std::int32_t block(std::int32_t rank, std::int32_t id, std::int64_t span);
  std::int32_t tile_id(const std::array<std::int64_t, 2>& tile);
  void sort_counters();
  void check_blocks();
  void collect_signalers();
  void find_totals(int rank);
  void check_totals();
  void check_wait(const Act& act, const VWait& wait);
  Assumptions assumptions_;
  std::vector<FlatMap<std::uint32_t>> block_of_;        // of each rank, by the first counter's id
  std::vector<Range> counters_of_;                      // of each rank, into sorted_
  std::vector<std::int32_t> sorted_;                    // counters by rank and id
  std::int64_t held_ = 0, held_boxes_ = 0, looks_ = 0;  // charged so far
};

void check_order(Model& model, std::vector<std::int32_t>* order);  // promise 2; order of one abstract run
// Of a plan that is proved, acts being single tiles: the first lane of each action whose lanes may have to run one by
// one.
std::vector<std::int32_t> find_one_by_one(const Model& model);
// Which write piece each read or source piece sees: pairs (read piece, write piece), grouped by read piece.
struct Seen {
  std::vector<std::int32_t> first;  // per piece: start in `writers`; size pieces + 1
  std::vector<std::int32_t> writers;
  std::vector<std::int32_t> first_write, writes;  // all write pieces by rank * buffers + buffer
};

// The write pieces of one rank's memory by their exact place.
class Places {
 public:
  Places(const Model& model, const Seen& seen, int rank);
  std::int32_t find(std::int32_t buffer, std::int32_t box) const { return piece_at_.find(key(buffer, box)); }
  // Those whose rows overlap the box's, for boxes that nobody wrote as they are. Valid until the next call.
  std::span<const std::int32_t> near(std::int32_t buffer, const Box& box);

 private:
  // The writes of a buffer by their first rows, sorted when they are asked for.
  struct ByRow {
    std::vector<std::pair<std::int64_t, std::int32_t>> starts;
    std::int64_t tallest = 0;
  };
  void sort_rows(std::int32_t buffer);
  static std::uint64_t key(std::int32_t buffer, std::int32_t box) {
    return static_cast<std::uint64_t>(buffer) << 32 | static_cast<std::uint32_t>(box);
  }
  const Model& m_;
  const Seen& seen_;
  int rank_;
  FlatMap<std::uint64_t> piece_at_;
  std::vector<ByRow> by_row_;        // of each buffer
  std::vector<std::int32_t> found_;  // by the latest call of near()
};
Seen check_races(Model& model);                                                           // promises 3 and 4
void check_leads(Model& model);                                                           // promise 4, for ever
void check_sums(Model& model, const std::vector<std::int32_t>& order, const Seen& seen);  // promises 1 and 5

}  // namespace weft::verifying
