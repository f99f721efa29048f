#include "weft/exec/cuda/small/bag_table.h"

#include <algorithm>
#include <map>

#include <fmt/core.h>

#include "weft/base/error.h"
#include "weft/base/index.h"
#include "weft/exec/cuda/device_layout.h"
#include "weft/exec/layout.h"

namespace weft {
namespace {

void check_bag_producer(const Plan& plan) {
  if (plan.producers.size() != 1 || plan.producers[0].kind != ProducerKind::embedding_bag)
    bad_input("plan \"{}\" is not one embedding_bag; use the executor of gemms for others", plan.name);
  const Producer& p = plan.producers[0];
  if (p.dim % 4 != 0) bad_input("rows of tables have {} values; a GPU takes multiples of 4", p.dim);
  if (p.rows > INT32_MAX) bad_input("tables have {} rows; a GPU takes at most {}", p.rows, INT32_MAX);
  if (p.has_epilogue()) bad_input("plan \"{}\" has an epilogue; bags on a GPU have none yet", plan.name);
  if (p.tile[0] > kBagRows)
    bad_input("tiles have {} samples; those of a GPU have at most {}: give .tile_rows = {}", p.tile[0], kBagRows,
              kBagRows);
  if (plan.num_ranks > kMaxCudaRanks)
    bad_input("plan \"{}\" has {} ranks; one GPU is shared by at most {}", plan.name, plan.num_ranks, kMaxCudaRanks);
}

class BagTableMaker {
 public:
  BagTableMaker(const Plan& plan, const Expander& expander, BagPlan* out)
      : plan_(plan), expander_(expander), out_(*out), y_(plan.buffer("y")) {}

  void make(CudaLink link, std::int64_t crossing_bytes) {
    for (int r = 0; r < plan_.num_ranks; ++r) {
      const BufferLayout y = layout_of(plan_, expander_, r).buffers[at(y_)];
      out_.rows.push_back(y.shape[0]), out_.cols.push_back(y.shape[1]);
      DeviceLayout layout;
      layout.counters = aligned_bytes(y.shape[0] * y.shape[1] * 4);
      layout.num_counters = expander_.num_counters(r);
      out_.device.layout.push_back(layout);
    }
    out_.lanes.resize(num(plan_.num_ranks)), out_.meetings.resize(num(plan_.num_ranks));
    for (int r = 0; r < plan_.num_ranks; ++r) add_rank(r);
    if (link == CudaLink::pcie)
      for (int r = 0; r < plan_.num_ranks; ++r) turn_to_outboxes(r, crossing_bytes);
    for (DeviceLayout& layout : out_.device.layout) place_counters(&layout);
  }

 private:
  [[noreturn]] void refuse() const {
    bad_input("plan \"{}\" is neither kept nor sent straight; bags on a GPU are: use all_to_all by direct", plan_.name);
  }

  // A trigger either opens the output or waits for it to be complete.
  void add_meeting(const Program& program, const Action& action) {
    BagMeetings& meetings = out_.meetings[at(program.rank)];
    if (action.waits.size() > 0 && action.signals.size() > 0) refuse();
    for (const Signal& signal : program.signals_of(action))
      meetings.opens.push_back({signal.rank, static_cast<std::uint32_t>(signal.counter), 0});
    for (const Wait& wait : program.of(action)) {
      if (wait.lag != 0 || wait.per != 0) refuse();
      meetings.arrivals.push_back(
          {static_cast<std::uint32_t>(wait.counter), wait.at, expander_.counter_total(wait.counter, program.rank), 0});
    }
  }

  void add_rank(int rank) {
    const Program program = expander_.program(rank);
    for (int counter = 0; counter < expander_.num_counters(rank); ++counter)
      out_.meetings[at(rank)].totals.push_back(expander_.counter_total(counter, rank));
    for (std::size_t a = 0; a < program.actions.size(); ++a) {
      const Action& action = program.actions[a];
      if (action.kind != ActionKind::step) {
        if (action.targets.size() > 0) refuse();
        add_meeting(program, action);
        continue;
      }
      if (action.targets.size() != 1 || action.sources.size() > 0 || action.signals.size() > 1) refuse();
      const Piece& to = program.targets(action)[0];
      if (to.buffer != y_) refuse();
      for (std::int64_t lane = 0; lane < action.lanes && !action.box.empty(); ++lane)
        add_lane(program, static_cast<std::int32_t>(a), lane);
    }
  }

  void add_lane(const Program& program, std::int32_t index, std::int64_t number) {
    const Action& action = program.actions[at(index)];
    const Piece& to = program.targets(action)[0];
    const Box from = lane_box(action.box, action.tile, number), there = lane_box(to.box, action.tile, number);
    const std::int64_t pitch = out_.cols[at(to.rank)] * 4;
    BagLane lane{};
    lane.table = static_cast<std::int32_t>(from.lo[1] / out_.dim);
    lane.sample = static_cast<std::int32_t>(from.lo[0]), lane.rows = static_cast<std::int32_t>(from.size(0));
    lane.rank = to.rank, lane.offset = there.lo[0] * pitch + there.lo[1] * 4;
    lane.pitch = static_cast<std::int32_t>(pitch);
    lane.signal_rank = lane.open = -1, lane.action = index;
    if (action.waits.size() > 1) refuse();
    for (const Wait& wait : program.of(action)) {
      if (wait.at != 1 || wait.lag != 0 || wait.per != 0) refuse();
      lane.open = wait.counter;
    }
    for (const Signal& signal : program.signals_of(action)) {
      lane.signal_rank = signal.rank;
      lane.counter = static_cast<std::uint32_t>(signal.counter + (signal.per > 0 ? number / signal.per : 0));
    }
    out_.lanes[at(program.rank)].push_back(lane);
  }

