// Tables of a plan as rows with named columns. The columns of a table are the fields of one struct, in order: filled
// with numbers it is a row that is written, filled with expressions it is what rules say of a row they have found.
//
//   append(KidRow<std::int64_t>{.rank = 3, .arrival = 0, .open = 1}, &cells);      one row more
//   const auto kid = columns<KidRow>("kid", row_cell);     kid.rank is "kid[row_cell]", kid.open "kid[row_cell + 2]"
//
// Rows of `node` and `owed` begin with a box, lowest indices first, before the columns named here.
#pragma once

#include <array>
#include <cstdint>

#include "weft/mesh/box.h"
#include "weft/plan/plan.h"

namespace weft::resharding {

// One for each node of a rank: nodes.h.
template <typename T>
struct NodeRow {
  T order{}, order_step{}, full{}, first_kid{}, num_kids{};
  auto cells() { return std::array{&order, &order_step, &full, &first_kid, &num_kids}; }
};

// One for each kid of a node.
template <typename T>
struct KidRow {
  T rank{}, arrival{}, open{};
  auto cells() { return std::array{&rank, &arrival, &open}; }
};

// One for each parent of a rank: `counter` is the one over there that says that this rank may be written again.
template <typename T>
struct ParentRow {
  T rank{}, counter{};
  auto cells() { return std::array{&rank, &counter}; }
};

// One for each box that a rank is owed: whose source it comes from.
template <typename T>
struct OwedRow {
  T root{};
  auto cells() { return std::array{&root}; }
};

template <template <typename> class Row>
inline const std::int64_t kWidth = std::ssize(Row<std::int64_t>{}.cells());

// Sums without the 0 that nobody wants to read in a plan.
inline Expr plus(const Expr& a, std::int64_t b) { return b == 0 ? a : a + b; }
inline Expr plus(std::int64_t a, const Expr& b) { return a == 0 ? b : Expr(a) + b; }

template <template <typename> class Row>
void append(Row<std::int64_t> row, Table* table) {
  for (const std::int64_t* cell : row.cells()) table->push_back(*cell);
}
void append(const Box& box, int dims, Table* table);  // 2 * dims cells: lowest, then highest indices

// The columns of a row whose first named cell is `skipped` behind `cell`.
template <template <typename> class Row>
Row<Expr> columns(const char* table, const Expr& cell, std::int64_t skipped = 0) {
  Row<Expr> out;
  for (Expr* column : out.cells()) *column = Expr::table(table, plus(cell, skipped++));
  return out;
}

// Rows of a table for each rank, one rank after the other: `first` has N + 1 numbers, where those of each rank begin.
struct RankRows {
  std::int64_t in_first = 0;

  Expr first() const;  // of rank r
  Expr count() const;
};

// The shards of one tensor: `shard` has a row for each rank, where its shard begins in the destination tensor and its
// sizes.
struct ShardRows {
  std::int64_t cell = 0;  // where the row of rank 0 begins
  int dims = 0;

  Expr low_of(const Expr& rank, int d) const;
  Expr size_of(const Expr& rank, int d) const;
  BoxRule within(const Expr& rank) const;  // the box lo0 .. hi0, lo1 .. hi1, ..., in the coordinates of a rank's shard
};

// The names that rules over a table of boxes begin with: `row`, the cell where the s-th row of this rank begins, and
// lo0, .., hi0, .., the box there. The table's rows of this kind begin at `cell`.
std::vector<Let> box_lets(const char* table, std::int64_t cell, const RankRows& rows, std::int64_t width, int dims);
Expr box_low(int d);

}  // namespace weft::resharding
