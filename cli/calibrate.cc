#include "cli/calibrate.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <random>
#include <vector>

#include "weft/plan/estimate_cost.h"
#include "weft/transport/threads.h"
#include "weft/transport/wait.h"
#include "weft/weft.h"

namespace weft::cli {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

// The lower third: half of the time on a busy machine is someone else's.
double typical(std::vector<double> times) {
  const auto at = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 3);
  std::nth_element(times.begin(), at, times.end());
  return *at;
}

constexpr int kRanks = 2;
constexpr double kFloat = sizeof(float);
constexpr double kExposed = estimating::kExposed;
constexpr double kBudget = 2.5;  // seconds for all trials
constexpr int kLeastRounds = 7;

// What one rank runs again and again, and how many times between two looks at the clock; more than once: what is timed
// finds its data in the cache.
struct Trial {
  std::function<void()> work;
  int batch = 1;
};

// The trials, by their place in the list.
enum { one_tile, many_tiles, long_rows, short_rows, brief_gemm, full_gemm, scattered_gemm, lookup, cached, num_trials };

constexpr std::int64_t kTiles = 4096, kTileCols = 16;  // tiles of a cache line: nothing but what a tile costs
constexpr std::int64_t kLongRow = 2048, kShortRow = 64, kLongRows = 4096, kShortRows = 131072;
constexpr std::int64_t kSide = 2048, kBriefK = 32, kFullK = 192;  // outputs larger than the caches
constexpr std::int64_t kTables = 2, kTableRows = 100'000, kDim = 128, kBatch = 2048, kPooled = 8, kTurns = 8;
constexpr std::int64_t kCachedSide = 256;

Trial trial(World& world, const Producer& p, const Space& space, int batch = 1) {
  auto op = std::make_shared<Op>(world.compile(p, space));
  auto x = std::make_shared<std::vector<float>>(p.m * (p.kind == ProducerKind::copy ? p.n : p.k), 0.5f);
  auto w = std::make_shared<std::vector<float>>(p.k * p.n, 0.25f);
  return {[=] {
            op->run(x->data(), w->data());
            op->output();
          },
          batch};
}

// Other rows of the tables every time: several batches of indices take turns.
Trial lookup_trial(World& world) {
  auto op = std::make_shared<Op>(
      world.compile(embedding_bag({.tables = kTables, .rows = kTableRows, .dim = kDim, .batch = kBatch}), keep()));
  auto table = std::make_shared<std::vector<float>>(kTables * kTableRows * kDim, 0.5f);
  auto indices = std::make_shared<std::vector<std::int64_t>>(kBatch * kPooled * kTurns);
  auto offsets = std::make_shared<std::vector<std::int64_t>>(kBatch + 1);
  std::minstd_rand random(static_cast<unsigned>(world.rank()) + 1);
  for (std::int64_t& index : *indices) index = static_cast<std::int64_t>(random()) % kTableRows;
  for (std::size_t b = 0; b < offsets->size(); ++b) (*offsets)[b] = static_cast<std::int64_t>(b) * kPooled;
  return {[=, turn = std::int64_t{0}]() mutable {
    const std::int64_t* rows = indices->data() + turn++ % kTurns * kBatch * kPooled;
    const float* tables[] = {table->data(), table->data() + kTableRows * kDim};
    const std::int64_t* rows_of[] = {rows, rows};
    const std::int64_t* cuts[] = {offsets->data(), offsets->data()};
    Inputs in;
    in.tables = tables, in.indices = rows_of, in.offsets = cuts;
    op->run(in);
    op->output();
  }};
}

std::vector<Trial> trials(World& world) {
  const Space scatter = reduce_scatter(world.mesh({{"all", world.size()}}), "all", {.route = Route::ring});
  const auto tiles = [](std::int64_t count) {
    return copy({.rows = count, .cols = kTileCols, .tile = {1, kTileCols}});
  };
  const auto square = [](std::int64_t k) { return gemm({.m = kSide, .n = kSide, .k = k}); };
  std::vector<Trial> out(num_trials);
  out[one_tile] = trial(world, tiles(1), keep(), 50);
  out[many_tiles] = trial(world, tiles(kTiles), keep(), 2);
  out[long_rows] = trial(world, gemv({.n = kLongRows, .k = kLongRow}), keep());
  out[short_rows] = trial(world, gemv({.n = kShortRows, .k = kShortRow}), keep());
  out[brief_gemm] = trial(world, square(kBriefK), keep());
  out[full_gemm] = trial(world, square(kFullK), keep());
  out[scattered_gemm] = trial(world, square(kBriefK), scatter);
  out[lookup] = lookup_trial(world);
  out[cached] = trial(world, copy({.rows = kCachedSide, .cols = kCachedSide}), scatter, 10);
  return out;
}

