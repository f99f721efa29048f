#include "cli/info/calibrate.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <functional>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "weft/base/statistics.h"
#include "weft/plan/price/cost.h"
#include "weft/transport/local/wait.h"
#include "weft/weft.h"

namespace weft::cli {
namespace {

constexpr double kLeastSeconds = 1e-12;

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

// The lower third: half of the time on a busy machine is someone else's.
double typical(const std::vector<double>& times) { return quantile(times, 1.0 / 3); }

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
enum {
  one_tile,
  many_tiles,
  long_rows,
  brief_gemm,
  full_gemm,
  copied,
  scattered,
  lookup,
  hot_lookup,
  hot_long,
  hot_short,
  ping_pong,
  num_trials
};

constexpr std::int64_t kTiles = 4096, kTileCols = 16;  // tiles of a cache line: nothing but what a tile costs
constexpr std::int64_t kLongRow = 2048, kLongRows = 4096;
constexpr std::int64_t kSide = 2048, kBriefK = 32, kFullK = 192;  // outputs larger than the caches
// Tables of 205 MB. Hot rows are spread over them, as popular ones are: 4 MB in all, which stay in the last-level cache.
constexpr std::int64_t kTables = 2, kTableRows = 200'000, kDim = 128, kBatch = 4096, kPooled = 8, kTurns = 8;
constexpr std::int64_t kHotRows = 4096, kHotStride = kTableRows / kHotRows;
// The same 256 KB of weights in a few long rows and in many short ones, a single tile each. Rows as short as can be: of
// longer ones, reading hides what an output costs.
constexpr std::int64_t kHotLong = 1024, kHotFew = 64, kHotShort = 16, kHotMany = 4096;
static_assert(kHotLong * kHotFew == kHotShort * kHotMany);

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

using Table = std::shared_ptr<std::vector<float>>;  // all tables of a rank

// Other rows of the tables every time, every `stride`-th of them: several batches of indices take turns.
Trial lookup_trial(World& world, const Table& table, std::int64_t stride, int repeats = 1) {
  auto op = std::make_shared<Op>(
      world.compile(embedding_bag({.tables = kTables, .rows = kTableRows, .dim = kDim, .batch = kBatch}), keep()));
  auto indices = std::make_shared<std::vector<std::int64_t>>(kBatch * kPooled * kTurns);
  auto offsets = std::make_shared<std::vector<std::int64_t>>(kBatch + 1);
  std::minstd_rand random(static_cast<unsigned>(world.rank()) + 1);
  for (std::int64_t& index : *indices) index = static_cast<std::int64_t>(random()) % (kTableRows / stride) * stride;
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
          },
          repeats};
}

struct alignas(64) Line {
  std::atomic<std::uint32_t> value{0};
};

