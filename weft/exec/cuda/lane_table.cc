#include "weft/exec/cuda/lane_table.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <utility>

#include <climits>

#include "weft/base/error.h"
#include "weft/base/index.h"
#include "weft/exec/cuda/device_layout.h"
#include "weft/plan/assumptions.h"
#include "weft/plan/price/traffic.h"

namespace weft {
namespace {

// A tile of an action; -1: none, where there is none below the last row, or beside it at the next peer.
struct TileOf {
  std::int32_t action = 0;
  std::int64_t lane = -1;
};
using LanePairs = std::vector<std::array<TileOf, 2>>;

// Which rows of pairs a group takes, column by column. A cluster takes every 8th or 16th pair, and would get the same
// rows of every group; where a run's counts leave out the last of them, they change places every few columns.
enum class PairRows { all, counted };
std::vector<std::array<std::int64_t, 2>> places_of(std::int64_t group, std::int64_t height, std::int64_t cols,
                                                   PairRows which) {
  std::vector<std::array<std::int64_t, 2>> out;
  for (std::int64_t col = 0; col < cols; ++col)
    for (std::int64_t i = 0; i < height; ++i)
      out.push_back({group + (which == PairRows::counted ? (i + col / 4 + col / 8) % height : i), col});
  return out;
}

// The order in which the lanes of an action are made, two by two. `group_rows` pairs of tile rows share columns of w:
// 4, 8 and 16 were alike, 8 least. Where rows are gathered, 4: those that come first are taken first.
// In a slice of few columns, 4 too: what is read at once is as wide as high (1 %).
std::vector<LanePairs> groups_of(std::int32_t action, const Grid& grid, std::int64_t group_rows,
                                 PairRows which = PairRows::all) {
  const std::int64_t rows = ceil_div(grid.rows, 2);
  std::vector<LanePairs> out;
  for (std::int64_t group = 0; group < rows; group += group_rows) {
    LanePairs& pairs = out.emplace_back();
    for (const auto& [row, col] : places_of(group, std::min(rows - group, group_rows), grid.cols, which)) {
      const std::int64_t upper = 2 * row * grid.cols + col;
      pairs.push_back({TileOf{action, upper}, {action, 2 * row + 1 < grid.rows ? upper + grid.cols : -1}});
    }
  }
  return out;
}

// The same in blocks of a few columns and at most 8 pairs of tile rows: what is read for a block stays in L2.
constexpr std::int64_t kBlockPairs = 8;
std::vector<LanePairs> blocks_of(std::int32_t action, const Grid& grid, std::int64_t block_cols) {
  std::vector<LanePairs> out;
  for (const LanePairs& group : groups_of(action, grid, kBlockPairs)) {
    const auto height = int_size(group) / grid.cols, step = block_cols * height;
    for (std::int64_t first = 0; first < int_size(group); first += step)
      out.emplace_back(group.begin() + first, group.begin() + std::min<std::int64_t>(first + step, int_size(group)));
  }
  return out;
}

// The same of two actions at once, a tile of each.
constexpr std::int64_t kTurnRows = 2;  // of a peer's tiles at a time
std::vector<LanePairs> groups_of_two(const std::array<std::int32_t, 2>& actions, const std::array<Grid, 2>& grids) {
  const std::int64_t rows = std::max(grids[0].rows, grids[1].rows);
  const auto tile = [&](std::size_t which, std::int64_t row, std::int64_t col) {
    return TileOf{actions[which], row < grids[which].rows ? row * grids[which].cols + col : -1};
  };
  std::vector<LanePairs> out;
  for (std::int64_t group = 0; group < rows; group += kTurnRows) {
    LanePairs& pairs = out.emplace_back();
    for (const auto& [row, col] : places_of(group, std::min(rows - group, kTurnRows), grids[0].cols, PairRows::counted))
      pairs.push_back({tile(0, row, col), tile(1, row, col)});
  }
  return out;
}

std::int32_t narrow(std::int64_t value) { return static_cast<std::int32_t>(value); }

// Part of a box of a trigger that copies: from `row` and `col` of it on.
struct Part {
  std::int64_t row = 0, col = 0, rows = 0, cols = 0;
};

// A tile is not cut.
std::vector<Part> parts_of(std::int64_t rows, std::int64_t cols, std::int64_t part_cols) {
  const bool is_tile = rows <= kCudaTileRows && cols <= kCudaTileCols;
  const std::int64_t step = is_tile ? kCudaTileCols : part_cols;
  std::vector<Part> out;
  for (std::int64_t row = 0; row < rows; row += kCudaTileRows)
    for (std::int64_t col = 0; col < cols; col += step)
      out.push_back({row, col, std::min<std::int64_t>(kCudaTileRows, rows - row), std::min(step, cols - col)});
  return out;
}

class TableMaker {
 public:
  TableMaker(const Plan& plan, const Expander& expander, int rank, const LaneOrder& order,
             const std::vector<Layout>& host, DevicePlan* device)
      : plan_(plan),
        expander_(expander),
        program_(expander.program(rank)),
        order_(order),
        host_(host),
        device_(*device),
        out_(device->tables[at(rank)]) {}

