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
  open_ = draft.counter("open", L + H, 1);
  came_ = draft.counter("came", H * slot, 1);
  got_ = draft.counter("got", N, tiles_of(i));
  Rule open = draft.trigger("open");
  open.signals = {{gate(j), open_, L + host, 0, H - 1}, {mate(j), open_, place, 0, L - 1}};
  draft.add(open);
}

void Spread::store(Rule* rule, const BoxRule& box, const Expr& first, const Expr& when, bool signals_itself) const {
  rule->waits.push_back({open_, of_gate(j), 1, 0, 0, H - 1, when});
  rule->waits.push_back({open_, of_mate(j), 1, 0, 0, L - 1, when});
  rule->targets.push_back({r, buffer_, box, 1, when});  // its own first: a residual is indexed as that
  rule->targets.push_back({gate(j), buffer_, box, H - 1, when});
  rule->targets.push_back({mate(j), buffer_, box, L - 1, when});
  rule->signals.push_back({gate(j), came_, host * slot + first, 1, H - 1, when});
  rule->signals.push_back({mate(j), got_, r, 0, L - 1, when});
  if (signals_itself) rule->signals.push_back({r, came_, host * slot + first, 1, 1, when});
}

void Spread::forward(Rule rule, const BoxRule& box, const Expr& first) {
  rule.waits = {{came_, g * slot + first, 1, 0, 1}, {open_, of_mate(j), 1, 0, 0, L - 1}};
  rule.sources = {{r, buffer_, box}};
  rule.targets = {{mate(j), buffer_, box, L - 1}};
  rule.signals = {{mate(j), got_, g * L + place, 0, L - 1}};
  draft_.add(rule);
}

WaitRule Spread::came(const Expr& g, const Expr& u) const { return {came_, g * slot + u, 1, 0, 1}; }
WaitRule Spread::all_of(const Expr& c) const { return {got_, c, tiles_of_(c)}; }

void Spread::arrive() {
  Rule rule = draft_.trigger("arrive");
  rule.count = L - 1;
  rule.let = {{"p", (r + 1 + s) % L}};
  rule.waits = {{got_, j * L + p, tiles_of_(j * L + p), 0, 0, H}};
  draft_.add(rule);
}

}  // namespace weft
