#include "cli/bench/measure.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <vector>

#include "weft/base/error.h"
#include "weft/base/statistics.h"
#include "weft/collective/build.h"
#include "weft/exec/cpu/lane_runner.h"
#include "weft/plan/price/estimate.h"
#include "weft/world/world.h"

#include "cli/bench/variants.h"
#include "cli/hint.h"

namespace weft::cli {
namespace {

// Products that checking may take on each rank: in the round that warms up, and in each that counts.
constexpr std::int64_t kFirstTerms = 20'000'000;
constexpr std::int64_t kLaterTerms = 200'000;
constexpr int kLeastRounds = 5;
constexpr double kErrorUnit = 1e-15;  // errors travel as whole numbers

struct Samples {
  std::vector<double> us, cpu_us, late_us;  // of the slowest rank; of all ranks together; of the last to set off
};

class Rounds {
 public:
  Rounds(World& world, const OpSpec& spec, const MeasureOptions& options)
      : world_(world),
        spec_(spec),
        options_(options),
        clock_(world),
        contest_(world, spec, clock_,
                 {.threads = options.threads,
                  .sequential = options.sequential,
                  .decomposed = options.decomposed,
                  .outside = options.outside,
                  .routes = options.routes}),
        reference_(spec) {}

  void run() {
    round(0, nullptr, kFirstTerms);
    rounds_ = options_.rounds;
    const std::int64_t start = CommonClock::now_ns();
    for (int i = 1; i <= rounds_; ++i) {
      round(static_cast<std::uint64_t>(i), &samples_, kLaterTerms);
      if (i == 1 && options_.budget_s > 0) fit_budget(CommonClock::now_ns() - start);
      if (options_.progress) options_.progress(i, rounds_);
    }
  }

  Measurement result();

 private:
  void round(std::uint64_t round, std::map<std::string, Samples>* into, std::int64_t terms);
  void turn(const Variant& variant, std::uint64_t round, std::int64_t terms, Samples* into);
  void judge(const Variant& variant, std::span<const std::int64_t> told);
  std::optional<double> median_of(const std::string& name) const;
  std::int64_t of_all_ranks(std::int64_t mine);
  void fit_budget(std::int64_t round_ns);
  void count(Measurement* out);
  void predict(Measurement* out);