  void make() {
    assert(assumptions_hold(plan_, expander_, program_));  // verify() has proved it
    std::vector<std::int32_t> gathered, counted, sent, others;
    for (std::size_t a = 0; a < program_.actions.size(); ++a) {
      const Action& action = program_.actions[a];
      if (action.kind != ActionKind::step) continue;
      (arrives_with_others(action) ? gathered
       : is_counted(action)        ? counted
       : goes_with_others(action)  ? sent
                                   : others)
          .push_back(narrow(num_of(a)));
    }
    add_in_turn(sent, [&](std::int32_t index) { return blocks_of(index, grid_of_action(index), order_.sent_cols); });
    for (const std::int32_t index : others) add_tiles(program_.actions[at(index)], index);
    add_two_by_two(counted);
    add_in_turn(gathered, [&](auto index) { return groups_of(index, grid_of_action(index), order_.gathered_rows); });
    for (std::size_t a = 0; a < program_.actions.size(); ++a) {
      const Action& action = program_.actions[a];
      if (action.kind == ActionKind::step) continue;
      if (action.targets.size() > 0 && (action.sources.size() > 1 || action.finish))
        add_tiles(action, narrow(num_of(a)));
      else
        for (std::int64_t lane = 0; lane < action.lanes; ++lane) add_trigger(action, narrow(num_of(a)), lane);
    }
    for (std::size_t i = 0; i < out_.lanes.size(); ++i) out_.works.push_back(work_of(i));
  }

 private:
  DeviceWork work_of(std::size_t index) const {
    const DeviceLane &lane = out_.lanes[index], &other = out_.lanes[index ^ 1];
    const auto small = [](int value) { return static_cast<std::uint8_t>(value); };
    return {lane.limit_from,
            other.limit_from,
            static_cast<std::uint16_t>(lane.cols),
            small(lane.rows),
            small(lane.sources),
            static_cast<std::int8_t>(lane.limit),
            static_cast<std::int8_t>(other.limit),
            small(lane.product),
            small((lane.finish != 0 ? kFinishes : 0) | (lane.waits + lane.signals > 0 ? kTells : 0))};
  }

  static std::int64_t num_of(std::size_t a) { return static_cast<std::int64_t>(a); }

  // Rows that a peer sends while all others send theirs: by a ring they come one peer's after another's.
  bool arrives_with_others(const Action& action) const {
    return plan_.route == Route::direct && action.reads.size() > 0 && action.waits.size() > 0;
  }

  // Sums for a peer that has nobody's before it, of which those for other peers may be made in turn.
  bool goes_with_others(const Action& action) const {
    return order_.sent_cols > 0 && plan_.route == Route::direct && action.reads.size() == 0 &&
           action.sources.size() == 0 && action.targets.size() == 1 &&
           program_.targets(action)[0].rank != program_.rank;
  }

  // Rows for a peer, of which a run's counts leave some out.
  static bool is_counted(const Action& action) { return action.limit == Limit::peer && action.reads.size() == 0; }

