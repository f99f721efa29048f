#include "weft/exec/cuda/lane_table.h"

#include <algorithm>
#include <utility>

#include "weft/base/error.h"
#include "weft/base/index.h"
#include "weft/exec/layout.h"
#include "weft/plan/price/traffic.h"

namespace weft {
namespace {

constexpr std::int64_t kAlignBytes = 1024;  // what a swizzled image asks for, and more than TMA does

std::int64_t aligned_bytes(std::int64_t bytes) { return ceil_div(bytes, kAlignBytes) * kAlignBytes; }

void check_producer(const Plan& plan) {
  if (plan.producers.size() != 1 || plan.producers[0].kind != ProducerKind::gemm)
    bad_input("plan \"{}\" is not one gemm; the CUDA executor runs those, use the CPU's for others", plan.name);
  const Producer& p = plan.producers[0];
  for (const auto& [name, dtype] : {std::pair{"x", p.x()}, std::pair{"w", p.weight}})
    if (dtype != Dtype::bf16)
      bad_input("{} of plan \"{}\" is {}; tensor cores take bf16: give the gemm .x, .weight and .y of that", name,
                plan.name, to_string(dtype));
  if (p.n % 8 != 0 || p.k % 8 != 0)
    bad_input("a GPU reads rows in pieces of 16 bytes, but n is {} and k is {}; pad them to multiples of 8", p.n, p.k);
  if (p.addend || p.has_epilogue())
    bad_input("plan \"{}\" has an addend or an epilogue; the CUDA executor has none yet", plan.name);
  if (p.tile[0] > kCudaTileRows || p.tile[1] > kCudaTileCols || p.tile[1] % 8 != 0)
    bad_input("tiles of {} x {} do not fit a GPU's; give the gemm .tile = {{{}, {}}}", p.tile[0], p.tile[1],
              kCudaTileRows, kCudaTileCols);
}

void check_buffers(const Plan& plan) {
  if (plan.num_ranks > kMaxCudaRanks)
    bad_input("plan \"{}\" has {} ranks; one GPU is shared by at most {}", plan.name, plan.num_ranks, kMaxCudaRanks);
  for (const Buffer& b : plan.buffers) {
    if (b.role == Role::input)
      bad_input("\"{}\" of plan \"{}\" is an input beside x and w; the CUDA executor takes none yet", b.name,
                plan.name);
    if (b.dtype != Dtype::bf16)
      bad_input("\"{}\" of plan \"{}\" is {}; on a GPU partial sums and outputs are bf16", b.name, plan.name,
                to_string(b.dtype));
    if (b.depth != 1) bad_input("\"{}\" has {} copies; the CUDA executor keeps one", b.name, b.depth);
  }
}

DeviceLayout layout_on_device(const Plan& plan, const Layout& host) {
  DeviceLayout out;
  for (std::size_t b = 0; b < plan.buffers.size(); ++b) {
    const BufferLayout& from = host.buffers[b];
    DeviceBuffer to;
    to.offset = out.bytes;
    to.rows = from.shape[0], to.cols = from.shape[1];
    if (from.block_rows > 0) {
      const std::int64_t tiles = ceil_div(to.rows, from.block_rows) * from.block_elements;
      out.bytes += tiles / (from.tile_rows * from.tile_cols) * kImageBytes;
    } else {
      to.pitch = to.cols * 2;
      out.bytes += aligned_bytes(to.rows * to.pitch);
    }
    out.buffers.push_back(to);
  }
  out.num_counters = host.num_counters;
  out.counters = out.bytes;
  out.stamps = out.counters + aligned_bytes(out.num_counters * 4);
  out.bytes = out.stamps + aligned_bytes(out.num_counters * 8);
  return out;
}

// The order in which the lanes of an action are made, two by two; -1: there is no tile below the last row.
std::vector<std::array<std::int64_t, 2>> pairs_of(const Grid& grid) {
  constexpr std::int64_t kGroup = 8;  // pairs of tile rows that share columns of w: G 4, 8 and 16 were alike, 8 least
  const std::int64_t rows = ceil_div(grid.rows, 2);
  std::vector<std::array<std::int64_t, 2>> out;
  for (std::int64_t group = 0; group < rows; group += kGroup)
    for (std::int64_t col = 0; col < grid.cols; ++col)
      for (std::int64_t row = group; row < std::min(rows, group + kGroup); ++row) {
        const std::int64_t upper = 2 * row * grid.cols + col;
        out.push_back({upper, 2 * row + 1 < grid.rows ? upper + grid.cols : -1});
      }
  return out;
}

class TableMaker {
 public:
  TableMaker(const Plan& plan, const Expander& expander, int rank, const std::vector<Layout>& host, DevicePlan* device)
      : plan_(plan),
        expander_(expander),
        program_(expander.program(rank)),
        host_(host),
        device_(*device),
        out_(device->tables[at(rank)]) {}

  void make() {
    for (std::size_t a = 0; a < program_.actions.size(); ++a) {
      const Action& action = program_.actions[a];
      if (action.kind == ActionKind::step)
        add_step(action, static_cast<std::int32_t>(a));
      else
        for (std::int64_t lane = 0; lane < action.lanes; ++lane)
          add_trigger(action, static_cast<std::int32_t>(a), lane);
    }
  }

