#include "cli/bench_variants.h"

#include <algorithm>

#include "weft/collective/build.h"
#include "weft/world/world.h"

namespace weft::cli {
bool has_collective(const OpSpec& spec) {
  return !spec.alone() && spec.ranks > 1 && spec.space.kind != SpaceKind::keep;
}

OpSpec producer_alone(const OpSpec& spec) {
  OpSpec out = spec;
  out.gathers = false;
  if (spec.gathers) out.producer.m *= spec.ranks;
  out.space = keep();
  return out;
}

OpSpec collective_alone(const OpSpec& spec) {
  OpSpec out = spec;
  const Producer& p = spec.producer;
  out.gathers = false;
  out.producer = copy({.rows = p.m, .cols = spec.gathers ? p.k : p.n});
  out.producer.n_of = p.n_of;
  out.space.options.route = Route::automatic;
  out.space.options.slices = 0;
  return out;
}

double one_shot_bytes(const OpSpec& collective) {
  if (collective.space.kind != SpaceKind::all_reduce) return 0;
  return 4.0 * collective.ranks * static_cast<double>(collective.producer.m) *
         static_cast<double>(collective.producer.n);
}

// A plan's reason begins with its route.
std::string route_of(const Plan& plan) { return plan.why.substr(0, plan.why.find(':')); }

Contest::Contest(World& world, const OpSpec& spec, CommonClock& clock)
    : world_(world), spec_(spec), clock_(clock), inputs_(spec, world.rank()), fused_(compile(world, spec)) {
  add_fused();
  if (!spec.alone()) add_parts();
}

void Contest::add_fused() {
  variants_.push_back({"fused", Expect::op, [this] {
                         fused_.run(inputs_.next());
                         return fused_.output();
                       }});
}

// Broadcast: only the root has something to make.
void Contest::add_parts() {
  const bool idle = spec_.space.kind == SpaceKind::broadcast && world_.rank() != spec_.space.options.root;
  producer_ = std::make_unique<Op>(compile(world_, producer_alone(spec_)));
  if (has_collective(spec_)) choose_collective();
  if (!spec_.gathers) {
    variants_.push_back({"compute", Expect::producer, [this] { return run_producer(); }, idle});
  } else {
    variants_.push_back({"compute", Expect::op, [this] {
                           Inputs in = inputs_.next();
                           in.x = collective_ ? collective_->output().data : in.x;  // gathered in the turn before
                           producer_->run(in);
                           return producer_->output();
                         }});
  }
  if (!collective_) return;
  const Variant comm{"comm", Expect::op, [this] { return run_collective(stand_in_.data()); }};
  const Variant sequential{"sequential", Expect::op, [this, idle] {
                             if (!spec_.gathers) return run_collective(idle ? stand_in_.data() : run_producer().data);
                             Inputs in = inputs_.next();
                             in.x = run_collective(in.x).data;
                             producer_->run(in);
                             return producer_->output();
                           }};
  // Gathered rows must be there before the producer alone can use them.
  if (spec_.gathers)
    variants_.insert(variants_.begin() + 1, sequential);
  else
    variants_.push_back(sequential);
  variants_.push_back(comm);
}

Matrix Contest::run_producer() {
  producer_->run(inputs_.next());
  return producer_->output();
}

Matrix Contest::run_collective(const float* x) {
  collective_->run(x);
  return collective_->output();
}

// The best sequential version takes the best route: each is tried three times, and the ranks agree on the fastest.
void Contest::choose_collective() {
  OpSpec spec = collective_alone(spec_);
  stand_in_.assign(static_cast<std::size_t>(spec.producer.m * spec.producer.n), 0.5f);
  std::int64_t best = 0;
  for (const Route route : routes(spec.space.kind)) {
    if (route == Route::one_shot && one_shot_bytes(spec) > kMaxOneShotBytes) continue;
    spec.space.options.route = route;
    auto op = std::make_unique<Op>(compile(world_, spec));
    std::int64_t fastest = INT64_MAX;
    for (int turn = 0; turn < 4; ++turn) {
      const std::int64_t start = clock_.start_together();
      op->run(stand_in_.data());
      op->output();
      const std::int64_t mine = CommonClock::now_ns() - start;
      const auto all = clock_.tell({&mine, 1});
      std::int64_t slowest = 0;
      for (std::size_t at = 0; at < all.size(); at += CommonClock::kValues) slowest = std::max(slowest, all[at]);
      if (turn > 0) fastest = std::min(fastest, slowest);  // the first turn touches new memory
    }
    if (collective_ && fastest >= best) continue;
    best = fastest;
    collective_ = std::move(op);
    comm_route_ = route_of(collective_->plan());
  }
}

}  // namespace weft::cli