  // Some tiles for each peer in turn, so that all links have something to carry from the beginning: one peer's after
  // another's, a link as long as the product ended after twice that time. What stays here comes last: while it is made,
  // the rest of the others' travels.
  void add_two_by_two(const std::vector<std::int32_t>& indices) {
    std::vector<std::int32_t> others, own;
    for (const std::int32_t index : indices) {
      const Action& action = program_.actions[at(index)];
      if (action.lanes == 0 || action.box.empty()) continue;
      check_tiles(action);
      (program_.targets(action)[0].rank == program_.rank ? own : others).push_back(index);
    }
    std::vector<std::vector<LanePairs>> groups;
    for (std::size_t i = 0; i + 1 < others.size(); i += 2)
      groups.push_back(
          groups_of_two({others[i], others[i + 1]}, {grid_of_action(others[i]), grid_of_action(others[i + 1])}));
    if (others.size() % 2 != 0)
      groups.push_back(groups_of(others.back(), grid_of_action(others.back()), kTurnRows / 2, PairRows::counted));
    add_turns(groups);
    for (const std::int32_t index : own) add_turns({groups_of(index, grid_of_action(index), 4, PairRows::counted)});
  }

  Grid grid_of_action(std::int32_t index) const {
    const Action& action = program_.actions[at(index)];
    return grid_of(action.box, action.tile);
  }

  // Some rows of each peer in turn, as they come. (One peer's after another's hid 0.4 of a link that takes twice as
  // long as the gemm: at the end of it the rows of all the others were still to be multiplied.) Or as they go.
  template <typename Groups>
  void add_in_turn(const std::vector<std::int32_t>& indices, Groups&& groups_for) {
    std::vector<std::vector<LanePairs>> groups;
    for (const std::int32_t index : indices) {
      const Action& action = program_.actions[at(index)];
      groups.emplace_back();
      if (action.lanes == 0 || action.box.empty()) continue;
      check_tiles(action);
      groups.back() = groups_for(index);
    }
    add_turns(groups);
  }

  // The first group of each, then the second, ...
  void add_turns(const std::vector<std::vector<LanePairs>>& groups) {
    for (std::size_t turn = 0, left = 1; left > 0; ++turn) {
      left = 0;
      for (const std::vector<LanePairs>& of_one : groups)
        if (turn < of_one.size()) add_pairs(of_one[turn]), ++left;
    }
  }

  void add_tiles(const Action& action, std::int32_t index) {
    if (action.lanes == 0 || action.box.empty()) return;
    check_tiles(action);
    const Grid grid = grid_of_action(index);
    for (const LanePairs& pairs : groups_of(index, grid, action.reads.size() > 0 || grid.cols <= 4 ? 4 : 8))
      add_pairs(pairs);
  }

  void check_tiles(const Action& action) const {
    const std::int64_t halves = halves_of(device_.sums);
    if (lane_box(action.box, action.tile, 0).size(0) > kCudaTileRows ||
        lane_box(action.box, action.tile, 0).size(1) * halves > kCudaTileCols)
      bad_input("plan \"{}\" makes {} in tiles beyond a GPU's {} x {}", plan_.name, plan_.rules[action.rule].name,
                kCudaTileRows, kCudaTileCols / halves);
    for (const auto& pieces : {program_.sources(action), program_.targets(action)})
      for (const Piece& piece : pieces)
        if (plan_.buffers[piece.buffer].dtype != device_.sums)
          bad_input("plan \"{}\" keeps \"{}\" as {} and y as {}; a GPU sums what is of one type", plan_.name,
                    plan_.buffers[piece.buffer].name, to_string(plan_.buffers[piece.buffer].dtype),
                    to_string(device_.sums));
  }

  // Columns of tables that one of the plan takes in what an action moves or makes.
  std::int64_t halves_in(const Action& action) const {
    const auto targets = program_.targets(action);
    return targets.empty() ? 1 : halves_of(plan_.buffers[targets[0].buffer].dtype);
  }

  void add_pairs(const LanePairs& pairs) {
    for (const auto& [first, second] : pairs) {
      const std::size_t begin = out_.lanes.size();
      for (const TileOf& tile : {first, second})
        out_.lanes.push_back(tile.lane < 0 ? DeviceLane{}
                                           : tile_of(program_.actions[at(tile.action)], tile.action, tile.lane));
      if (first.lane < 0) out_.lanes[begin] = filler(out_.lanes[begin + 1]);
      if (second.lane < 0) out_.lanes[begin + 1] = filler(out_.lanes[begin]);
    }
  }

