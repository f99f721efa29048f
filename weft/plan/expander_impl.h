// The expander's inside: a plan's expressions compiled to formulas. expand_compile.cc makes it, expand.cc runs it.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "weft/base/error.h"
#include "weft/plan/budget.h"
#include "weft/plan/program.h"
#include "weft/plan/structure.h"

namespace weft {
namespace expanding {

enum Slot { kRank, kRanks, kLoop, kInner, kIndex, kFirstParam };

inline constexpr std::int64_t kMaxItems = std::int64_t{1} << 25;  // lanes of one action, counters of one rank
inline constexpr std::int64_t kMaxLoops = std::int64_t{1} << 23;  // turns of one rank's loops
inline constexpr std::int64_t kManyTurns = 1024;                  // whose memory is asked for before, not after
inline constexpr std::int64_t kMaxOrder = std::int64_t{1} << 40;  // of a trigger's lanes

// What turns cost, in units of Budget: an instruction of a formula; a turn beside its formulas; looking up a name.
inline constexpr std::int64_t kInstruction = 3, kTurn = 12, kName = 2;

inline std::size_t instructions_of(const std::vector<Formula>& list) {
  std::size_t sum = 0;
  for (const Formula& f : list) sum += f.size();
  return sum;
}

struct CompiledBox {
  std::vector<Formula> lo, hi;

  std::size_t instructions() const { return instructions_of(lo) + instructions_of(hi); }
};
struct CompiledWait {
  const WaitRule* rule;
  Formula index, at, per, each, when;
  bool guards_each;       // `when` depends on j
  std::int64_t cost = 0;  // of a turn

  std::size_t instructions() const { return index.size() + at.size() + per.size() + when.size(); }
};
struct CompiledPiece {
  const PieceRule* rule;
  CompiledBox box;
  Formula rank, each, when;
  bool guards_each, one_box;  // one_box: for all j
  std::int64_t cost = 0;

  std::size_t instructions() const { return rank.size() + when.size() + box.instructions(); }
};
struct CompiledSignal {
  const SignalRule* rule;
  Formula rank, index, per, each, when;
  bool guards_each;
  std::int64_t cost = 0;

  std::size_t instructions() const { return rank.size() + index.size() + per.size() + when.size(); }
};
struct CompiledRule {
  std::vector<Formula> let;
  Formula count, when, finish, limit_peer, order, order_step;
  CompiledBox box;
  std::vector<CompiledWait> waits;
  std::vector<CompiledPiece> reads, sources, targets;
  std::vector<CompiledSignal> signals;

  std::int64_t cost = 0;  // of a turn that makes an action, without the turns of its lists
};
struct CompiledOwed {
  std::vector<Formula> let, origin;
  Formula count, when, first, contributors, ranks_per_host;
  CompiledPiece piece;
  std::int64_t cost = 0;
};

}  // namespace expanding

struct Expander::Impl {
  Budget* budget = nullptr;  // null: nobody counts
  Plan plan;
  Scope scope;
  std::vector<Table> tables;
  std::vector<std::int64_t> params;
  std::vector<expanding::CompiledRule> rules;
  std::vector<expanding::CompiledOwed> owed;
  std::vector<std::vector<Formula>> shapes;
  std::vector<Formula> block_rows, counts, totals;
  std::vector<bool> totals_differ;          // by the index within the family
  std::vector<std::int64_t> counter_bases;  // [rank * (families + 1) + family]

  using Slots = std::vector<std::int64_t>;

  std::int64_t eval(const Formula& f, const Slots& slots) const { return f.eval(slots, tables); }

  Slots slots_for(int rank) const {
    Slots slots{rank, plan.num_ranks, 0, 0, 0};
    slots.insert(slots.end(), params.begin(), params.end());
    return slots;
  }

  void compile_all();
  void compile_rule(const Rule& rule);
  void compile_owed(const Owed& owed);
  void place_counters();
  void check_rank(std::int64_t rank, const char* what) const {
    if (rank < 0 || rank >= plan.num_ranks)
      bad_input("plan \"{}\" names {} rank {}, but there are {}", plan.name, what, rank, plan.num_ranks);
  }
  int counter_id(int family, std::int64_t index, std::int64_t span, int rank) const;
  std::pair<std::size_t, std::int64_t> family_of(int counter, int rank) const;  // and its index in it
  Box box(const expanding::CompiledBox& box, const Slots& slots) const;
  void add_lets(const std::vector<Formula>& lets, Slots* slots) const {
    for (const Formula& f : lets) slots->push_back(eval(f, *slots));
  }
  void spend(std::int64_t turns, std::int64_t each) const {
    if (budget != nullptr) budget->spend(turns, each);
  }
  // Before `turns` of a loop add at most as many pieces, or one action. Vectors that grow are there twice for a while.
  void make_room(std::int64_t turns, const Program& out) const {
    if (budget == nullptr) return;
    const std::size_t bytes = out.actions.size() * sizeof(Action) + out.pieces.size() * sizeof(Piece) +
                              out.waits.size() * sizeof(Wait) + out.signals.size() * sizeof(Signal);
    budget->scratch(
        3 * (static_cast<std::int64_t>(bytes) + std::min(turns, expanding::kMaxLoops) * std::int64_t{sizeof(Piece)}));
  }
  std::int64_t slots_cost() const { return expanding::kTurn + std::ssize(params); }
  void count_loops(std::int64_t turns, std::int64_t cost, Program* out) const {
    out->loops += std::clamp<std::int64_t>(turns, 0, expanding::kMaxItems) + 1;
    spend(turns, cost);
    if (out->loops > expanding::kMaxLoops)
      bad_input("plan \"{}\" loops more than {} times on rank {}; a rank's part must be smaller", plan.name,
                expanding::kMaxLoops, out->rank);
  }
  template <typename Item, typename Add>
  void for_each(const Item& item, Slots* slots, Program* out, Add&& add) const;
  Range add_pieces(const std::vector<expanding::CompiledPiece>& pieces, Slots* slots, Program* out) const;
  void check_volume(const Rule& rule, const Box& box) const;
  void add_action(std::size_t rule, std::int64_t s, Slots* slots, Program* out) const;
  void finish_due(const expanding::CompiledOwed& owed, const Slots& slots, const std::vector<std::int64_t>& size,
                  Due* due) const;
};

}  // namespace weft
