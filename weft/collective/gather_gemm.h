// A gather that feeds a gemm, on the consumer's side: the m rows of x on every rank become N * m rows of a, and the
// tiles of the gemm wait for the rows that they read. Rows are sent in strips, one counter per strip.
#pragma once

#include "weft/collective/draft.h"

namespace weft {

namespace var {
inline const Expr strips = Expr::name("strips");  // of the rows that one rank sends
}

inline BoxRule rows_of_x() { return {{0, 0}, {var::m, var::k}}; }
inline BoxRule rows_of_a(const Expr& rank) { return {{rank * var::m, 0}, {rank * var::m + var::m, var::k}}; }

struct GatherGemm {
  Draft draft;
  int x, a, y;             // buffers
  int full, used, credit;  // counters; strips of a that are there, lanes that have read them

  explicit GatherGemm(Draft begun);  // adds k, strips and the buffers

  // `reads`: lanes that read a in one run. `credits`: ranks, or groups of them, that write a here.
  void add_counters(Expr reads, Expr credits);
  // A trigger that moves the rows of rank `from`, strip by strip.
  Rule move(std::string name, const Expr& from) const;
  // One step per rank whose rows are read, its own first; the s-th is `rank`.
  void add_gemm(const Expr& rank);
  // The rows of a are owed too: those of `count` ranks, the s-th being `from`.
  Plan finished(Expr count, const Expr& from);
};

}  // namespace weft
