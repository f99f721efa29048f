#include "weft/reshard/build/columns.h"

#include <fmt/core.h>

namespace weft::resharding {
namespace {

Expr box_high(int d) { return Expr::name(fmt::format("hi{}", d)); }

Expr shard_cell(const ShardRows& rows, const Expr& rank, int column) {
  return Expr::table("shard", plus(rows.cell, plus(rank * (2 * rows.dims), column)));
}

}  // namespace

void append(const Box& box, int dims, Table* table) {
  table->insert(table->end(), box.lo.begin(), box.lo.begin() + dims);
  table->insert(table->end(), box.hi.begin(), box.hi.begin() + dims);
}

Expr RankRows::first() const { return Expr::table("first", plus(in_first, Expr::name("r"))); }
Expr RankRows::count() const { return Expr::table("first", plus(in_first + 1, Expr::name("r"))) - first(); }

Expr ShardRows::low_of(const Expr& rank, int d) const { return shard_cell(*this, rank, d); }
Expr ShardRows::size_of(const Expr& rank, int d) const { return shard_cell(*this, rank, dims + d); }

BoxRule ShardRows::within(const Expr& rank) const {
  BoxRule out;
  for (int d = 0; d < dims; ++d) {
    out.lo.push_back(box_low(d) - low_of(rank, d));
    out.hi.push_back(box_high(d) - low_of(rank, d));
  }
  return out;
}

Expr box_low(int d) { return Expr::name(fmt::format("lo{}", d)); }

std::vector<Let> box_lets(const char* table, std::int64_t cell, const RankRows& rows, std::int64_t width, int dims) {
  const Expr row = Expr::name("row");
  std::vector<Let> out{{"row", plus(cell, (rows.first() + Expr::name("s")) * width)}};
  for (int d = 0; d < dims; ++d) out.push_back({box_low(d).str(), Expr::table(table, plus(row, d))});
  for (int d = 0; d < dims; ++d) out.push_back({box_high(d).str(), Expr::table(table, plus(row, dims + d))});
  return out;
}

}  // namespace weft::resharding
