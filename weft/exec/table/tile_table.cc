#include "weft/exec/table/tile_table.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "weft/base/error.h"
#include "weft/base/index.h"
#include "weft/mesh/box.h"

namespace weft {
namespace {

std::int32_t small(std::int64_t value) { return static_cast<std::int32_t>(value); }

void check_tile_producer(const Plan& plan) {
  if (plan.producers.size() != 1)
    bad_input("plan \"{}\" has {} producers; a kernel makes the tiles of one: run its plans one after another",
              plan.name, plan.producers.size());
  const Producer& p = plan.producers[0];
  if (p.has_epilogue() || p.addend)
    bad_input("plan \"{}\" has a bias, an activation, a residual or an addend; leave it out, and let the kernel do it",
              plan.name);
}

// All that is stored has one type, which is the kernel's.
Dtype check_tile_buffers(const Plan& plan) {
  const Buffer* first = nullptr;
  for (const Buffer& b : plan.buffers) {
    if (b.role == Role::input)
      bad_input("plan \"{}\" moves its input \"{}\" itself; a kernel's plan moves the tiles that it makes", plan.name,
                b.name);
    if (b.shape.size() != 2)
      bad_input("\"{}\" of plan \"{}\" has {} dimensions; tiles have two", b.name, plan.name, b.shape.size());
    if ((b.depth & (b.depth - 1)) != 0)
      bad_input("\"{}\" of plan \"{}\" has {} copies; kernels find those of 1, 2, 4, ...", b.name, plan.name, b.depth);
    if (b.dtype != Dtype::f32 && b.dtype != Dtype::bf16)
      bad_input("\"{}\" of plan \"{}\" is {}; kernels store f32 or bf16", b.name, plan.name, to_string(b.dtype));
    if (first != nullptr && first->dtype != b.dtype)
      bad_input("\"{}\" of plan \"{}\" is {} and \"{}\" {}; a kernel stores one type: give both the same", first->name,
                plan.name, to_string(first->dtype), b.name, to_string(b.dtype));
    first = &b;
  }
  if (first == nullptr) bad_input("plan \"{}\" stores nothing", plan.name);
  return first->dtype;
}

int check_tile_output(const Plan& plan) {
  int output = -1;
  for (int b = 0; b < int_size(plan.buffers); ++b)
    if (plan.buffers[at(b)].role == Role::output) {
      if (output >= 0) bad_input("plan \"{}\" has several outputs; give one", plan.name);
      output = b;
    }
  if (output < 0) bad_input("plan \"{}\" has no output", plan.name);
  if (plan.buffers[at(output)].depth != 1)
    bad_input("output \"{}\" of plan \"{}\" has {} copies; give it one", plan.buffers[at(output)].name, plan.name,
              plan.buffers[at(output)].depth);
  return output;
}

class TileTableMaker {
 public:
  TileTableMaker(const Plan& plan, const Expander& expander, int rank, TilePlan* tiles)
      : plan_(plan),
        expander_(expander),
        program_(expander.program(rank)),
        tiles_(*tiles),
        out_(tiles->tables[at(rank)]) {}

  void make() {
    for (int a = 0; a < int_size(program_.actions); ++a)
      if (program_.actions[at(a)].kind == ActionKind::step) add_step(a);
    out_.tiles = int_size(out_.lanes);
    for (const bool opening : {true, false}) {
      const int before = int_size(out_.lanes);
      for (int a = 0; a < int_size(program_.actions); ++a) {
        const Action& action = program_.actions[at(a)];
        if (action.kind != ActionKind::trigger || (action.waits.size() == 0) != opening) continue;
        check_trigger(action);
        for (std::int64_t lane = 0; lane < action.lanes; ++lane) add_lane(a, lane);
      }
      (opening ? out_.opening : out_.closing) = int_size(out_.lanes) - before;
    }
    drop_repeated_waits();
    put_off_signals();
  }