  // Makes the tile of the other lane of its pair again, and keeps nothing of it.
  static DeviceLane filler(DeviceLane lane) {
    lane.rows = lane.cols = 0;
    lane.waits = lane.sources = lane.targets = lane.signals = 0;
    lane.lane = -1;
    return lane;
  }

  DeviceLane tile_of(const Action& action, std::int32_t index, std::int64_t lane) {
    const Box box = lane_box(action.box, action.tile, lane);
    const std::int64_t halves = halves_of(device_.sums);
    DeviceLane out = begin_lane(action, index, lane, {0, 0, box.size(0), box.size(1) * halves});
    if (action.kind == ActionKind::step && plan_.producers[0].kind == ProducerKind::copy) {
      out_.sources.push_back({program_.rank, 0, narrow(box.lo[0]), narrow(box.lo[1] * halves), 0, 0, 1});
    } else if (action.kind == ActionKind::step) {
      out.product = 1;
      if (const auto reads = program_.reads(action); !reads.empty()) {
        const Box rows = lane_rows(reads[0].box, action, lane);
        out.row = narrow(rows.lo[0]);
        out.reads = static_cast<std::int16_t>(device_.layout[at(reads[0].rank)].buffers[at(reads[0].buffer)].matrix);
      }
    }
    end_lane(&out);
    return out;
  }

  // A part of a lane, whose signals they share.
  void add_trigger(const Action& action, std::int32_t index, std::int64_t lane) {
    std::vector<Part> parts(1);
    if (action.targets.size() > 0) {
      const Box box = lane_box(action.box, action.tile, lane);
      parts = parts_of(box.size(0), box.size(1) * halves_in(action), order_.part_cols);
    }
    for (const Part& part : parts) {
      DeviceLane out = begin_lane(action, index, lane, part);
      out.parts = int_size(parts), out.part = out_.parted;
      end_lane(&out);
      out_.triggers.push_back(out);
    }
    out_.parted += parts.size() > 1;
  }

  DeviceLane begin_lane(const Action& action, std::int32_t index, std::int64_t lane, const Part& part) {
    DeviceLane out{};
    out.limit = -1, out.parts = 1;
    if (action.box.dims > 0) {
      const Box box = lane_box(action.box, action.tile, lane);
      out.row = narrow(box.lo[0] + part.row), out.col = narrow(box.lo[1] * halves_in(action) + part.col);
      out.rows = narrow(part.rows), out.cols = narrow(part.cols);
      const std::int64_t within = out.row - action.box.lo[0];  // rows of the box above it
      if (action.limit == Limit::rows) out.limit = 0, out.limit_from = out.row;
      if (action.limit == Limit::peer)
        out.limit = static_cast<std::int16_t>(1 + action.limit_peer), out.limit_from = narrow(within);
    }
    out.finish = action.finish;
    out.action = index, out.lane = narrow(lane);
    out.first_wait = int_size(out_.waits), out.first_source = int_size(out_.sources);
    out.first_target = int_size(out_.targets), out.first_signal = int_size(out_.signals);
    for (const Wait& wait : program_.of(action)) add_wait(wait, lane);
    for (const Piece& piece : program_.sources(action)) out_.sources.push_back(place_of(action, piece, lane, part));
    for (const Piece& piece : program_.targets(action)) out_.targets.push_back(place_of(action, piece, lane, part));
    add_signals(action, out, lane);
    return out;
  }

  void end_lane(DeviceLane* lane) const {
    lane->waits = static_cast<std::int16_t>(int_size(out_.waits) - lane->first_wait);
    lane->sources = static_cast<std::int16_t>(int_size(out_.sources) - lane->first_source);
    lane->targets = static_cast<std::int16_t>(int_size(out_.targets) - lane->first_target);
    lane->signals = static_cast<std::int16_t>(int_size(out_.signals) - lane->first_signal);
  }

