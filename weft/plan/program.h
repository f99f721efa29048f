// What one rank does in a run: the plan's rules expanded for it. Flat arrays, so that a verifier can hold a
// thousand ranks and an executor can walk its own without chasing pointers.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "weft/base/index.h"
#include "weft/mesh/box.h"
#include "weft/plan/plan.h"

namespace weft {

class Budget;

struct Wait {
  std::int32_t counter;  // on the waiting rank
  std::uint32_t at;
  std::int32_t lag;
  std::int32_t per;
};

struct Signal {
  std::int32_t rank;
  std::int32_t counter;  // on that rank
  std::int32_t per;
};

struct Piece {
  std::int32_t rank;
  std::int32_t buffer;
  Box box;
};

// A part of one of Program's arrays.
struct Range {
  std::int32_t begin = 0, end = 0;
  std::int32_t size() const { return end - begin; }
};

struct Action {
  ActionKind kind = ActionKind::trigger;
  std::int32_t rule = 0, s = 0;  // where it comes from
  std::int32_t producer = -1;
  Box box;  // logical; dims 0: no data
  std::array<std::int64_t, 2> tile{0, 0};
  std::int64_t lanes = 1;
  Range waits, reads, sources, targets, signals;
  bool finish = false;
  Limit limit = Limit::none;
  std::int32_t limit_peer = 0;
  std::int64_t order = 0, order_step = 0;  // of a trigger's lanes: plan.h
};

struct Program {
  int rank = 0;
  std::int64_t loops = 0;       // turns of loops that the expansion took
  std::vector<Action> actions;  // in rule order
  std::vector<Wait> waits;
  std::vector<Piece> pieces;  // reads, sources and targets
  std::vector<Signal> signals;

  std::span<const Wait> of(const Action& a) const { return part(waits, a.waits); }
  std::span<const Piece> reads(const Action& a) const { return part(pieces, a.reads); }
  std::span<const Piece> sources(const Action& a) const { return part(pieces, a.sources); }
  std::span<const Piece> targets(const Action& a) const { return part(pieces, a.targets); }
  std::span<const Signal> signals_of(const Action& a) const { return part(signals, a.signals); }

 private:
  template <typename T>
  static std::span<const T> part(const std::vector<T>& all, Range range) {
    return {all.data() + range.begin, num(range.size())};
  }
};

// Tiles of a box: lane i is tile (i / columns, i % columns) of a grid anchored at the box's corner.
struct Grid {
  std::int64_t rows = 1, cols = 1;  // in tiles
};
Grid grid_of(const Box& box, const std::array<std::int64_t, 2>& tile);
// The part of `piece` that lane i touches, where piece has the shape of the action's box.
Box lane_box(const Box& piece, const std::array<std::int64_t, 2>& tile, std::int64_t lane);
// The same for a step's reads: cut by the tile's rows only.
Box lane_rows(const Box& piece, const Action& action, std::int64_t lane);

// Expands rules. Compiled once for a plan; expanding a rank touches nothing of the others.
class Expander {
 public:
  // Throws bad_input where an expression cannot be read. What is done here and in later calls is charged to `budget`.
  explicit Expander(const Plan& plan, Budget* budget = nullptr);
  ~Expander();
  Expander(Expander&&) noexcept;

  int num_ranks() const;
  Program program(int rank) const;
  void program(int rank, Program* out) const;  // the same, into memory used before

  // Memory of one rank.
  std::vector<std::int64_t> shape(int buffer, int rank) const;
  std::int64_t block_rows(int buffer, int rank) const;    // of a packed buffer
  std::int64_t num_counters(int rank) const;              // all families
  std::int64_t counter_base(int family, int rank) const;  // first id of a family
  std::uint32_t counter_total(int counter, int rank) const;
  std::vector<std::uint32_t> counter_totals(int rank, std::span<const std::int32_t> counters) const;
  bool same_totals(int counter, int rank) const;          // has its whole family one total?
  std::string counter_name(int counter, int rank) const;  // "full[12]"
  Purpose purpose_of(int counter, int rank) const;

  // The pieces owed to a rank, with what they must hold.
  struct Due {
    Piece piece;
    std::array<std::int64_t, kMaxDims> origin;
    std::int32_t first, contributors, ranks_per_host, leaf;
    bool finished;
    std::int32_t epilogue;  // whose
  };
  std::vector<Due> owed(int rank) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// The same plan with every action of every rank written out as a rule of its own: one lane each when
// `by_lane`.
Plan written_out(const Plan& plan, bool by_lane);

// "step 3 of rank 2 (ring, s = 1)".
std::string describe(const Plan& plan, const Program& program, std::size_t action);

}  // namespace weft
