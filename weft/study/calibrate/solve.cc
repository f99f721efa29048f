#include "weft/study/calibrate/solve.h"

#include <algorithm>
#include <cmath>

#include "weft/plan/price/cost.h"

namespace weft::calibrating {
namespace {

constexpr double kLeastSeconds = 1e-12;
constexpr double kFloat = sizeof(float);
constexpr double kExposed = estimating::kExposed;

// What is left of a time when its known parts are taken off; never less than a tenth of it, however noisy the machine.
double rest(double whole, double known) { return std::max(whole - known, whole / 10); }

// The other part of a pass over memory, of which one is known: pass = longer + kExposed * shorter.
double other_of_pass(double pass, double known) {
  const double longer = pass - kExposed * known;
  return longer >= known ? longer : std::max((pass - known) / kExposed, pass / 10);
}

// Rows of bags are read in a pass with storing what they are pooled into, which takes less long. Nothing is left for
// the bag itself: one row in a bag takes no longer than such a pass (seen on Zen 4, rows of 512 bytes).
void solve_tables(const TrialSeconds& t, Cluster* c) {
  constexpr double kRow = kDim * kFloat, kBags = kTables * kBatch;
  const double known = c->step_s / 64 + c->run_s / kBags + kExposed * kRow / c->write_bytes_per_s;
  c->gather_cached_bytes_per_s = kRow * kPooled / rest(t[hot_lookup] / kBags, known);
  c->gather_bytes_per_s = std::min(kRow * kPooled / rest(t[lookup] / kBags, known), c->gather_cached_bytes_per_s);
}

// Storing takes no more than a fifth of the longer product, however unlucky the brief one was.
constexpr double kMostStoring = 0.2;

// A library's product by the terms of Weft's own, so that the two can be compared.
void solve_library(double brief, double full, double operands, Cluster* c) {
  if (!(brief > 0 && full > 0)) return;
  const double elements = kSide * kSide, most = 2 * elements * kFullK / (full * (1 - kMostStoring));
  const double rate = 2 * elements / rest(rest(full, brief) / (kFullK - kBriefK), operands);
  c->library_flops_per_s = std::max(c->library_flops_per_s, std::min(rate, most));
}

// Solves the terms of weft/plan/price/cost.h for the rates, one after another.
void solve(const TrialSeconds& t, Cluster* c) {
  c->step_s = rest(t[many_tiles], t[one_tile]) / (kTiles - 1);
  c->run_s = rest(t[one_tile], c->step_s);
  c->signal_s = c->local.latency_s = t[ping_pong] / 2;

  // The difference is what an output costs. On a busy machine the many may have been luckier than the few: then next to
  // nothing is left for a row.
  constexpr double kOutputs = kHotMany - kHotFew;
  c->row_s = std::max((t[hot_short] - t[hot_long]) / kOutputs, kLeastSeconds);
  const double hot = rest(t[hot_long], kHotFew * c->row_s + c->step_s + c->run_s);
  c->cache_bytes_per_s = kHotLong * kHotFew * kFloat / hot;
  const double rows = kLongRows * (c->row_s + c->step_s / 256) + c->run_s;
  c->read_bytes_per_s = kLongRows * kLongRow * kFloat / rest(t[long_rows], rows);

  // Two lengths of sums: the slope is arithmetic and operands, what is left is storing.
  const double elements = kSide * kSide, operands = 2 * kSide * kFloat / c->read_bytes_per_s;
  const double for_each_k = rest(t[full_gemm], t[brief_gemm]) / (kFullK - kBriefK);
  const double made = kBriefK * for_each_k + elements / (64 * 64) * c->step_s + c->run_s;
  c->flops_per_s = 2 * elements / rest(for_each_k, operands);
  c->tile_bytes_per_s = elements * kFloat / rest(t[brief_gemm], made);
  c->library_flops_per_s = 0;
  solve_library(t[brief_onednn], t[full_onednn], operands, c);
  solve_library(t[brief_openblas], t[full_openblas], operands, c);

  // A copy reads and stores; then half of it goes to the peer, and for the other half rows and inbox are summed.
  const double bytes = elements * kFloat, copied_tiles = elements / 16384 * c->step_s + c->run_s;
  const double to_read = bytes / c->read_bytes_per_s;
  const double to_write = other_of_pass(rest(t[copied], copied_tiles), to_read);
  c->write_bytes_per_s = bytes / to_write;
  const double summed = std::max(to_read, to_write / 2) + kExposed * std::min(to_read, to_write / 2);
  c->local.bytes_per_s = bytes / 2 / other_of_pass(rest(t[scattered], copied_tiles + summed), to_read / 2);
  solve_tables(t, c);
}

// Noise must never make a rate that no file may hold: every time is at least this, every rate positive.
void keep_positive(Cluster* c) {
  for (double* seconds : {&c->row_s, &c->signal_s, &c->local.latency_s, &c->step_s, &c->run_s})
    *seconds = std::max(*seconds, kLeastSeconds);
  const Cluster assumed = default_cluster();
  const auto keep = [](double* rate, double otherwise) {
    if (!std::isfinite(*rate) || *rate <= 0) *rate = otherwise;
  };
  keep(&c->flops_per_s, assumed.flops_per_s);
  keep(&c->library_flops_per_s, 0);
  keep(&c->read_bytes_per_s, assumed.read_bytes_per_s);
  keep(&c->write_bytes_per_s, assumed.write_bytes_per_s);
  keep(&c->tile_bytes_per_s, assumed.tile_bytes_per_s);
  keep(&c->gather_bytes_per_s, assumed.gather_bytes_per_s);
  keep(&c->gather_cached_bytes_per_s, assumed.gather_cached_bytes_per_s);
  keep(&c->cache_bytes_per_s, assumed.cache_bytes_per_s);
  keep(&c->local.bytes_per_s, assumed.local.bytes_per_s);
}

}  // namespace

void solve_rates(const TrialSeconds& seconds, Cluster* cluster) {
  solve(seconds, cluster);
  keep_positive(cluster);
}

}  // namespace weft::calibrating
