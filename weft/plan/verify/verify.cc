#include "weft/plan/verify/verify.h"

#include <iterator>

#include "weft/base/error.h"
#include "weft/plan/verify/model.h"

namespace weft {
namespace {

// Whether the verdict is final: a look at single tiles could not change it.
bool prove(const Plan& plan, const Expander& expander, bool by_lane, Verdict* verdict) {
  verdict->problems.clear();
  verdict->by_tile = by_lane;
  verifying::Model model(plan, expander, by_lane, &verdict->problems);
  verdict->actions = std::ssize(model.acts);
  verdict->tiles = model.num_tiles;
  const bool each_tile = verdict->tiles == verdict->actions;
  if (!verdict->ok()) return each_tile || model.certain;
  std::vector<std::int32_t> order;
  verifying::check_order(model, &order);
  if (!verdict->ok()) return each_tile;
  const verifying::Seen seen = verifying::check_races(model);
  if (!verdict->ok()) return each_tile;
  verifying::check_sums(model, order, seen);
  return each_tile || verdict->ok();
}

}  // namespace

// Range by range first: treating a range as one action only adds dependences, so success proves the tiles too.
// Where that fails or lanes are used unevenly, tile by tile decides.
Verdict verify(const Plan& plan) {
  Verdict verdict;
  const Expander expander(plan);
  try {
    if (prove(plan, expander, false, &verdict)) return verdict;
  } catch (const verifying::Misaligned&) {  // tile by tile, then
  }
  if (verdict.tiles > verifying::kMaxTiles) {
    if (verdict.ok()) verdict.problems.push_back(verifying::too_many_tiles());
    return verdict;
  }
  prove(plan, expander, true, &verdict);
  return verdict;
}

void require_runnable(const Plan& plan) {
  const Verdict verdict = verify(plan);
  if (!verdict.ok()) bad_input("plan \"{}\" is not runnable: {}", plan.name, verdict.problems.front());
}

}  // namespace weft
