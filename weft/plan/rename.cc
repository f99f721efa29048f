#include "weft/plan/rename.h"

#include "weft/plan/fields.h"

namespace weft {
namespace {

// Visits the fields of a part and renames in those that hold expressions.
class Renamer {
 public:
  explicit Renamer(const Renaming& to) : to_(to) {}

  void expr(const char*, Expr& e, std::int64_t = 0) { e = renamed(e, to_); }
  void rank(const char*, Expr& e) { e = renamed(e, to_); }
  void own_rank(const char*, Expr& e) { e = renamed(e, to_); }
  void exprs(const char*, std::vector<Expr>& list) {
    for (Expr& e : list) e = renamed(e, to_);
  }
  void box(const char*, BoxRule& box, bool = false) { box = renamed(box, to_); }
  // Lets hide the names they define from there on.
  void lets(const char*, std::vector<Let>& lets) {
    for (Let& let : lets) {
      let.value = renamed(let.value, to_);
      to_.names.erase(let.name);
    }
  }
  template <typename T>
  void part(const char*, T& part) {
    fields(*this, part);
  }
  template <typename T>
  void list(const char*, std::vector<T>& parts) {
    for (T& part : parts) fields(*this, part);
  }

  void name(const char*, const std::string&) {}
  void number(const char*, int, int, int, int) {}
  template <typename... T>
  void choice(const char*, T...) {}
  void flag(const char*, bool) {}
  void tile(const char*, const std::array<std::int64_t, 2>&) {}
  void buffer(const char*, int) {}
  void counter(const char*, int) {}
  void producer(const char*, int) {}
  void leaf(int) {}

 private:
  Renaming to_;
};

}  // namespace

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
  Renamer(to).part("piece", piece);
  return piece;
}
Rule renamed(Rule rule, const Renaming& to) {
  Renamer(to).part("rule", rule);
  return rule;
}
Owed renamed(Owed owed, const Renaming& to) {
  Renamer(to).part("owed", owed);
  return owed;
}

}  // namespace weft