  // The first crossings of a rank are smaller, an eighth, a fourth and a half of the others: until the first one is
  // full nothing travels. (A fourth, and each a fourth more than the one before: 3 % slower with bags of 16, as fast
  // with bags of 64.)
  static std::int64_t bytes_of(std::int64_t crossing_bytes, int place) {
    return crossing_bytes >> std::max(0, 3 - place);
  }

  // A mirror of the peer's output per peer; lanes for it become copies of the crossing that is being filled.
  void turn_to_outboxes(int rank, std::int64_t crossing_bytes) {
    DeviceLayout& layout = out_.device.layout[at(rank)];
    std::map<int, std::int64_t> outbox;
    std::size_t open = SIZE_MAX;
    int begun = 0, sample = -1;
    for (BagLane& lane : out_.lanes[at(rank)]) {
      if (lane.rank == rank) continue;
      if (!outbox.contains(lane.rank)) {
        outbox[lane.rank] = layout.counters;
        layout.counters += aligned_bytes(out_.rows[at(lane.rank)] * out_.cols[at(lane.rank)] * 4);
      }
      auto& crossings = out_.device.crossings;
      const bool is_full = open != SIZE_MAX && lane.sample != sample &&  // all tables of a sample travel together
                           crossings[open].bytes() >= bytes_of(crossing_bytes, begun - 1);
      if (open == SIZE_MAX || crossings[open].to != lane.rank || is_full)
        open = crossings.size(), crossings.push_back(begin_crossing(rank, lane)), ++begun;
      sample = lane.sample;
      Crossing& crossing = crossings[open];
      CrossingCopy copy;
      copy.from = outbox[lane.rank] + lane.offset, copy.to = lane.offset;
      copy.width = std::int64_t{out_.dim} * 4, copy.height = lane.rows, copy.pitch = lane.pitch;
      crossing.copies.push_back(copy);
      ++crossing.lanes;
      lane.rank = rank, lane.offset = copy.from;
      lane.signal_rank = rank, lane.counter = crossing.counter;
    }
    for (Crossing& crossing : out_.device.crossings)
      if (crossing.from == rank) crossing.copies = merged(std::move(crossing.copies));
  }

  Crossing begin_crossing(int rank, const BagLane& lane) {
    Crossing out;
    out.from = rank, out.to = lane.rank, out.action = lane.action;
    out.counter = static_cast<std::uint32_t>(out_.device.layout[at(rank)].num_counters++);
    out.arrived = static_cast<std::uint32_t>(out_.device.layout[at(lane.rank)].num_counters++);
    return out;
  }

  const Plan& plan_;
  const Expander& expander_;
  BagPlan& out_;
  int y_;
};

}  // namespace

BagPlan bag_plan(const Plan& plan, const Expander& expander, CudaLink link, std::int64_t crossing_bytes) {
  check_bag_producer(plan);
  BagPlan out;
  const Producer& p = plan.producers[0];
  out.dim = static_cast<int>(p.dim), out.pooling = p.pooling;
  for (int r = 0; r < plan.num_ranks; ++r) out.tables.push_back(static_cast<int>(p.columns(r) / p.dim));
  BagTableMaker(plan, expander, &out).make(link, crossing_bytes);
  return out;
}

std::string describe_bags(const BagPlan& plan, const Expander& expander, const DeviceFailure& f) {
  if (f.trigger == kWildIndex)
    return fmt::format("table {} of rank {} has no row {}; give indices below its rows", f.index, f.rank,
                       static_cast<std::int64_t>(f.waited_ns));
  if (f.trigger == kWildOffset)
    return fmt::format(
        "offset {} of table {} of rank {} is beyond its indices or the next offset; let offsets grow from 0",
        static_cast<std::int64_t>(f.waited_ns), f.index, f.rank);
  const auto counter = static_cast<std::uint32_t>(f.index);
  const auto raises = [&](std::size_t rank) {
    const auto is_it = [&](int to, std::uint32_t raised) { return to == f.rank && raised == counter; };
    const auto& lanes = plan.lanes[rank];
    const auto& opens = plan.meetings[rank].opens;
    return std::any_of(lanes.begin(), lanes.end(), [&](auto& l) { return is_it(l.signal_rank, l.counter); }) ||
           std::any_of(opens.begin(), opens.end(), [&](auto& s) { return is_it(s.rank, s.counter); });
  };
  std::size_t from = 0;
  while (from + 1 < plan.lanes.size() && !raises(from)) ++from;
  return fmt::format("rank {} waited {:.1f} s for {} from rank {}: saw {} of {} updates", f.rank,
                     static_cast<double>(f.waited_ns) * 1e-9, expander.counter_name(f.index, f.rank), from,
                     static_cast<std::int32_t>(f.seen - f.started), f.wait);
}

}  // namespace weft
