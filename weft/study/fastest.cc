#include "weft/study/fastest.h"

#include "weft/collective/build.h"
#include "weft/plan/price/estimate.h"
#include "weft/study/outside.h"
#include "weft/study/trial.h"
#include "weft/world/world.h"

namespace weft {

FastestCollective fastest_collective(World& world, CommonClock& clock, const OpSpec& op, const float* x) {
  OpSpec spec = collective_alone(op);
  std::vector<std::unique_ptr<Op>> ops;
  std::vector<std::function<void()>> turns;
  for (const Route route : routes(spec.space, world.cluster(spec.ranks))) {
    if (route == Route::one_shot && one_shot_bytes(spec) > kMaxOneShotBytes) continue;
    spec.space.options.route = route;
    Op* one = ops.emplace_back(std::make_unique<Op>(compile(world, spec))).get();
    turns.push_back([x, one] {
      one->run(x);
      one->output();
    });
  }
  const Fastest best = pick_fastest(clock, turns);
  return {std::move(ops[best.index]), best.us};
}

std::unique_ptr<Panels> fastest_panels(World& world, CommonClock& clock, const OpSpec& op, const MakerOf& maker,
                                       const std::function<Inputs()>& next) {
  std::vector<std::unique_ptr<Panels>> tried;
  std::vector<std::function<void()>> turns;
  for (const int count : {2, 4, 8}) {
    if (!panels_fit(op, count)) continue;
    Panels* panels = tried.emplace_back(std::make_unique<Panels>(world, op, count, maker)).get();
    panels->refresh(next());
    turns.push_back([panels, &next] { panels->run(next()); });
  }
  return tried.empty() ? nullptr : std::move(tried[pick_fastest(clock, turns).index]);
}

FasterProduct faster_product(CommonClock& clock, const Producer& producer, const Inputs& inputs,
                             const std::function<void()>& own) {
  std::vector<FasterProduct> found{{{}, "weft"}};
  std::vector<std::function<void()>> turns{own};
  for (const Library library : kLibraries) {
    const Make make = library_maker(library, {static_cast<const float*>(inputs.w)}, 1)(producer);
    if (!make) continue;
    found.push_back({make, to_string(library)});
    turns.emplace_back([make, &inputs] { make(inputs); });
  }
  return turns.size() == 1 ? found[0] : found[pick_fastest(clock, turns).index];
}

double predicted_seconds(Style style, const StyledOp& op, const Cluster& cluster, const EstimateHint& hint) {
  if (style == Style::compute) return op.compute_s;
  if (style == Style::fused) return estimate(*op.fused, cluster, hint).seconds;
  if (style == Style::panels && op.panels != nullptr) return op.panels->predicted_seconds(cluster, hint);
  return op.compute_s + estimate(*op.collective, cluster, hint).seconds;
}

}  // namespace weft