  World& world_;
  const OpSpec& spec_;
  const MeasureOptions& options_;
  CommonClock clock_;
  Contest contest_;
  Reference reference_;
  std::map<std::string, Samples> samples_;
  double max_error_ = 0;
  int rounds_ = 0;
};

// The fused op has two turns, one of them half a round after the other. Who begins changes from round to round, so that
// nobody always follows the same thing or always finds the caches as fresh inputs left them.
void Rounds::round(std::uint64_t round, std::map<std::string, Samples>* into, std::int64_t terms) {
  const auto& variants = contest_.variants();
  contest_.refresh(round);
  Samples unused;
  const std::size_t turns = variants.size() + 1, again = turns / 2;
  for (std::size_t i = 0; i < turns; ++i) {
    const std::size_t at = (i + round) % turns;
    const bool second = at == again;
    const Variant& variant = variants[second ? 0 : at < again ? at : at - 1];
    std::string name = variant.name;
    if (name == "fused" && second == (round % 2 == 0)) name = "again";
    turn(variant, round, terms, into == nullptr ? &unused : &(*into)[name]);
  }
}

void Rounds::turn(const Variant& variant, std::uint64_t round, std::int64_t terms, Samples* into) {
  const std::int64_t start = clock_.start_together();
  const std::int64_t late = CommonClock::now_ns() - start, cpu = clock_.cpu_ns();
  const Result y = variant.idle ? Result{} : variant.run();
  const std::int64_t end = CommonClock::now_ns();
  std::int64_t values[4] = {end - start, clock_.cpu_ns() - cpu, 0, late};
  if (!variant.idle && !variant.stand_in) {
    const double error = reference_.error_of(y, variant.expect, round, world_.rank(), terms);
    values[2] = static_cast<std::int64_t>(std::min(error, 1e3) / kErrorUnit);
  }
  const auto told = clock_.tell(values);
  judge(variant, told);
  std::int64_t slowest = 0, cpu_of_all = 0, latest = 0;
  for (std::size_t at = 0; at < told.size(); at += CommonClock::kValues) {
    slowest = std::max(slowest, told[at]);
    cpu_of_all += told[at + 1];
    latest = std::max(latest, told[at + 3]);
  }
  into->us.push_back(static_cast<double>(slowest) * 1e-3);
  into->late_us.push_back(static_cast<double>(latest) * 1e-3);
  into->cpu_us.push_back(static_cast<double>(cpu_of_all) * 1e-3);
}

void Rounds::judge(const Variant& variant, std::span<const std::int64_t> told) {
  for (int rank = 0; rank < world_.size(); ++rank) {
    const double error = static_cast<double>(told[rank * CommonClock::kValues + 2]) * kErrorUnit;
    max_error_ = std::max(max_error_, error);
    if (error > reference_.tolerance())
      throw Error(Code::internal,
                  fmt::format("{} of {} gives a wrong result on rank {}: off by {:.2g} of the largest value, where "
                              "rounding explains {:.2g}; a wrong result has no time",
                              variant.name, spec_.name, rank, error, reference_.tolerance()));
  }
}

std::optional<double> Rounds::median_of(const std::string& name) const {
  const auto found = samples_.find(name);
  if (found == samples_.end()) return {};
  return median(found->second.us);
}

// All ranks agree: the sum of what they saw decides.
void Rounds::fit_budget(std::int64_t round_ns) {
  const double round_s = static_cast<double>(of_all_ranks(round_ns)) * 1e-9 / world_.size();
  rounds_ = std::clamp(static_cast<int>(options_.budget_s / round_s), std::min(kLeastRounds, rounds_), rounds_);
}

std::int64_t Rounds::of_all_ranks(std::int64_t mine) {
  std::int64_t sum = 0;
  const auto all = clock_.tell({&mine, 1});
  for (std::size_t at = 0; at < all.size(); at += CommonClock::kValues) sum += all[at];
  return sum;
}

Measurement Rounds::result() {
  Measurement out;
  out.transport = world_.transport();
  out.route = route_of(contest_.fused().plan());
  if (contest_.collective() != nullptr) out.comm_route = route_of(contest_.collective()->plan());
  out.rounds = rounds_;
  out.fused_us = *median_of("fused");
  out.aa_band = std::abs(out.fused_us / *median_of("again") - 1);
  out.start_late_us = median(samples_["fused"].late_us);
  out.compute_us = median_of("compute");
  out.sequential_us = median_of("sequential");
  out.sequential_gemm = contest_.gemm_name();
  out.decomposed_us = median_of("decomposed");
  out.panels = contest_.panels() == nullptr ? 0 : contest_.panels()->count();
  out.onednn_us = median_of("onednn");
  out.mpi_us = median_of("mpi");
  out.mpi_comm_us = spec_.alone() ? out.mpi_us : median_of("mpi_comm");
  out.mpi_call = contest_.mpi_call();
  out.mpi_gemm = contest_.has_onednn() ? "onednn" : "weft";
  out.comm_us = spec_.alone() && world_.size() > 1 ? out.fused_us : median_of("comm");
  if (out.comm_us && out.mpi_comm_us) out.comm_us = std::min(*out.comm_us, *out.mpi_comm_us);
  for (const auto& [name, samples] : samples_)
    if (name.starts_with(kRoutePrefix)) out.route_us[name.substr(kRoutePrefix.size())] = median(samples.us);
  count(&out);
  predict(&out);
  return out;
}

// What was used beside time.
void Rounds::count(Measurement* out) {
  const bool own_clock = out->transport != "threads" || options_.threads == 1;
  if (own_clock) {
    out->cpu_us = median(samples_["fused"].cpu_us);
    if (samples_.count("comm") != 0) out->comm_cpu_us = median(samples_["comm"].cpu_us) / world_.size();
    if (out->comm_cpu_us && world_.cluster(world_.size()).num_hosts > 1)
      out->comm_cpu_us = static_cast<double>(of_all_ranks(contest_.comm_cpu_ns())) * 1e-3 / world_.size();
  }
  const std::int64_t runs = 2 * (rounds_ + 1);  // with the round that warmed up
  const Sent sent = contest_.fused().sent();
  out->bytes_sent = of_all_ranks(sent.bytes) / runs;
  out->signals_sent = of_all_ranks(sent.signals) / runs;
  out->max_rel_err = max_error_;
  out->weights_rotate = contest_.inputs().rotates();
}

void Rounds::predict(Measurement* out) {
  const Cluster cluster = world_.cluster(world_.size());
  const EstimateHint hint = bench_hint(spec_);
  const auto us = [&](const Plan& plan) { return estimate(plan, cluster, hint).seconds * 1e6; };
  Measurement::Predicted& p = out->predicted;
  p.fused_us = us(contest_.fused().plan());
  if (contest_.producer() != nullptr) {  // of the rank with the most columns, where they differ
    Producer widest = producer_alone(spec_, world_.rank()).producer;
    for (int rank = 0; rank < world_.size(); ++rank) widest.n = std::max(widest.n, spec_.producer.columns(rank));
    p.compute_us = us(weft::build(widest, keep(), cluster));
  }
  if (contest_.collective() != nullptr) p.comm_us = us(contest_.collective()->plan());
  if (p.comm_us) p.sequential_us = *p.compute_us + *p.comm_us;
  if (contest_.panels() != nullptr) p.decomposed_us = contest_.panels()->predicted_seconds(cluster, hint) * 1e6;
}

}  // namespace

std::optional<double> Measurement::ideal_us() const {
  if (!compute_us || !comm_us) return {};
  return std::max(*compute_us + comm_cpu_us.value_or(0), *comm_us);
}

std::optional<double> Measurement::speedup() const {
  if (!sequential_us) return {};
  return std::min(*sequential_us, decomposed_us.value_or(*sequential_us)) / fused_us;
}

std::optional<double> Measurement::hidden() const {
  const auto ideal = ideal_us();
  if (!sequential_us || !ideal || !comm_cpu_us || *comm_us < 0.1 * *compute_us) return {};
  // A link whose bytes the cores themselves move leaves nothing to hide: the quotient would be noise over noise.
  if (*sequential_us - *ideal < 0.05 * *sequential_us) return {};
  return (*sequential_us - fused_us) / (*sequential_us - *ideal);
}

Measurement measure(World& world, const OpSpec& spec, const MeasureOptions& options) {
  Rounds rounds(world, spec, options);
  rounds.run();
  return rounds.result();
}

}  // namespace weft::cli
