#include "weft/plan/verify/verify.h"

#include <iterator>

#include "weft/base/error.h"
#include "weft/base/index.h"
#include "weft/plan/budget.h"
#include "weft/plan/verify/model.h"

namespace weft {
namespace {

constexpr std::int64_t kBufferBytes = 160;  // kept of one buffer of one rank

std::vector<int> own_outputs(const verifying::Model& model) {
  const std::vector<Buffer>& buffers = model.plan->buffers;
  std::vector<char> is_own(buffers.size());
  for (std::size_t b = 0; b < buffers.size(); ++b)
    is_own[b] = buffers[b].role == Role::output && buffers[b].packing.tile_rows == 0;
  for (const verifying::VPiece& piece : model.pieces)
    if (model.acts[at(piece.act)].rank != piece.rank) is_own[at(piece.buffer)] = 0;
  std::vector<int> out;
  for (int b = 0; b < int_size(buffers); ++b)
    if (is_own[at(b)] != 0) out.push_back(b);
  return out;
}

// Whether the verdict is final: a look at single tiles could not change it.
bool prove(const Plan& plan, const Expander& expander, bool by_lane, const VerifyOptions& options, Budget* budget,
           Verdict* verdict) {
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
  if (verdict->ok()) verdict->own_outputs = own_outputs(model);
  if (verdict->ok() && options.lane_order && by_lane) {  // else every action was looked at as a whole
    Budget again(
        options.budget);  // it looks no oftener than check_order(): a plan that is proved is not refused for it
    model.budget = &again;
    for (const std::int32_t act : verifying::find_one_by_one(model))
      verdict->one_by_one.push_back({model.acts[at(act)].rank, model.acts[at(act)].index});
  }
  return each_tile || verdict->ok();
}

// Range by range first: treating a range as one action only adds dependences, so success proves the tiles too.
// Where that fails or lanes are used unevenly, tile by tile decides.
Verdict decide(const Plan& plan, const VerifyOptions& options, Budget* budget) {
  Verdict verdict;
  const Expander expander(plan, budget);
  budget->hold(std::int64_t{plan.num_ranks} * (std::ssize(plan.buffers) + 1) * kBufferBytes);
  const std::int64_t kept = budget->held();
  try {
    if (prove(plan, expander, false, options, budget, &verdict)) return verdict;
  } catch (const verifying::Misaligned&) {  // tile by tile, then
  }
  budget->release(budget->held() - kept);
  prove(plan, expander, true, options, budget, &verdict);
  return verdict;
}

}  // namespace

Verdict verify(const Plan& plan, const VerifyOptions& options) {
  Budget budget(options.budget);
  Verdict verdict = decide(plan, options, &budget);
  verdict.budget = budget.used();
  return verdict;
}

Verdict require_runnable(const Plan& plan, const VerifyOptions& options) {
  Verdict verdict = verify(plan, options);
  if (!verdict.ok()) bad_input("plan \"{}\" is not runnable: {}", plan.name, verdict.problems.front());
  return verdict;
}

}  // namespace weft
