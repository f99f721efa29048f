#include "weft/study/reshard/move.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <string>

#include <fmt/core.h>

#include "weft/base/error.h"
#include "weft/base/index.h"
#include "weft/study/reshard/shards.h"
#include "weft/study/rounds.h"

namespace weft {
namespace {

// One strategy's op, and what is told of it.
struct Mover {
  StrategyMove told;
  Op op;
};

Mover make_mover(World& world, const Reshard& reshard, const Network& network, ReshardOptions options,
                 Strategy strategy) {
  options.schedule.strategy = strategy;
  StrategyMove told{strategy, plan_reshard(reshard, network, world.with_costs(options)), 0, 0};
  if (!told.planned.problems.empty()) fail(Code::internal, "the schedule is refused: {}", told.planned.problems[0]);
  Op op = world.compile(reshard, told.planned.schedule, network, options);
  const std::int64_t shards = shard_bytes(reshard, world.rank()).destination;
  told.staging_bytes = std::max<std::int64_t>(0, static_cast<std::int64_t>(op.bytes()) - shards);
  return {std::move(told), std::move(op)};
}

enum class Spoil { nothing, one_element };

// What is wrong with what an op has brought to this rank.
std::optional<std::string> wrong_with(Op& op, const RankShards& shards, std::uint64_t round, Spoil spoil) {
  for (const DestinationShard& shard : shards.destinations()) {
    const BufferView view = op.view(fmt::format("dst{}", shard.transfer));
    std::vector<std::byte> copy;
    if (spoil == Spoil::one_element) {
      copy.assign(static_cast<const std::byte*>(view.data), static_cast<const std::byte*>(view.data) + view.bytes);
      copy[view.bytes / 2] ^= std::byte{1};
      spoil = Spoil::nothing;
    }
    if (const auto wrong = shards.check(shard, round, copy.empty() ? view.data : copy.data())) return wrong;
  }
  return {};
}

Contestant contestant_of(Mover& mover, const RankShards& shards, Spoil spoil, std::optional<std::string>* wrong) {
  Contestant out;
  out.name = to_string(mover.told.asked);
  out.run = [&] {
    mover.op.run(std::span<const void* const>(shards.inputs()));
    mover.op.view("dst0");  // waits for all that is owed to this rank, of every tensor
  };
  out.after = [&mover, &shards, spoil, wrong](std::uint64_t round) -> std::int64_t {
    *wrong = wrong_with(mover.op, shards, round, spoil);
    return *wrong ? 1 : 0;
  };
  return out;
}

}  // namespace

MoveResult move_tensors(World& world, const Reshard& reshard, const Network& network, const MoveOptions& options) {
  CommonClock clock(world);
  RankShards shards(reshard, world.rank());
  std::vector<Mover> movers;
  for (const Strategy strategy : options.strategies)
    movers.push_back(make_mover(world, reshard, network, options.reshard, strategy));
  std::optional<std::string> wrong;
  std::vector<Contestant> contestants;
  for (Mover& mover : movers)
    contestants.push_back(contestant_of(mover, shards, options.spoil ? Spoil::one_element : Spoil::nothing, &wrong));
  RoundsOptions how;
  how.rounds = options.rounds;
  if (options.again) how.twice = contestants[0].name;
  how.refresh = [&](std::uint64_t round) { shards.fill(round); };
  how.judge = [&](const Contestant&, std::uint64_t, const TurnTime& turn) {
    if (wrong) throw Error(Code::internal, *wrong, world.rank());
    return std::all_of(turn.said.begin(), turn.said.end(), [](std::int64_t bad) { return bad == 0; });
  };
  how.progress = options.progress;
  Rounds rounds(clock, std::move(contestants), std::move(how));
  MoveResult out;
  out.ok = rounds.run();
  if (!out.ok) return out;
  out.aa_band = rounds.aa_band();
  out.elements = clock.sum_of_ranks(shards.destination_elements());
  for (Mover& mover : movers) {
    mover.told.time_us = *rounds.median_us(to_string(mover.told.asked));
    mover.told.staging_bytes = clock.worst_of_ranks(mover.told.staging_bytes);
    out.moves.push_back(std::move(mover.told));
  }
  return out;
}

}  // namespace weft