 private:
  void add_step(int index) {
    const Action& action = program_.actions[at(index)];
    if (action.lanes == 0 || action.box.empty()) return;
    if (action.reads.size() > 0)
      bad_input("{} multiplies rows that come from peers; a kernel's plan moves what it makes: gather them before",
                describe(plan_, program_, at(index)));
    if (action.tile != plan_.producers[0].tile)
      bad_input("{} makes tiles of {} x {} and the producer of {} x {}; a kernel makes one size",
                describe(plan_, program_, at(index)), action.tile[0], action.tile[1], plan_.producers[0].tile[0],
                plan_.producers[0].tile[1]);
    const Grid grid = grid_of(action.box, action.tile);
    const std::int64_t groups = tiles_.options.group_rows;
    for (std::int64_t group = 0; group < grid.rows; group += groups)
      for (std::int64_t col = 0; col < grid.cols; ++col)
        for (std::int64_t row = group; row < std::min<std::int64_t>(grid.rows, group + groups); ++row)
          add_lane(index, row * grid.cols + col);
  }

  void check_trigger(const Action& action) const {
    if (action.finish)
      bad_input("plan \"{}\" finishes sums by an epilogue in a trigger; leave it out, and let the kernel do it",
                plan_.name);
    if (action.targets.size() > 0 && action.box.dims != 2)
      bad_input("plan \"{}\" moves boxes of {} dimensions; tiles have two", plan_.name, action.box.dims);
  }

  void add_lane(int index, std::int64_t lane) {
    const Action& action = program_.actions[at(index)];
    TileLane out;
    if (action.box.dims > 0) {
      const Box box = lane_box(action.box, action.tile, lane);
      out.row = small(box.lo[0]), out.col = small(box.lo[1]);
      out.rows = small(box.size(0)), out.cols = small(box.size(1));
    }
    out.action = index, out.lane = small(lane);
    out.first_wait = int_size(out_.waits);
    for (const Wait& wait : program_.of(action)) add_wait(wait, lane);
    out.waits = int_size(out_.waits) - out.first_wait;
    out.first_source = int_size(out_.places);
    for (const Piece& piece : program_.sources(action)) out_.places.push_back(place_of(action, piece, lane));
    out.first_target = int_size(out_.places);
    out.sources = out.first_target - out.first_source;
    for (const Piece& piece : program_.targets(action)) out_.places.push_back(place_of(action, piece, lane));
    out.targets = int_size(out_.places) - out.first_target;
    out.first_signal = int_size(out_.signals);
    for (const Signal& signal : program_.signals_of(action)) add_signal(action, signal, out, lane);
    out.signals = int_size(out_.signals) - out.first_signal;
    out_.lanes.push_back(out);
  }

  void add_wait(const Wait& wait, std::int64_t lane) {
    const auto counter = small(wait.counter + (wait.per > 0 ? lane / wait.per : 0));
    out_.waits.push_back({counter, wait.at, expander_.counter_total(counter, program_.rank), wait.lag});
  }

  TilePlace place_of(const Action& action, const Piece& piece, std::int64_t lane) const {
    const BufferLayout& buffer = tiles_.layouts[at(piece.rank)].buffers[at(piece.buffer)];
    const std::int64_t element = buffer.element(lane_box(piece.box, action.tile, lane).lo);
    const auto offset = static_cast<std::int64_t>(buffer.offset) + element * size_of(buffer.dtype);
    return {piece.rank, offset, buffer.row_stride(), static_cast<std::int64_t>(buffer.copy_bytes), buffer.depth};
  }

  // What a lane stored on a rank is covered by its first signal there; the others add no bytes.
  void add_signal(const Action& action, const Signal& signal, const TileLane& lane, std::int64_t number) {
    std::int64_t bytes = 0;
    const auto first = out_.signals.begin() + lane.first_signal;
    const bool covered = std::any_of(first, out_.signals.end(), [&](const auto& s) { return s.rank == signal.rank; });
    for (const Piece& piece : program_.targets(action))
      if (piece.rank == signal.rank && piece.rank != program_.rank && !covered)
        bytes += std::int64_t{lane.rows} * lane.cols * size_of(tiles_.dtype);
    out_.signals.push_back({signal.rank, signal.counter + (signal.per > 0 ? number / signal.per : 0), bytes});
  }

