#include "weft/sim/chip/configuration.h"

#include <algorithm>

#include "weft/base/names.h"

namespace weft::sim {
namespace {

constexpr Names<Config, 9> kNames{{{Config::sequential, "sequential"},
                                   {Config::t3, "t3"},
                                   {Config::t3_fifo, "t3_fifo"},
                                   {Config::t3_mca, "t3_mca"},
                                   {Config::ideal_overlap, "ideal_overlap"},
                                   {Config::ideal_nmc, "ideal_nmc"},
                                   {Config::copy_engine, "copy_engine"},
                                   {Config::fused_cu, "fused_cu"},
                                   {Config::direct, "direct"}}};

void add_collective(const RunResult& run, std::int64_t* read, std::int64_t* write) {
  *read += run.of(Cause::collective_read);
  *write += run.of(Cause::collective_write);
}

}  // namespace

std::string_view to_string(Config config) { return name_of(kNames, config); }
Config parse_config(std::string_view name) { return parse_name(kNames, "configuration", name); }

RunOptions Case::options_of(Config config) const {
  RunOptions o{.mover = Mover::tracker, .policy = Policy::mca, .element_bytes = element_bytes_};
  if (config == Config::t3) o.policy = Policy::round_robin;
  if (config == Config::t3_fifo) o.policy = Policy::fifo;
  if (config == Config::fused_cu) {
    o.mover = Mover::cu;
    o.policy = Policy::fifo;
    o.cu_share = chip_.fused_cu_share;
  }
  return o;
}

const RunResult& Case::part(std::optional<RunResult>* kept, const Plan& plan, const RunOptions& options) {
  if (!*kept) *kept = simulate(plan, chip_, options);
  return **kept;
}

const RunResult& Case::gemm() {
  return part(&gemm_, plans_.fused, {.output = Output::cached, .keep = true, .element_bytes = element_bytes_});
}
const RunResult& Case::scatter() {
  return part(&scatter_, plans_.scatter, {.waits = Waits::chunk, .element_bytes = element_bytes_});
}
const RunResult& Case::scatter_nmc() {
  return part(&scatter_nmc_, plans_.scatter, {.mover = Mover::tracker, .element_bytes = element_bytes_});
}
const RunResult& Case::gather() {
  return part(&gather_, plans_.gather, {.waits = Waits::chunk, .element_bytes = element_bytes_});
}
const RunResult& Case::direct_gather() {
  return part(&direct_gather_, plans_.direct_gather, {.mover = Mover::tracker, .element_bytes = element_bytes_});
}

CaseResult Case::parts(Config config, const RunResult& scatter, bool overlapped) {
  const RunResult &made = gemm(), &gathered = gather();
  CaseResult out{.config = config,
                 .gemm_s = made.seconds(),
                 .scatter_s = scatter.seconds(),
                 .gather_s = gathered.seconds(),
                 .events = made.events + scatter.events + gathered.events};
  out.seconds = (overlapped ? std::max(out.gemm_s, out.scatter_s) : out.gemm_s + out.scatter_s) + out.gather_s;
  out.traffic.gemm_read = made.of(Cause::producer_read);
  out.traffic.gemm_write = made.of(Cause::producer_write);
  add_collective(scatter, &out.traffic.rs_read, &out.traffic.rs_write);
  add_collective(gathered, &out.traffic.ag_read, &out.traffic.ag_write);
  return out;
}

CaseResult Case::one(Config config) {
  const RunResult run = fused(config, 0, false);
  const RunResult& gathered = config == Config::direct ? direct_gather() : gather();
  CaseResult out{.config = config,
                 .seconds = run.seconds() + gathered.seconds(),
                 .gemm_s = to_seconds(run.producer_end),
                 .scatter_s = to_seconds(run.end - run.producer_end),
                 .gather_s = gathered.seconds(),
                 .spills = run.spills,
                 .tracker_peak = run.tracker_peak,
                 .memory_lost_s = to_seconds(run.memory_lost),
                 .events = run.events + gathered.events};
  out.traffic.gemm_read = run.of(Cause::producer_read);
  out.traffic.gemm_write = run.of(Cause::producer_write);
  out.traffic.tracker = run.of(Cause::tracker);
  add_collective(run, &out.traffic.rs_read, &out.traffic.rs_write);
  add_collective(gathered, &out.traffic.ag_read, &out.traffic.ag_write);
  return out;
}

// Chunk by chunk: a chunk is summed when it is made here and its partial sum has come, and then leaves by an engine.
// Every trigger takes its time, and every sum is a kernel that takes its own from the product.
CaseResult Case::copy_engine() {
  CaseResult out = parts(Config::copy_engine, scatter(), false);
  const int n = plans_.fused.num_ranks;
  const double chunk = static_cast<double>(gather().link_bytes) / (n - 1);
  const double sum_s = 3 * chunk / chip_.kernel_bytes_per_s;
  const double send_s = chip_.copy_trigger_s + chunk / chip_.link_bytes_per_s + chip_.link_latency_s;
  double made = 0, summed = 0, come = 0, link_free = 0;
  for (int s = 0; s < n; ++s) {
    made += out.gemm_s / n + (s > 0 ? sum_s : 0);
    summed = s > 0 ? std::max(made, come + sum_s) : made;
    const double begin = std::max(summed, link_free);
    come = begin + send_s;
    link_free = come - chip_.link_latency_s;
  }
  out.gather_s = (n - 1) * send_s;
  out.scatter_s = summed - out.gemm_s;
  out.seconds = summed + out.gather_s;
  return out;
}

RunResult Case::fused(Config config, double bin_s, bool slices) const {
  RunOptions options = options_of(config);
  options.bin_s = bin_s;
  options.slices = slices;
  return simulate(config == Config::direct ? plans_.direct : plans_.fused, chip_, options);
}

CaseResult Case::run(Config config) {
  switch (config) {
    case Config::sequential:
      return parts(config, scatter(), false);
    case Config::ideal_overlap:
      return parts(config, scatter(), true);
    case Config::ideal_nmc:
      return parts(config, scatter_nmc(), true);
    case Config::copy_engine:
      return copy_engine();
    default:
      return one(config);
  }
}

}  // namespace weft::sim