  void add_wait(const Wait& wait, std::int64_t lane) {
    const std::int32_t counter = narrow(wait.counter + (wait.per > 0 ? lane / wait.per : 0));
    out_.waits.push_back(
        {static_cast<std::uint32_t>(counter), wait.at, expander_.counter_total(counter, program_.rank), wait.lag});
  }

  // What a lane stored to a rank is covered by its first signal there; the others add no bytes.
  void add_signals(const Action& action, const DeviceLane& lane, std::int64_t number) {
    for (const Signal& signal : program_.signals_of(action)) {
      std::int64_t bytes = 0;
      const auto first = out_.signals.begin() + lane.first_signal;
      const bool covered = std::any_of(first, out_.signals.end(), [&](const auto& s) { return s.rank == signal.rank; });
      for (const Piece& piece : program_.targets(action))
        if (piece.rank == signal.rank && piece.rank != program_.rank && !covered)
          bytes += bytes_of(lane_box(piece.box, action.tile, number), plan_.buffers[piece.buffer].dtype);
      const std::int64_t counter = signal.counter + (signal.per > 0 ? number / signal.per : 0);
      out_.signals.push_back({signal.rank, static_cast<std::uint32_t>(counter), narrow(bytes)});
    }
  }

  DevicePlace place_of(const Action& action, const Piece& piece, std::int64_t lane, const Part& part) const {
    const Box box = lane_box(piece.box, action.tile, lane);
    const BufferLayout& host = host_[at(piece.rank)].buffers[piece.buffer];
    const DeviceBuffer& buffer = device_.layout[at(piece.rank)].buffers[piece.buffer];
    const std::int64_t halves = halves_of(plan_.buffers[piece.buffer].dtype);
    DevicePlace out{
        piece.rank, buffer.matrix, narrow(box.lo[0] + part.row), narrow(box.lo[1] * halves + part.col), 0, 0, 1};
    if (buffer.matrix >= 0) return out;
    const std::int64_t element = host.element(box.lo), tile = host.tile_rows * host.tile_cols;
    if (element % tile != 0)
      bad_input("plan \"{}\" cuts a tile of \"{}\" in two at {}; a GPU keeps tiles whole", plan_.name,
                plan_.buffers[piece.buffer].name, to_string(box));
    out.offset = buffer.offset + element / tile * kImageBytes;
    out.copy_bytes = buffer.copy_bytes, out.depth = buffer.depth;
    return out;
  }

  const Plan& plan_;
  const Expander& expander_;
  const Program program_;
  const LaneOrder order_;
  const std::vector<Layout>& host_;
  const DevicePlan& device_;
  LaneTable& out_;
};

// A part of a copy begins where a strip of its image does.
void check_lane_order(const LaneOrder& order) {
  if (order.gathered_rows < 1 || order.sent_cols < 0 || order.part_cols < 1 || order.part_cols % kStripCols != 0)
    bad_input(
        "lanes cannot be made with gathered_rows {}, sent_cols {} and part_cols {}; give at least 1, at least 0, and a "
        "multiple of {}",
        order.gathered_rows, order.sent_cols, order.part_cols, kStripCols);
}

}  // namespace

std::vector<std::int32_t> device_counts(const Counts& counts, int num_ranks) {
  std::vector<std::int32_t> out(num(num_ranks) + 1, INT32_MAX);
  if (counts.rows >= 0) out[0] = narrow(counts.rows);
  for (std::size_t p = 0; p < counts.peers.size(); ++p) out[p + 1] = narrow(counts.peers[p]);
  return out;
}

DevicePlan device_plan(const Plan& plan, const Expander& expander, const LaneOrder& order) {
  check_device_plan(plan);
  check_lane_order(order);
  DevicePlan out;
  std::vector<Layout> host;
  for (int r = 0; r < plan.num_ranks; ++r) {
    host.push_back(layout_of(plan, expander, r));
    out.layout.push_back(device_layout(plan, host.back()));
  }
  out.output = out.layout[0].buffers[at(plan.buffer("y"))].matrix;
  out.sums = plan.buffers[at(plan.buffer("y"))].dtype;
  out.tables.resize(num(plan.num_ranks));
  for (int r = 0; r < plan.num_ranks; ++r) TableMaker(plan, expander, r, order, host, &out).make();
  return out;
}

}  // namespace weft
