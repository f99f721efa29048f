#include "weft/collective/two_level.h"

#include "weft/base/error.h"

namespace weft {

using namespace var;  // NOLINT: the vocabulary of rules

bool fills_hosts(int num_ranks, int ranks_per_host) {
  return ranks_per_host > 1 && num_ranks > ranks_per_host && num_ranks % ranks_per_host == 0;
}

void check_hosts(int num_ranks, int ranks_per_host) {
  if (fills_hosts(num_ranks, ranks_per_host)) return;
  bad_input(
      "route two_level is for several hosts with the same number of ranks each, 2 or more, but {} ranks are on hosts "
      "of "
      "{}; use auto",
      num_ranks, ranks_per_host);
}

Spread::Spread(Draft& draft, TilesOf tiles_of, int buffer) : draft_(draft), tiles_of_(tiles_of), buffer_(buffer) {
  open_ = draft.open_counter(L + H);
  came_ = draft.counter("came", H * slot, 1);
  got_ = draft.counter("got", N, tiles_of(i));
  draft.open({signal(gate(j), open_).index(L + host).each(H - 1), signal(mate(j), open_).index(place).each(L - 1)});
}

void Spread::store(Rule* rule, const BoxRule& box, const Expr& first, const Expr& when, bool signals_itself) const {
  const Expr tile = host * slot + first;
  rule->waits.push_back(wait(open_).index(of_gate(j)).each(H - 1).when(when));
  rule->waits.push_back(wait(open_).index(of_mate(j)).each(L - 1).when(when));
  rule->targets.push_back(piece(buffer_, box).when(when));  // its own first: a residual is indexed as that
  rule->targets.push_back(piece(buffer_, box).of(gate(j)).each(H - 1).when(when));
  rule->targets.push_back(piece(buffer_, box).of(mate(j)).each(L - 1).when(when));
  rule->signals.push_back(signal(gate(j), came_).index(tile).per_lane().each(H - 1).when(when));
  rule->signals.push_back(signal(mate(j), got_).index(r).each(L - 1).when(when));
  if (signals_itself) rule->signals.push_back(signal(r, came_).index(tile).per_lane().when(when));
}

void Spread::forward(Rule rule, const BoxRule& box, const Expr& first) {
  rule.waits = {came(g, first), wait(open_).index(of_mate(j)).each(L - 1)};
  rule.sources = {piece(buffer_, box)};
  rule.targets = {piece(buffer_, box).of(mate(j)).each(L - 1)};
  rule.signals = {signal(mate(j), got_).index(g * L + place).each(L - 1)};
  draft_.add(rule);
}

WaitRule Spread::came(const Expr& g, const Expr& u) const { return wait(came_).index(g * slot + u).per_lane(); }
WaitRule Spread::all_of(const Expr& c) const { return wait(got_).index(c).reaches(tiles_of_(c)); }

void Spread::arrive() {
  Rule rule = draft_.trigger("arrive");
  rule.count = L - 1;
  rule.let = {{"p", (r + 1 + s) % L}};
  rule.waits = {wait(got_).index(j * L + p).reaches(tiles_of_(j * L + p)).each(H)};
  draft_.add(rule);
}

}  // namespace weft
