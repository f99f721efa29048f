// A draft is a plan being written: the names that every builder uses, and the few shapes of rule that recur.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "weft/plan/plan.h"
#include "weft/plan/rule_words.h"
#include "weft/plan/space.h"

namespace weft {

// r this rank, N ranks, s and j loops; m, n the output of one rank; tm, tn a tile; cols tile columns.
namespace var {
inline const Expr r = Expr::name("r"), N = Expr::name("N"), s = Expr::name("s"), j = Expr::name("j");
inline const Expr i = Expr::name("i"), q = Expr::name("q"), c = Expr::name("c"), d = Expr::name("d");
inline const Expr a = Expr::name("a"), b = Expr::name("b"), u = Expr::name("u"), lo = Expr::name("lo"),
                  hi = Expr::name("hi"), x = Expr::name("x"), z = Expr::name("z");
inline const Expr m = Expr::name("m"), n = Expr::name("n"), k = Expr::name("k");
inline const Expr tm = Expr::name("tm"), tn = Expr::name("tn"), cols = Expr::name("cols");
inline const Expr cap = Expr::name("cap"), slot = Expr::name("slot"), tiles = Expr::name("tiles"), S = Expr::name("S");
inline const Expr next = (r + 1) % N, previous = (r - 1) % N;
}  // namespace var

inline Expr other(const Expr& j) { return (var::r + 1 + j) % var::N; }  // the j-th of the N - 1 other ranks

// Rows [lo, hi) and all n columns.
inline BoxRule rows(Expr lo, Expr hi) { return {{std::move(lo), 0}, {std::move(hi), var::n}}; }

struct Draft {
  Plan plan;
  Producer producer;

  Draft(std::string_view what, Route route, const Producer& producer, int num_ranks);  // the name is both words

  void param(const std::string& name, std::int64_t value) { plan.params.push_back({name, value}); }
  int buffer(Buffer b);
  int counter(std::string name, Expr count, Expr total);
  int open_counter(Expr count);      // "open": that outputs may be written; one signal per run
  int credit_counter(Expr count);    // "credit": that inboxes may be written again; one signal per run
  int output(Expr rows, Expr cols);  // "y", what the caller reads
  int inbox(Expr slots, Dtype wire, std::string name = "inbox");  // slots of `cap` rows, tile by tile
  Rule step(std::string name, BoxRule box) const;                 // of the producer, limited by run-time rows
  Rule trigger(std::string name, BoxRule box = {}) const;
  void add(Rule rule) { plan.rules.push_back(std::move(rule)); }

  // Opens this rank's output to the ranks that write it: a trigger that only signals.
  void open(std::vector<SignalRule> signals, Expr when = 1);
  // Tells the writers of an inbox that it may be written again, once all of it has been used.
  void credit(WaitRule used, std::vector<SignalRule> signals);
};

// Tiles of a box of that many rows.
inline Expr tiles_of(Expr rows) { return up(std::move(rows), var::tm) * var::cols; }
// Rows and tiles of chunk c, the rows of owner c.
inline Expr chunk_rows(const Expr& c) { return cut(var::m, var::N, c + 1) - cut(var::m, var::N, c); }
inline Expr chunk_tiles(const Expr& c) { return tiles_of(chunk_rows(c)); }

// A slice of a chunk is a range of its tile columns or of its tile rows: rows lo to hi and columns x to z of the
// chunk's a to b, its tiles numbered from u on.
enum class SlicedBy { rows, columns };
std::vector<Let> slice_lets(SlicedBy by);
// By columns, unless there are too few.
SlicedBy columns_first(const Producer& producer, int slices);

// Gathers: the rows of rank q stand at q * m, so all ranks need the same width.
void check_same_width(const Producer& producer);
BoxRule stacked(const Expr& rank);
// `count` boxes of a buffer, each a copy of what rank `from` made.
Owed owed_copy(int buffer, Expr count, Expr from, BoxRule box, bool finished);

// The format in which an all_reduce's sums go to everybody.
inline Dtype sums_format(const Space& space) {
  const SpaceOptions& o = space.options;
  return o.wire_sums.value_or(o.wire == Dtype::int8 ? Dtype::int8 : Dtype::f32);
}

inline constexpr int kMaxOneShotRanks = 64;  // N x N slots of memory and N^3 stores beyond this serve nobody

inline constexpr int kMaxStagedRanks = 16;  // several ranks share a tile, so its proof goes tile by tile

// One builder per collective. `route` is never automatic here.
Plan build_keep(const Producer& producer, int num_ranks);
Plan build_reduce_scatter(const Producer& producer, const Space& space, Route route);
Plan build_all_reduce(const Producer& producer, const Space& space, Route route);
Plan build_halving_doubling_all_reduce(Producer producer, const Space& space);  // where ranks and rows are even
Plan build_torus_all_reduce(Producer producer, const Space& space);  // where ranks fill a torus and rows are even
std::vector<int> torus_of(const Space& space);                       // its dimensions
Plan build_all_gather(const Producer& producer, const Space& space, Route route);
Plan build_window_reduce_scatter(const Producer& producer, const Space& space);
Plan build_window_all_reduce(const Producer& producer, const Space& space);
Plan build_all_to_all(const Producer& producer, const Space& space, Route route = Route::direct);
Plan build_broadcast(const Producer& producer, const Space& space);
Plan build_gather_first(const Producer& producer, const Space& space);  // route staged of the next
Plan build_gather_gemm(const Producer& producer, const Space& space, Route route);

}  // namespace weft