// A round trip between two ranks that wait for each other's counter.
Trial ping_pong_trial(World& world, Line* lines) {
  return {[me = world.rank(), lines, trips = std::uint32_t{0}]() mutable {
            ++trips;
            const auto signal = [&] { lines[1 - me].value.fetch_add(1); };
            const auto wait = [&] {
              for (int spins = 0; lines[me].value.load() < trips; ++spins) {
                if (spins > 10'000) std::this_thread::yield();  // a machine with one core
                cpu_pause();
              }
            };
            if (me == 0) signal();
            wait();
            if (me == 1) signal();
          },
          100};
}

std::vector<Trial> trials(World& world, Line* lines) {
  const Space scatter = reduce_scatter(world.mesh({{"all", world.size()}}), "all", {.route = Route::ring});
  const auto tiles = [](std::int64_t count) {
    return copy({.rows = count, .cols = kTileCols, .tile = {1, kTileCols}});
  };
  const auto square = [](std::int64_t k) { return gemm({.m = kSide, .n = kSide, .k = k}); };
  std::vector<Trial> out(num_trials);
  out[one_tile] = trial(world, tiles(1), keep(), 50);
  out[many_tiles] = trial(world, tiles(kTiles), keep(), 2);
  out[long_rows] = trial(world, gemv({.n = kLongRows, .k = kLongRow}), keep());
  out[brief_gemm] = trial(world, square(kBriefK), keep());
  out[full_gemm] = trial(world, square(kFullK), keep());
  out[copied] = trial(world, copy({.rows = kSide, .cols = kSide}), keep());
  out[scattered] = trial(world, copy({.rows = kSide, .cols = kSide}), scatter);
  const auto table = std::make_shared<std::vector<float>>(kTables * kTableRows * kDim, 0.5f);
  out[lookup] = lookup_trial(world, table, 1);
  out[hot_lookup] = lookup_trial(world, table, kHotStride, 2);
  out[hot_long] = trial(world, gemv({.n = kHotFew, .k = kHotLong}), keep(), 20);
  out[hot_short] = trial(world, gemv({.n = kHotMany, .k = kHotShort}), keep(), 20);
  out[ping_pong] = ping_pong_trial(world, lines);
  return out;
}

// Both ranks run the trials in turn, round after round, so that whatever disturbs the machine for a while disturbs all
// of them a little, and each finds the caches full of something else. Seconds of each, on the slower rank.
std::array<double, num_trials> run_trials() {
  std::array<std::array<double, num_trials>, kRanks> seconds{};
  Line lines[kRanks];
  std::atomic<bool> more{true};
  World::local(kRanks, [&](World& world) {
    const std::vector<Trial> all = trials(world, lines);
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

// The other part of a pass over memory, of which one is known: pass = longer + kExposed * shorter.
double other_of_pass(double pass, double known) {
  const double longer = pass - kExposed * known;
  return longer >= known ? longer : std::max((pass - known) / kExposed, pass / 10);
}

// Rows of bags are read in a pass with storing what they are pooled into, which takes less long. Nothing is left for the
// bag itself: one row in a bag takes no longer than such a pass (seen on Zen 4, rows of 512 bytes).
void solve_tables(const std::array<double, num_trials>& t, Cluster* c) {
  constexpr double kRow = kDim * kFloat, kBags = kTables * kBatch;
  const double known = c->step_s / 64 + c->run_s / kBags + kExposed * kRow / c->write_bytes_per_s;
  c->gather_cached_bytes_per_s = kRow * kPooled / rest(t[hot_lookup] / kBags, known);
  c->gather_bytes_per_s = std::min(kRow * kPooled / rest(t[lookup] / kBags, known), c->gather_cached_bytes_per_s);
}

// Solves the terms of weft/plan/price/cost.h for the rates, one after another.
void solve(const std::array<double, num_trials>& t, Cluster* c) {
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
  keep(&c->read_bytes_per_s, assumed.read_bytes_per_s);
  keep(&c->write_bytes_per_s, assumed.write_bytes_per_s);
  keep(&c->tile_bytes_per_s, assumed.tile_bytes_per_s);
  keep(&c->gather_bytes_per_s, assumed.gather_bytes_per_s);
  keep(&c->gather_cached_bytes_per_s, assumed.gather_cached_bytes_per_s);
  keep(&c->cache_bytes_per_s, assumed.cache_bytes_per_s);
  keep(&c->local.bytes_per_s, assumed.local.bytes_per_s);
}

}  // namespace

Cluster calibrate(int ranks) {
  Cluster cluster = default_cluster(std::max(ranks, 1));
  cluster.name = "measured";
  if (const auto cache = static_cast<double>(sysconf(_SC_LEVEL2_CACHE_SIZE)); cache > 0)
    cluster.cache_bytes = 2 * cache;  // a rank's own, and as much again of what is shared
  if (const auto cache = static_cast<double>(sysconf(_SC_LEVEL3_CACHE_SIZE)); cache > 0)
    cluster.shared_cache_bytes = std::min(cache / std::max(ranks, 1), 4 * cluster.cache_bytes);  // neighbours share it
  solve(run_trials(), &cluster);
  keep_positive(&cluster);
  return cluster;
}

}  // namespace weft::cli