  // What an earlier lane of the same program has waited for already.
  void drop_repeated_waits() {
    using Key = std::tuple<int, std::int64_t, std::int64_t>;  // program, counter, lag
    std::map<Key, std::int64_t> met;
    std::vector<TileWait> kept;
    const auto visit = [&](int begin, int count) {
      for (int i = 0; i < count; ++i) {
        TileLane& lane = out_.lanes[at(begin + i)];
        const int first = int_size(kept);
        for (int w = lane.first_wait; w < lane.first_wait + lane.waits; ++w) {
          const TileWait& wait = out_.waits[at(w)];
          const auto [known, is_new] = met.emplace(Key{i % tiles_.options.programs, wait.counter, wait.lag}, wait.at);
          if (!is_new && known->second >= wait.at) continue;
          known->second = wait.at;
          kept.push_back(wait);
        }
        lane.first_wait = first, lane.waits = int_size(kept) - first;
      }
    };
    visit(out_.tiles, out_.opening);
    visit(0, out_.tiles);
    visit(out_.tiles + out_.opening, out_.closing);
    out_.waits = std::move(kept);
  }

  void put_off_signals() {
    std::set<std::int64_t> awaited;
    for (int i = 0; i < out_.tiles + out_.opening; ++i)
      for (int w = 0; w < out_.lanes[at(i)].waits; ++w)
        awaited.insert(out_.waits[at(out_.lanes[at(i)].first_wait + w)].counter);
    std::map<std::int64_t, std::vector<std::int64_t>> late;
    std::vector<TileSignal> kept;
    for (int i = 0; i < int_size(out_.lanes); ++i) {
      TileLane& lane = out_.lanes[at(i)];
      const int first = int_size(kept);
      for (int s = lane.first_signal; s < lane.first_signal + lane.signals; ++s) {
        const TileSignal& signal = out_.signals[at(s)];
        if (i >= out_.tiles || signal.rank != program_.rank || awaited.contains(signal.counter)) {
          kept.push_back(signal);
          continue;
        }
        auto& by_program = late.try_emplace(signal.counter, num(tiles_.options.programs)).first->second;
        ++by_program[at(i % tiles_.options.programs)];
      }
      lane.first_signal = first, lane.signals = int_size(kept) - first;
    }
    out_.signals = std::move(kept);
    for (auto& [counter, by_program] : late) out_.late.push_back({counter, std::move(by_program)});
  }

  const Plan& plan_;
  const Expander& expander_;
  const Program program_;
  TilePlan& tiles_;
  TileTable& out_;
};

int first_to_signal(const TilePlan& tiles, int rank, std::int64_t counter) {
  for (int r = 0; r < int_size(tiles.tables); ++r)
    for (const TileSignal& signal : tiles.tables[at(r)].signals)
      if (signal.rank == rank && signal.counter == counter) return r;
  return rank;  // by its own late signals
}

}  // namespace

TilePlan tile_plan(const Plan& plan, const Expander& expander, const TileOptions& options) {
  check_tile_producer(plan);
  TilePlan out;
  out.options = options;
  out.tile = plan.producers[0].tile;
  out.dtype = check_tile_buffers(plan);
  out.output = check_tile_output(plan);
  if (options.group_rows < 1) bad_input("groups of {} rows of tiles; give at least 1", options.group_rows);
  if (options.programs < 1) bad_input("{} programs per rank; give at least 1", options.programs);
  for (int r = 0; r < plan.num_ranks; ++r) out.layouts.push_back(layout_of(plan, expander, r));
  out.tables.resize(num(plan.num_ranks));
  for (int r = 0; r < plan.num_ranks; ++r) TileTableMaker(plan, expander, r, &out).make();
  return out;
}

std::string describe(const Plan& plan, const Expander& expander, const TilePlan& tiles, const TileFailure& failure) {
  const TileTable& table = tiles.tables[at(failure.rank)];
  const TileLane& lane = table.lanes[at(failure.lane)];
  const TileWait& wait = table.waits[at(lane.first_wait + failure.wait)];
  const Program program = expander.program(failure.rank);
  const std::string tile = lane.rows > 0 ? fmt::format("tile {} [{}:{}, {}:{}] of ", lane.lane, lane.row,
                                                       lane.row + lane.rows, lane.col, lane.col + lane.cols)
                                         : "";
  return fmt::format("rank {} waited {:.1f} s for {} from rank {}, for {}{}: saw {} of {} updates", failure.rank,
                     failure.seconds, expander.counter_name(small(wait.counter), failure.rank),
                     first_to_signal(tiles, failure.rank, wait.counter), tile, describe(plan, program, at(lane.action)),
                     failure.seen, wait.at);
}

}  // namespace weft
