#include "weft/study/ledger/part.h"

#include <algorithm>

#include "weft/collective/build.h"
#include "weft/plan/price/estimate.h"
#include "weft/study/contest.h"
#include "weft/study/proof.h"
#include "weft/study/trial.h"
#include "weft/world/world.h"

namespace weft {

const char* to_string(Style style) {
  switch (style) {
    case Style::sequential:
      return "sequential";
    case Style::panels:
      return "panels";
    case Style::fused:
      return "fused";
    case Style::compute:
      return "compute";
  }
  return "";
}

void StageLog::did(Doing doing) {
  const std::int64_t now = CommonClock::now_ns();
  spans_.push_back({stage_, doing, last_, now});
  last_ = now;
}

MeasuredPart::MeasuredPart(World& world, CommonClock& clock, std::string name, OpSpec spec)
    : world_(world),
      clock_(clock),
      name_(std::move(name)),
      spec_(std::move(spec)),
      has_collective_(spec_.space.kind != SpaceKind::keep && spec_.ranks > 1) {
  if (!spec_.alone()) local_ = std::make_unique<Op>(compile(world, producer_alone(spec_, world.rank())));
  if (has_collective_ && !spec_.alone()) fused_ = std::make_unique<Op>(compile(world, spec_));
  if (spec_.gathers) {
    const Producer p = producer_alone(spec_, world.rank()).producer;
    stand_in_.assign(num(p.m * p.k), 0.5f);
  }
}

double MeasuredPart::fastest_us(const std::function<void()>& work) {
  time_together_ns(clock_, work);  // touches new memory
  std::int64_t fastest = INT64_MAX;
  for (int turn = 0; turn < 3; ++turn) fastest = std::min(fastest, time_together_ns(clock_, work));
  return static_cast<double>(fastest) * 1e-3;
}

void MeasuredPart::settle(const Inputs& inputs) {
  if (!has_collective_) return;
  choose_route();
  if (!spec_.alone() && tries_panels_) choose_panels(inputs);
}

void MeasuredPart::choose_route() {
  OpSpec spec = collective_alone(spec_);
  const Producer& p = spec.producer;
  const std::vector<float> x(num(p.m * p.n), 0.5f);
  for (const Route route : routes(spec.space, world_.cluster(spec.ranks))) {
    if (route == Route::one_shot && one_shot_bytes(spec) > kMaxOneShotBytes) continue;
    spec.space.options.route = route;
    auto op = std::make_unique<Op>(compile(world_, spec));
    const double us = fastest_us([&] {
      op->run(x.data());
      op->output();
    });
    if (collective_ && us >= comm_us_) continue;
    comm_us_ = us;
    collective_ = std::move(op);
  }
}

void MeasuredPart::choose_panels(const Inputs& inputs) {
  double best = 0;
  for (const int count : {2, 4, 8}) {
    if (!panels_fit(spec_, count)) continue;
    auto panels = std::make_unique<Panels>(world_, spec_, count, own_maker(world_));
    panels->refresh(inputs);
    const double us = fastest_us([&] { panels->run(inputs); });
    if (panels_ && us >= best) continue;
    best = us;
    panels_ = std::move(panels);
  }
}

Matrix MeasuredPart::make(const Inputs& inputs) {
  local_->run(inputs);
  return local_->output();
}

void MeasuredPart::refresh_panels(const Inputs& inputs) {
  if (panels_) panels_->refresh(inputs);
}

void MeasuredPart::send(const float* x) { collective_->run(x); }
Matrix MeasuredPart::take() { return collective_->output(); }
void MeasuredPart::start_fused(const Inputs& inputs) {
  inputs_ = inputs;
  fused_->run(inputs);
}
const Result& MeasuredPart::finish_fused() { return keep(inputs_, fused_->output()); }

const Result& MeasuredPart::keep(const Inputs& inputs, Matrix result) {
  inputs_ = inputs;
  result_.assign(1, {result, 0, 0});
  return result_;
}

const Result& MeasuredPart::run(Style style, const Inputs& inputs, StageLog& log) {
  if (style == Style::compute || !has_collective_) {
    Inputs own = inputs;
    if (spec_.gathers && has_collective_) own.x = stand_in_.data();
    keep(inputs, make(own));
    log.did(Doing::make);
  } else if (style == Style::fused) {
    start_fused(inputs);
    log.did(Doing::both);
    finish_fused();
    log.did(Doing::exchange);
  } else if (style == Style::panels && panels_) {
    // Rows in the order of panels are part of the style: x is new in every run.
    if (spec_.producer.kind != ProducerKind::embedding_bag) panels_->refresh(inputs);
    inputs_ = inputs;
    result_ = panels_->run(inputs);
    log.did(Doing::both);
  } else if (spec_.gathers) {
    send(inputs.x);
    Inputs own = inputs;
    own.x = take().data;
    log.did(Doing::exchange);
    keep(inputs, make(own));
    log.did(Doing::make);
  } else {
    const Matrix made = make(inputs);
    log.did(Doing::make);
    send(made.data);
    keep(inputs, take());
    log.did(Doing::exchange);
  }
  return result_;
}

std::string MeasuredPart::comm_route() const { return collective_ ? route_of(collective_->plan()) : ""; }

std::optional<PlanFacts> MeasuredPart::plan_facts() const {
  if (!fused_) return {};
  const auto [verdict, ms] = timed_verify(fused_->plan());
  return PlanFacts{fused_->plan().name, route_of(fused_->plan()), verdict.tiles, verdict.actions, ms};
}

double MeasuredPart::predicted_s(Style style, const Cluster& cluster, std::optional<double> compute_s) const {
  const double planned = local_ ? estimate(local_->plan(), cluster).seconds : 0;
  const double more = compute_s ? *compute_s - planned : 0;
  if (style == Style::compute || !has_collective_) return planned + more;
  if (style == Style::fused) return estimate(fused_->plan(), cluster).seconds + more;
  if (style == Style::panels && panels_) return panels_->predicted_seconds(cluster) + more;
  return planned + more + estimate(collective_->plan(), cluster).seconds;
}

}  // namespace weft