// Both ranks run the trials in turn, round after round, so that whatever disturbs the machine for a while disturbs all
// of them a little, and each finds the caches full of something else. Seconds of each, on the slower rank.
std::array<double, num_trials> run_trials() {
  std::array<std::array<double, num_trials>, kRanks> seconds{};
  std::atomic<bool> more{true};
  World::local(kRanks, [&](World& world) {
    const std::vector<Trial> all = trials(world);
    for (const Trial& t : all) t.work();
    std::vector<std::vector<double>> times(all.size());
    const auto begin = Clock::now();
    for (int round = 0;; ++round) {
      if (world.rank() == 0) more = round < kLeastRounds || seconds_since(begin) < kBudget;
      world.barrier();
      const bool again = more;
      for (std::size_t t = 0; again && t < all.size(); ++t) {
        if (all[t].batch > 1) all[t].work();
        world.barrier();
        const auto start = Clock::now();
        for (int i = 0; i < all[t].batch; ++i) all[t].work();
        times[t].push_back(seconds_since(start) / all[t].batch);
      }
      world.barrier();  // all have looked
      if (!again) break;
    }
    for (std::size_t t = 0; t < all.size(); ++t) seconds[world.rank()][t] = typical(times[t]);
  });
  for (std::size_t t = 0; t < num_trials; ++t) seconds[0][t] = std::max(seconds[0][t], seconds[1][t]);
  return seconds[0];
}

// What is left of a time when its known parts are taken off; never less than a tenth of it, however noisy the machine.
double rest(double whole, double known) { return std::max(whole - known, whole / 10); }

// Solves the terms of weft/plan/estimate_cost.h for the rates, one after another.
void solve(const std::array<double, num_trials>& t, Cluster* c) {
  c->step_s = rest(t[many_tiles], t[one_tile]) / (kTiles - 1);
  c->run_s = rest(t[one_tile], c->step_s);

  // Long rows of weights give the rate of memory, short ones what an output costs.
  const double short_bytes = kShortRows * kShortRow * kFloat, long_bytes = kLongRows * kLongRow * kFloat;
  c->row_s = rest(t[short_rows], kShortRows / 256 * c->step_s + short_bytes / long_bytes * t[long_rows]) / kShortRows;
  c->read_bytes_per_s = long_bytes / rest(t[long_rows], kLongRows * (c->row_s + c->step_s / 256) + c->run_s);

  // Two lengths of sums: the slope is arithmetic and operands, what is left is storing.
  const double elements = kSide * kSide, operands = 2 * kSide * kFloat / c->read_bytes_per_s;
  const double for_each_k = rest(t[full_gemm], t[brief_gemm]) / (kFullK - kBriefK);
  const double made = kBriefK * for_each_k + elements / (64 * 64) * c->step_s + c->run_s;
  c->flops_per_s = 2 * elements / rest(for_each_k, operands);
  c->write_bytes_per_s = elements * kFloat / rest(t[brief_gemm], made);

  // Half of the tiles go to the peer; for the others its tiles are read, and weights are read twice.
  const double half = elements * kFloat / 2, to_read = half / c->read_bytes_per_s,
               to_keep = half / c->write_bytes_per_s;
  const double kept = std::max(to_read, to_keep) + kExposed * std::min(to_read, to_keep);
  c->local.bytes_per_s =
      half / rest(t[scattered_gemm], made + kBriefK * operands / 2 + elements / 2 / (64 * 64) * c->signal_s + kept);

  const double looked_up = kTables * kBatch * kDim * kFloat;
  c->gather_bytes_per_s =
      looked_up * kPooled /
      rest(t[lookup], kTables * kBatch / 64 * c->step_s + c->run_s + looked_up / c->write_bytes_per_s);

  // Half of the rows are read and stored to the peer; for the other half rows and inbox are read, and the sums stored.
  const double part = kCachedSide * kCachedSide * kFloat / 2, passes = (1 + kExposed) + (2 + kExposed);
  c->cache_bytes_per_s = part * passes / rest(t[cached], part / 32768 * c->step_s + c->run_s + c->signal_s);
}

// Half a round trip between two ranks that wait as executors do: spin, then sleep on the bell.
double signal_s() {
  constexpr std::uint32_t kTrips = 1000;
  struct alignas(64) Line {
    std::atomic<std::uint32_t> value{0};
  };
  Line lines[2];
  double each = 0;
  run_thread_ranks(2, [&](Transport& transport) {
    const int me = transport.rank(), peer = 1 - me;
    const Patience patience = patience_from_env();
    const auto trip = [&](std::uint32_t i) {
      if (me == 0) lines[1].value.fetch_add(1), ring_if_asleep(transport.bell(peer));
      wait_until(
          transport, patience, [&] { return lines[me].value.load() >= i; }, [](auto) {});
      if (me == 1) lines[0].value.fetch_add(1), ring_if_asleep(transport.bell(peer));
    };
    for (std::uint32_t i = 1; i <= kTrips; ++i) trip(i);
    const auto start = Clock::now();
    for (std::uint32_t i = kTrips + 1; i <= 10 * kTrips; ++i) trip(i);
    if (me == 0) each = seconds_since(start) / (2.0 * 9 * kTrips);
  });
  return each;
}

}  // namespace

Cluster calibrate(int ranks) {
  Cluster cluster = default_cluster(std::max(ranks, 1));
  cluster.name = "measured";
  cluster.signal_s = std::min({signal_s(), signal_s(), signal_s()});
  cluster.local.latency_s = cluster.signal_s;
  if (const auto cache = static_cast<double>(sysconf(_SC_LEVEL2_CACHE_SIZE)); cache > 0)
    cluster.cache_bytes = 2 * cache;  // a rank's own, and as much again of what is shared
  solve(run_trials(), &cluster);
  return cluster;
}

}  // namespace weft::cli
