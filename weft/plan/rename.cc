#include "weft/plan/rename.h"

namespace weft {

Expr renamed(const Expr& expr, const Renaming& to) {
  const Expr::Node& node = expr.node();
  if (node.op == Expr::Op::number) return expr;
  if (node.op == Expr::Op::name) {
    const auto found = to.names.find(node.text);
    return found == to.names.end() ? expr : found->second;
  }
  std::vector<Expr> kids;
  for (const Expr& kid : node.kids) kids.push_back(renamed(kid, to));
  if (node.op != Expr::Op::table) return Expr::make(node.op, std::move(kids));
  const auto found = to.tables.find(node.text);
  return Expr::table(found == to.tables.end() ? node.text : found->second, kids[0]);
}

BoxRule renamed(const BoxRule& box, const Renaming& to) {
  BoxRule out;
  for (const Expr& e : box.lo) out.lo.push_back(renamed(e, to));
  for (const Expr& e : box.hi) out.hi.push_back(renamed(e, to));
  return out;
}

PieceRule renamed(PieceRule piece, const Renaming& to) {
  piece.rank = renamed(piece.rank, to);
  piece.box = renamed(piece.box, to);
  piece.each = renamed(piece.each, to);
  piece.when = renamed(piece.when, to);
  return piece;
}

std::vector<Let> renamed(std::vector<Let> lets, Renaming* to) {
  for (Let& let : lets) {
    let.value = renamed(let.value, *to);
    to->names.erase(let.name);
  }
  return lets;
}

Rule renamed(Rule rule, Renaming to) {
  rule.count = renamed(rule.count, to);
  rule.let = renamed(std::move(rule.let), &to);
  rule.when = renamed(rule.when, to);
  rule.box = renamed(rule.box, to);
  for (WaitRule& w : rule.waits)
    for (Expr* e : {&w.index, &w.at, &w.per, &w.each, &w.when}) *e = renamed(*e, to);
  for (auto* list : {&rule.reads, &rule.sources, &rule.targets})
    for (PieceRule& p : *list) p = renamed(std::move(p), to);
  for (SignalRule& g : rule.signals)
    for (Expr* e : {&g.rank, &g.index, &g.per, &g.each, &g.when}) *e = renamed(*e, to);
  rule.finish = renamed(rule.finish, to);
  rule.limit_peer = renamed(rule.limit_peer, to);
  rule.order = renamed(rule.order, to);
  rule.order_step = renamed(rule.order_step, to);
  return rule;
}

Owed renamed(Owed owed, Renaming to) {
  owed.count = renamed(owed.count, to);
  owed.let = renamed(std::move(owed.let), &to);
  owed.when = renamed(owed.when, to);
  owed.piece = renamed(std::move(owed.piece), to);
  for (Expr& e : owed.origin) e = renamed(e, to);
  owed.first = renamed(owed.first, to);
  owed.contributors = renamed(owed.contributors, to);
  owed.ranks_per_host = renamed(owed.ranks_per_host, to);
  return owed;
}

}  // namespace weft
