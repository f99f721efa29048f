#include "cli/reshard/measure.h"

#include <cmath>
#include <cstring>
#include <memory>
#include <optional>

#include <fmt/core.h>

#include "weft/base/error.h"
#include "weft/base/index.h"
#include "weft/base/statistics.h"
#include "weft/exec/layout.h"
#include "weft/plan/program.h"
#include "weft/study/clock.h"

#include "cli/reshard/shards.h"

namespace weft::cli {
namespace {

// One strategy's op, and what was seen of it.
struct Mover {
  Moved seen;
  Op op;
};

Mover make_mover(World& world, const ReshardSpec& whole, Strategy strategy) {
  ReshardSpec spec = whole;
  spec.strategy = strategy;
  Planned planned = plan_reshard(spec);
  if (!planned.problems.empty()) fail(Code::internal, "the schedule is refused: {}", planned.problems[0]);
  const Plan plan = build(spec.reshard, planned.schedule, spec.network, options_of(spec));
  Moved seen;
  seen.asked = strategy;
  for (const Priced& one : planned.prices)
    if (one.strategy == planned.schedule.strategy) seen.predicted_us = one.seconds * 1e6;
  seen.planned = std::move(planned);
  const ShardBytes shards = shard_bytes(spec.reshard, world.rank());
  seen.staging_bytes =
      static_cast<std::int64_t>(layout_of(plan, Expander(plan), world.rank()).bytes) - shards.destination;
  return {std::move(seen), world.compile(plan)};
}

class Rounds {
 public:
  Rounds(World& world, const ReshardSpec& spec, const MoveOptions& options)
      : world_(world), options_(options), clock_(world), shards_(spec.reshard, world.rank()) {
    for (const Strategy strategy : options.strategies) movers_.push_back(make_mover(world, spec, strategy));
    if (options.again) movers_.push_back(make_mover(world, spec, options.strategies[0]));
  }

  bool run() {
    for (int round = 0; round <= options_.rounds; ++round) {  // the first warms up
      shards_.fill(round);
      for (Mover& mover : movers_)
        if (!move(mover, round)) return false;
      if (options_.progress) options_.progress(round, options_.rounds);
    }
    return true;
  }

  Measured result();

 private:
  bool move(Mover& mover, int round);
  std::optional<std::string> check(Mover& mover, int round);

  World& world_;
  const MoveOptions& options_;
  CommonClock clock_;
  Shards shards_;
  std::vector<Mover> movers_;
};

// Every rank learns whether all is well, and stops where it is not; the rank that found it says so.
bool Rounds::move(Mover& mover, int round) {
  const std::int64_t start = clock_.start_together();
  mover.op.run(std::span<const void* const>(shards_.inputs()));
  mover.op.view("dst0");  // waits for all that is owed to this rank, of every tensor
  const std::int64_t took = CommonClock::now_ns() - start;
  const auto bad = check(mover, round);
  std::int64_t slowest = 0, wrong = 0;
  const std::int64_t mine[] = {took, bad ? 1 : 0};
  const auto all = clock_.tell(mine);
  for (std::size_t rank = 0; rank < num(world_.size()); ++rank) {
    slowest = std::max(slowest, all[rank * CommonClock::kValues]);
    wrong += all[rank * CommonClock::kValues + 1];
  }
  if (bad) throw Error(Code::internal, *bad, world_.rank());
  if (round > 0) mover.seen.rounds_us.push_back(static_cast<double>(slowest) * 1e-3);
  return wrong == 0;
}

std::optional<std::string> Rounds::check(Mover& mover, int round) {
  bool spoil = options_.spoil;
  for (const DestinationShard& shard : shards_.destinations()) {
    const BufferView view = mover.op.view(fmt::format("dst{}", shard.transfer));
    std::optional<std::string> bad;
    if (spoil) {
      std::vector<std::byte> copy(view.bytes);
      std::memcpy(copy.data(), view.data, view.bytes);
      copy[view.bytes / 2] ^= std::byte{1};
      bad = shards_.check(shard, round, copy.data());
      spoil = false;
    } else {
      bad = shards_.check(shard, round, view.data);
    }
    if (bad) return bad;
  }
  return {};
}

Measured Rounds::result() {
  Measured out;
  for (Mover& mover : movers_) {
    const std::int64_t mine[] = {std::max<std::int64_t>(0, mover.seen.staging_bytes), shards_.destination_elements()};
    const auto all = clock_.tell(mine);
    out.elements = 0;
    for (std::size_t rank = 0; rank < num(world_.size()); ++rank) {
      mover.seen.staging_bytes = std::max(mover.seen.staging_bytes, all[rank * CommonClock::kValues]);
      out.elements += all[rank * CommonClock::kValues + 1];
    }
    mover.seen.time_us = median(mover.seen.rounds_us);
  }
  if (options_.again) out.aa_band = std::abs(movers_.front().seen.time_us / movers_.back().seen.time_us - 1);
  for (std::size_t i = 0; i < options_.strategies.size(); ++i) out.moved.push_back(std::move(movers_[i].seen));
  return out;
}

}  // namespace

Outcome move_tensors(World& world, const ReshardSpec& spec, const MoveOptions& options) {
  Rounds rounds(world, spec, options);
  if (!rounds.run()) return {false, {}};
  return {true, rounds.result()};
}

}  // namespace weft::cli
