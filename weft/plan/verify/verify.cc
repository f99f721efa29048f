#include "weft/plan/verify/verify.h"

#include <iterator>

#include "weft/base/error.h"
#include "weft/plan/verify/model.h"

namespace weft {
namespace {

void prove(const Plan& plan, const Expander& expander, bool by_lane, Verdict* verdict) {
  verdict->problems.clear();
  verdict->by_tile = by_lane;
  verifying::Model model(plan, expander, by_lane, &verdict->problems);
  verdict->actions = std::ssize(model.acts);
  verdict->tiles = model.num_tiles;
  if (!verdict->ok()) return;
  std::vector<std::int32_t> order;
  verifying::check_order(model, &order);
  if (!verdict->ok()) return;
  const verifying::Seen seen = verifying::check_races(model);
  if (!verdict->ok()) return;
  verifying::check_sums(model, order, seen);
}

}  // namespace

// Range by range first: treating a range as one action only adds dependences, so success proves the tiles too.
// Where that fails or lanes are used unevenly, tile by tile decides.
Verdict verify(const Plan& plan) {
  Verdict verdict;
  const Expander expander(plan);
  bool misaligned = false;
  try {
    prove(plan, expander, false, &verdict);
  } catch (const verifying::Misaligned&) {
    misaligned = true;
  }
  if (!misaligned && (verdict.ok() || verdict.tiles == verdict.actions)) return verdict;
  if (verdict.tiles > verifying::kMaxTiles) return verdict;
  prove(plan, expander, true, &verdict);
  return verdict;
}

void require_runnable(const Plan& plan) {
  const Verdict verdict = verify(plan);
  if (!verdict.ok()) bad_input("plan \"{}\" is not runnable: {}", plan.name, verdict.problems.front());
}

}  // namespace weft
