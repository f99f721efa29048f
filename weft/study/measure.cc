#include "weft/study/measure.h"

#include <algorithm>

#include <fmt/core.h>

#include "weft/base/error.h"
#include "weft/collective/build.h"
#include "weft/plan/price/estimate.h"
#include "weft/study/contest.h"
#include "weft/study/fastest.h"
#include "weft/study/rounds.h"
#include "weft/world/world.h"

namespace weft {
namespace {

const Plan* plan_of(const Op* op) { return op == nullptr ? nullptr : &op->plan(); }

class Trial {
 public:
  Trial(World& world, const OpSpec& spec, const MeasureOptions& options)
      : world_(world),
        spec_(spec),
        options_(options),
        clock_(world),
        contest_(world, spec, clock_,
                 {.threads = options.threads,
                  .sequential = options.sequential,
                  .panels = options.panels,
                  .outside = options.outside,
                  .routes = options.routes}),
        rounds_(
            clock_, contest_.contestants(),
            {.rounds = options.rounds,
             .twice = "fused",
             .budget_s = options.budget_s,
             .refresh = [this](std::uint64_t round) { contest_.refresh(round); },
             .judge = [this](const Contestant& one, std::uint64_t, const TurnTime& time) { return judge(one, time); },
             .progress = options.progress}) {}

  Measurement run();

 private:
  bool judge(const Contestant& contestant, const TurnTime& time);
  void take_times(Measurement* out);
  void count(Measurement* out);
  void predict(Measurement* out);

  World& world_;
  const OpSpec& spec_;
  const MeasureOptions& options_;
  CommonClock clock_;
  Contest contest_;
  Rounds rounds_;
  double max_error_ = 0;
};

bool Trial::judge(const Contestant& contestant, const TurnTime& time) {
  for (std::size_t rank = 0; rank < time.said.size(); ++rank) {
    const double error = static_cast<double>(time.said[rank]) * kErrorUnit;
    max_error_ = std::max(max_error_, error);
    if (error > contest_.tolerance())
      throw Error(Code::internal,
                  fmt::format("{} of {} gives a wrong result on rank {}: off by {:.2g} of the largest value, where "
                              "rounding explains {:.2g}; a wrong result has no time",
                              contestant.name, spec_.name, rank, error, contest_.tolerance()));
  }
  return true;
}

Measurement Trial::run() {
  rounds_.run();
  Measurement out;
  take_times(&out);
  if (compute_is_doubtful(out.overlap())) {  // as many rounds once more, of everyone: nobody is measured apart
    rounds_.more(rounds_.count());
    take_times(&out);
  }
  count(&out);
  predict(&out);
  if (options_.plans) options_.plans(contest_.fused().plan(), plan_of(contest_.collective()));
  return out;
}

void Trial::take_times(Measurement* out) {
  out->transport = world_.transport();
  out->route = route_of(contest_.fused().plan());
  if (contest_.collective() != nullptr) out->comm_route = route_of(contest_.collective()->plan());
  out->rounds = rounds_.count();
  out->fused_us = *rounds_.median_us("fused");
  out->aa_band = rounds_.aa_band();
  out->start_late_us = rounds_.median_of("fused", &TurnTime::late_us);
  out->compute_us = rounds_.median_us("compute");
  out->sequential_us = rounds_.median_us("sequential");
  out->sequential_gemm = contest_.gemm_name();
  out->panels_us = rounds_.median_us("panels");
  out->panels = contest_.panels() == nullptr ? 0 : contest_.panels()->count();
  out->onednn_us = rounds_.median_us("onednn");
  out->openblas_us = rounds_.median_us("openblas");
  out->library_us = rounds_.median_us("library");
  out->library = contest_.library_name();
  out->mpi_us = rounds_.median_us("mpi");
  out->mpi_comm_us = spec_.alone() ? out->mpi_us : rounds_.median_us("mpi_comm");
  out->mpi_call = contest_.mpi_call();
  out->mpi_gemm = out->library.empty() ? "weft" : out->library;
  out->comm_us = spec_.alone() && world_.size() > 1 ? out->fused_us : rounds_.median_us("comm");
  if (out->comm_us && out->mpi_comm_us) out->comm_us = std::min(*out->comm_us, *out->mpi_comm_us);
  for (const Contestant& one : contest_.contestants())
    if (one.name.starts_with(kRoutePrefix))
      out->route_us[one.name.substr(kRoutePrefix.size())] = *rounds_.median_us(one.name);
}

// What was used beside time.
void Trial::count(Measurement* out) {
  const bool own_clock = out->transport != "threads" || options_.threads == 1;
  if (own_clock) {
    out->cpu_us = rounds_.median_of("fused", &TurnTime::cpu_us);
    if (rounds_.has("comm")) out->comm_cpu_us = rounds_.median_of("comm", &TurnTime::cpu_us) / world_.size();
    if (out->comm_cpu_us && world_.cluster(world_.size()).num_hosts > 1)
      out->comm_cpu_us = clock_.sum_of_ranks(contest_.comm_cpu_ns()) * 1e-3 / world_.size();
  }
  const std::int64_t runs = rounds_.runs_of("fused");
  const Sent sent = contest_.fused().sent();
  out->bytes_sent = clock_.sum_of_ranks(sent.bytes) / runs;
  out->signals_sent = clock_.sum_of_ranks(sent.signals) / runs;
  out->max_rel_err = max_error_;
  out->weights_rotate = contest_.inputs().rotates();
}

void Trial::predict(Measurement* out) {
  const Cluster cluster = world_.cluster(world_.size());
  const EstimateHint hint = bench_hint(spec_);
  StyledOp op{
      .collective = plan_of(contest_.collective()), .fused = &contest_.fused().plan(), .panels = contest_.panels()};
  const auto us = [&](Style style) { return predicted_seconds(style, op, cluster, hint) * 1e6; };
  Measurement::Predicted& p = out->predicted;
  p.fused_us = us(Style::fused);
  if (contest_.producer() != nullptr) {  // of the rank with the most columns, where they differ
    Producer widest = producer_alone(spec_, world_.rank()).producer;
    for (int rank = 0; rank < world_.size(); ++rank) widest.n = std::max(widest.n, spec_.producer.columns(rank));
    op.compute_s = estimate(weft::build(widest, keep(), cluster), cluster, hint).seconds;
    p.compute_us = us(Style::compute);
  }
  if (op.collective != nullptr) {
    p.sequential_us = us(Style::sequential);
    p.comm_us = *p.sequential_us - *p.compute_us;
  }
  if (op.panels != nullptr) p.panels_us = us(Style::panels);
}

}  // namespace

std::optional<double> Measurement::floor_us() const {
  std::optional<double> least = compute_us;
  for (const auto& us : {onednn_us, openblas_us, library_us})
    if (least && us) least = std::min(*least, *us);
  return least;
}

std::optional<double> Measurement::speedup() const {
  if (!sequential_us) return {};
  return std::min(*sequential_us, panels_us.value_or(*sequential_us)) / fused_us;
}

Overlap Measurement::overlap() const { return {compute_us, comm_us, comm_cpu_us, sequential_us, fused_us, aa_band}; }

Measurement measure(World& world, const OpSpec& spec, const MeasureOptions& options) {
  return Trial(world, spec, options).run();
}

}  // namespace weft
