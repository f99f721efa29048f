#include "weft/plan/verify/verify.h"

#include <iterator>

#include "weft/base/error.h"
#include "weft/plan/budget.h"
#include "weft/plan/verify/model.h"

namespace weft {
namespace {

constexpr std::int64_t kBufferBytes = 160;  // kept of one buffer of one rank

// Whether the verdict is final: a look at single tiles could not change it.
bool prove(const Plan& plan, const Expander& expander, bool by_lane, Budget* budget, Verdict* verdict) {
  verdict->problems.clear();
  verdict->by_tile = by_lane;
  verifying::Model model(plan, expander, by_lane, budget, &verdict->problems);
  verdict->actions = std::ssize(model.acts);
  verdict->tiles = model.num_tiles;
  const bool each_tile = verdict->tiles == verdict->actions;
  if (!verdict->ok()) return each_tile || model.certain;
  std::vector<std::int32_t> order;
  verifying::check_order(model, &order);
  if (!verdict->ok()) return each_tile;
  const verifying::Seen seen = verifying::check_races(model);
  if (!verdict->ok()) return each_tile;
  verifying::check_leads(model);
  if (!verdict->ok()) return each_tile || model.certain;
  verifying::check_sums(model, order, seen);
  return each_tile || verdict->ok();
}

// Range by range first: treating a range as one action only adds dependences, so success proves the tiles too.
// Where that fails or lanes are used unevenly, tile by tile decides.
Verdict decide(const Plan& plan, Budget* budget) {
  Verdict verdict;
  const Expander expander(plan, budget);
  budget->hold(std::int64_t{plan.num_ranks} * (std::ssize(plan.buffers) + 1) * kBufferBytes);
  const std::int64_t kept = budget->held();
  try {
    if (prove(plan, expander, false, budget, &verdict)) return verdict;
  } catch (const verifying::Misaligned&) {  // tile by tile, then
  }
  budget->release(budget->held() - kept);
  prove(plan, expander, true, budget, &verdict);
  return verdict;
}

}  // namespace

Verdict verify(const Plan& plan, const VerifyOptions& options) {
  Budget budget(options.budget);
  Verdict verdict = decide(plan, &budget);
  verdict.budget = budget.used();
  return verdict;
}

void require_runnable(const Plan& plan, const VerifyOptions& options) {
  const Verdict verdict = verify(plan, options);
  if (!verdict.ok()) bad_input("plan \"{}\" is not runnable: {}", plan.name, verdict.problems.front());
}

}  // namespace weft
