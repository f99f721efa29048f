// Whether programs that take tiles by their numbers come to an end: every program is walked on the host, all of them in
// turn, with nothing but counters. They only grow and waits are thresholds, so if one order of what is ready ends,
// every order does.
#include <cstdint>
#include <vector>

#include "weft/base/error.h"
#include "weft/base/index.h"
#include "weft/exec/table/tile_table.h"

namespace weft {
namespace {

class TileWalk {
 public:
  explicit TileWalk(const TilePlan& tiles) : tiles_(tiles), programs_(tiles.options.programs) {
    for (const TileTable& table : tiles.tables) {
      counters_.emplace_back(num(tiles.layouts[counters_.size()].num_counters));
      lists_.push_back(lists_of(table));
    }
  }

  // One run of all ranks. Gives the first lane that is stuck, or lane -1.
  TileFailure run() {
    std::vector<std::vector<std::size_t>> next(lists_.size(), std::vector<std::size_t>(num(programs_)));
    for (bool moved = true; moved;) {
      moved = false;
      for (int r = 0; r < int_size(lists_); ++r)
        for (int p = 0; p < programs_; ++p)
          while (advance(r, p, &next[at(r)][at(p)])) moved = true;
    }
    for (int r = 0; r < int_size(lists_); ++r)
      for (int p = 0; p < programs_; ++p)
        if (next[at(r)][at(p)] < lists_[at(r)][at(p)].size()) return stuck(r, lists_[at(r)][at(p)][next[at(r)][at(p)]]);
    ++runs_;
    return {0, -1};
  }

 private:
  // Lanes in the order in which each program takes them; kLate: its late signals.
  static constexpr int kLate = -1;
  std::vector<std::vector<int>> lists_of(const TileTable& table) const {
    std::vector<std::vector<int>> out(num(programs_));
    const auto deal = [&](int first, int count) {
      for (int i = 0; i < count; ++i) out[at(i % programs_)].push_back(first + i);
    };
    deal(table.tiles, table.opening);
    deal(0, table.tiles);
    for (std::vector<int>& list : out) list.push_back(kLate);
    deal(table.tiles + table.opening, table.closing);
    return out;
  }

  std::int64_t needed(const TileWait& wait) const { return (runs_ - wait.lag) * wait.total + wait.at; }

  int unmet(int rank, const TileLane& lane) const {
    const TileTable& table = tiles_.tables[at(rank)];
    for (int i = 0; i < lane.waits; ++i) {
      const TileWait& wait = table.waits[at(lane.first_wait + i)];
      if (runs_ >= wait.lag && counters_[at(rank)][at(wait.counter)] < needed(wait)) return i;
    }
    return -1;
  }

  bool advance(int rank, int program, std::size_t* next) {
    const std::vector<int>& list = lists_[at(rank)][at(program)];
    if (*next == list.size()) return false;
    const TileTable& table = tiles_.tables[at(rank)];
    if (list[*next] == kLate) {
      for (const TileLate& late : table.late) counters_[at(rank)][at(late.counter)] += late.by_program[at(program)];
      ++*next;
      return true;
    }
    const TileLane& lane = table.lanes[at(list[*next])];
    if (unmet(rank, lane) >= 0) return false;
    for (int i = 0; i < lane.signals; ++i) {
      const TileSignal& signal = table.signals[at(lane.first_signal + i)];
      ++counters_[at(signal.rank)][at(signal.counter)];
    }
    ++*next;
    return true;
  }

  TileFailure stuck(int rank, int lane) const {
    const TileTable& table = tiles_.tables[at(rank)];
    const int wait = unmet(rank, table.lanes[at(lane)]);
    const TileWait& missing = table.waits[at(table.lanes[at(lane)].first_wait + wait)];
    const std::int64_t began = (runs_ - missing.lag) * missing.total;
    return {rank, lane, wait, counters_[at(rank)][at(missing.counter)] - began};
  }

  const TilePlan& tiles_;
  const int programs_;
  std::vector<std::vector<std::int64_t>> counters_;
  std::vector<std::vector<std::vector<int>>> lists_;  // of each rank and program
  std::int64_t runs_ = 0;
};

}  // namespace

void require_tiles_end(const Plan& plan, const Expander& expander, const TilePlan& tiles) {
  TileWalk walk(tiles);
  for (int run = 0; run < 2; ++run)
    if (const TileFailure stuck = walk.run(); stuck.lane >= 0)
      bad_input(
          "{} programs per rank, each making its tiles one after another, do not end plan \"{}\": {}; use more "
          "programs or another route",
          tiles.options.programs, plan.name, describe(plan, expander, tiles, stuck));
}

}  // namespace weft