 private:
  void add_step(const Action& action, std::int32_t index) {
    if (action.reads.size() > 0)
      bad_input("plan \"{}\" gathers rows before its gemm; the CUDA executor cannot yet", plan_.name);
    if (action.lanes == 0) return;
    for (const auto& pair : pairs_of(grid_of(action.box, action.tile))) {
      out_.lanes.push_back(lane_of(action, index, pair[0]));
      DeviceLane below = out_.lanes.back();
      if (pair[1] >= 0) {
        below = lane_of(action, index, pair[1]);
      } else {
        below.rows = below.cols = 0;
        below.waits = below.sources = below.targets = below.signals = 0;
        below.lane = -1;
      }
      out_.lanes.push_back(below);
    }
  }

  void add_trigger(const Action& action, std::int32_t index, std::int64_t lane) {
    if (action.targets.size() > 0)
      bad_input("plan \"{}\" has triggers that move data ({}); the CUDA executor has only steps that do", plan_.name,
                plan_.rules[action.rule].name);
    out_.triggers.push_back(lane_of(action, index, lane));
  }

  DeviceLane lane_of(const Action& action, std::int32_t index, std::int64_t lane) {
    DeviceLane out{};
    if (action.box.dims > 0) {
      const Box box = lane_box(action.box, action.tile, lane);
      out.row = static_cast<std::int32_t>(box.lo[0]), out.col = static_cast<std::int32_t>(box.lo[1]);
      out.rows = static_cast<std::int32_t>(box.size(0)), out.cols = static_cast<std::int32_t>(box.size(1));
    }
    out.action = index, out.lane = static_cast<std::int32_t>(lane);
    out.first_wait = int_size(out_.waits), out.first_source = int_size(out_.sources);
    out.first_target = int_size(out_.targets), out.first_signal = int_size(out_.signals);
    for (const Wait& wait : program_.of(action)) add_wait(wait, lane);
    for (const Piece& piece : program_.sources(action)) out_.sources.push_back(place_of(action, piece, lane));
    for (const Piece& piece : program_.targets(action)) out_.targets.push_back(place_of(action, piece, lane));
    add_signals(action, out, lane);
    out.waits = static_cast<std::int16_t>(int_size(out_.waits) - out.first_wait);
    out.sources = static_cast<std::int16_t>(int_size(out_.sources) - out.first_source);
    out.targets = static_cast<std::int16_t>(int_size(out_.targets) - out.first_target);
    out.signals = static_cast<std::int16_t>(int_size(out_.signals) - out.first_signal);
    return out;
  }

  void add_wait(const Wait& wait, std::int64_t lane) {
    const auto counter = static_cast<std::int32_t>(wait.counter + (wait.per > 0 ? lane / wait.per : 0));
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
      out_.signals.push_back({signal.rank, static_cast<std::uint32_t>(counter), static_cast<std::int32_t>(bytes)});
    }
  }

  DevicePlace place_of(const Action& action, const Piece& piece, std::int64_t lane) const {
    const Box box = lane_box(piece.box, action.tile, lane);
    const BufferLayout& host = host_[at(piece.rank)].buffers[piece.buffer];
    const DeviceBuffer& buffer = device_.layout[at(piece.rank)].buffers[piece.buffer];
    DevicePlace out{piece.rank, 0, static_cast<std::int32_t>(box.lo[0]), static_cast<std::int32_t>(box.lo[1]),
                    buffer.offset};
    if (buffer.pitch > 0) {
      if (piece.buffer != device_.output)
        bad_input("plan \"{}\" keeps \"{}\" in rows; on a GPU only its output is", plan_.name,
                  plan_.buffers[piece.buffer].name);
      return out;
    }
    const std::int64_t element = host.element(box.lo), tile = host.tile_rows * host.tile_cols;
    if (element % tile != 0)
      bad_input("plan \"{}\" cuts a tile of \"{}\" in two at {}; a GPU keeps tiles whole", plan_.name,
                plan_.buffers[piece.buffer].name, to_string(box));
    out.image = 1;
    out.offset += element / tile * kImageBytes;
    return out;
  }

  const Plan& plan_;
  const Expander& expander_;
  const Program program_;
  const std::vector<Layout>& host_;
  const DevicePlan& device_;
  LaneTable& out_;
};

}  // namespace

DevicePlan device_plan(const Plan& plan, const Expander& expander) {
  check_producer(plan);
  check_buffers(plan);
  DevicePlan out;
  std::vector<Layout> host;
  for (int r = 0; r < plan.num_ranks; ++r) {
    host.push_back(layout_of(plan, expander, r));
    out.layout.push_back(layout_on_device(plan, host.back()));
  }
  out.output = plan.buffer("y");
  out.tables.resize(num(plan.num_ranks));
  for (int r = 0; r < plan.num_ranks; ++r) TableMaker(plan, expander, r, host, &out).make();
  return out;
}

}  // namespace weft
