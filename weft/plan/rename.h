// Rewriting the names in a plan's expressions: what composing two plans needs, where "m" of one is not "m" of
// the other.
#pragma once

#include <map>
#include <string>

#include "weft/plan/plan.h"

namespace weft {

struct Renaming {
  std::map<std::string, Expr> names;
  std::map<std::string, std::string> tables;
};

Expr renamed(const Expr& expr, const Renaming& to);
BoxRule renamed(const BoxRule& box, const Renaming& to);
PieceRule renamed(PieceRule piece, const Renaming& to);
// Lets hide the names they define from there on.
Rule renamed(Rule rule, const Renaming& to);
Owed renamed(Owed owed, const Renaming& to);

}  // namespace weft
