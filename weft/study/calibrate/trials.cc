#include "weft/study/calibrate/trials.h"

#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "weft/base/clock.h"
#include "weft/base/index.h"
#include "weft/base/statistics.h"
#include "weft/plan/producer.h"
#include "weft/plan/space.h"
#include "weft/study/baseline/modules.h"
#include "weft/transport/local/wait.h"
#include "weft/world/world.h"

namespace weft::calibrating {
namespace {

// The lower third: half of the time on a busy machine is someone else's.
double typical(const std::vector<double>& times) { return quantile(times, 1.0 / 3); }

constexpr int kRanks = 2;
constexpr double kBudget = 2.5;  // seconds for all trials
constexpr int kLeastRounds = 7;

// What one rank runs again and again, and how many times between two looks at the clock; more than once: what is timed
// finds its data in the cache.
struct Trial {
  std::function<void()> work;
  int batch = 1;
};

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

// A square product by a library. No work where the library is not there; nor with sanitizers, which see nothing of what
// is inside it and take two ranks' threads there for a race.
Trial library_trial([[maybe_unused]] Library library, [[maybe_unused]] std::int64_t k) {
#ifdef WEFT_SANITIZED
  return {};
#else
  std::shared_ptr<baseline::Gemm> gemm = load_gemm(library, {.m = kSide, .n = kSide, .k = k, .threads = 1});
  if (!gemm) return {};
  auto x = std::make_shared<std::vector<float>>(kSide * k, 0.5f),
       w = std::make_shared<std::vector<float>>(k * kSide, 0.25f);
  auto y = std::make_shared<std::vector<float>>(kSide * kSide);
  gemm->prepare(x->data(), w->data());
  return {[=] { gemm->run(x->data(), w->data(), y->data()); }};
#endif
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
  for (std::int64_t b = 0; b < std::ssize(*offsets); ++b) (*offsets)[at(b)] = b * kPooled;
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
  out[brief_onednn] = library_trial(Library::onednn, kBriefK);
  out[full_onednn] = library_trial(Library::onednn, kFullK);
  out[brief_openblas] = library_trial(Library::openblas, kBriefK);
  out[full_openblas] = library_trial(Library::openblas, kFullK);
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

}  // namespace

// Both ranks run the trials in turn, round after round, so that whatever disturbs the machine for a while disturbs all
// of them a little, and each finds the caches full of something else. Seconds of each, on the slower rank.
TrialSeconds time_trials() {
  std::array<TrialSeconds, kRanks> seconds{};
  Line lines[kRanks];
  std::atomic<bool> more{true};
  World::local(kRanks, [&](World& world) {
    const std::vector<Trial> all = trials(world, lines);
    for (const Trial& t : all)
      if (t.work) t.work();
    std::vector<std::vector<double>> times(all.size());
    const std::int64_t begin = now_ns();
    for (int round = 0;; ++round) {
      if (world.rank() == 0) more = round < kLeastRounds || seconds_since(begin) < kBudget;
      world.barrier();
      const bool again = more;
      for (std::size_t t = 0; again && t < all.size(); ++t) {
        if (!all[t].work) continue;  // on no rank
        if (all[t].batch > 1) all[t].work();
        world.barrier();
        const std::int64_t start = now_ns();
        for (int i = 0; i < all[t].batch; ++i) all[t].work();
        times[t].push_back(seconds_since(start) / all[t].batch);
      }
      world.barrier();  // all have looked
      if (!again) break;
    }
    for (std::size_t t = 0; t < all.size(); ++t)
      if (!times[t].empty()) seconds[at(world.rank())][t] = typical(times[t]);
  });
  for (std::size_t t = 0; t < num_trials; ++t) seconds[0][t] = std::max(seconds[0][t], seconds[1][t]);
  return seconds[0];
}

}  // namespace weft::calibrating
