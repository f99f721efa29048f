#include "weft/study/ledger/part.h"

#include "weft/plan/price/estimate.h"
#include "weft/study/contest.h"
#include "weft/study/proof.h"
#include "weft/world/world.h"

namespace weft {

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

// Rows that a gather would have brought are whatever lies there.
Inputs MeasuredPart::inputs_of_floor(const Inputs& inputs) const {
  Inputs own = inputs;
  if (spec_.gathers && has_collective_) own.x = stand_in_.data();
  return own;
}

void MeasuredPart::settle_floor(const Inputs& inputs) {
  if (!tries_libraries_) return;
  const Inputs own = inputs_of_floor(inputs);
  floor_ = faster_product(clock_, producer_alone(spec_, world_.rank()).producer, own, [&] { make(own); });
}

void MeasuredPart::settle(const Inputs& inputs) {
  settle_floor(inputs);
  if (!has_collective_) return;
  const Producer alone = collective_alone(spec_).producer;
  const std::vector<float> x(num(alone.m * alone.n), 0.5f);
  auto [op, us] = fastest_collective(world_, clock_, spec_, x.data());
  collective_ = std::move(op);
  comm_us_ = us;
  if (!spec_.alone() && tries_panels_)
    panels_ = fastest_panels(world_, clock_, spec_, own_maker(world_), [&] { return inputs; });
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
    const Inputs own = inputs_of_floor(inputs);
    keep(inputs, style == Style::compute && floor_.make ? floor_.make(own) : make(own));
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
  const bool by_library = style == Style::compute && floor_.make;
  const double planned =
      local_ ? estimate(local_->plan(), by_library ? by_fastest_product(cluster) : cluster).seconds : 0;
  const double more = compute_s ? *compute_s - planned : 0;
  if (!has_collective_) return planned + more;
  return more + predicted_seconds(style,
                                  {.compute_s = planned,
                                   .collective = collective_ ? &collective_->plan() : nullptr,
                                   .fused = fused_ ? &fused_->plan() : nullptr,
                                   .panels = panels_.get()},
                                  cluster);
}

}  // namespace weft
