#include "weft/exec/cpu/lane_runner.h"

#include <algorithm>
#include <cstdlib>
#include <type_traits>

#include "weft/base/error.h"
#include "weft/exec/cpu/hooks.h"
#include "weft/exec/cpu/links.h"
#include "weft/exec/cpu/signals.h"
#include "weft/kernel/epilogue.h"

namespace weft {
namespace {

template <typename T>
std::unique_ptr<T[], void (*)(void*)> aligned_array(std::size_t count) {
  const std::size_t bytes = std::max<std::size_t>((count * sizeof(T) + 63) / 64 * 64, 64);
  auto* data = static_cast<T*>(std::aligned_alloc(64, bytes));
  if (data == nullptr) fail(Code::no_memory, "no memory for {} bytes of scratch", bytes);
  return {data, std::free};
}

// Columns of the scratch tile: those of the action's tiles, so that libxsmm's code for them fits.
std::int64_t bench_ld(const Action& action) {
  return action.box.dims == 2 && action.tile[1] > 0 ? action.tile[1] : action.box.size(action.box.dims - 1);
}

// A trigger that copies this much to a rank fills no cache with it: lines need not be read to be written (ag-gemm 2048 x
// 128 x 1024, 2 ranks, 8.4 MB each way: 1.10 x compute through the caches, 1.06 to 1.08 past them).
constexpr std::int64_t kPastCaches = std::int64_t{1} << 22;

bool goes_past_caches(const Action& action, const Piece& target, int rank, Dtype dtype) {
  return action.kind == ActionKind::trigger && target.rank != rank &&
         target.box.volume() * static_cast<std::int64_t>(size_of(dtype)) >= kPastCaches;
}

}  // namespace

LaneRunner::LaneRunner(const Plan& plan, const Program& program, const Memory& memory, const Ways& ways)
    : plan_(plan),
      program_(program),
      memory_(memory),
      signals_(ways.signals),
      remote_(ways.remote),
      links_(ways.links),
      hooks_(ways.hooks) {
  for (std::size_t p = 0; p < plan.producers.size(); ++p)
    makers_.emplace_back(plan.producers[p], static_cast<int>(p), program);
  for (const Action& action : program.actions) {
    if (action.box.dims == 0 || action.lanes == 0) continue;
    if (action.kind != ActionKind::step && !folds_first(action)) continue;
    const Box first = lane_box(action.box, action.tile, 0);
    bench_floats_ = std::max(bench_floats_, (first.dims > 1 ? first.size(first.dims - 2) : 1) * bench_ld(action));
  }
}

// The sum is needed whole or more than once.
bool LaneRunner::folds_first(const Action& action) const {
  return action.finish || hooks_ != nullptr ||
         (action.targets.size() > 1 && action.sources.size() + (action.kind == ActionKind::step) > 1);
}

Workbench LaneRunner::workbench(Detail detail) const {
  Workbench bench;
  bench.record = Recorder(detail);
  std::size_t scratch = 0, sources = 1;
  for (const TileMaker& maker : makers_) scratch = std::max(scratch, maker.scratch_bytes());
  for (const Action& action : program_.actions)
    sources = std::max(sources, static_cast<std::size_t>(action.sources.size()) + 1);
  bench.tile = aligned_array<float>(static_cast<std::size_t>(bench_floats_));
  bench.scratch = aligned_array<std::byte>(scratch);
  bench.sources.reserve(sources);
  bench.parts.reserve(sources);
  if (remote_ != nullptr) bench.outbox = remote_->outbox();
  return bench;
}

void LaneRunner::begin(const Bindings* bindings, const Counts& counts, std::uint32_t run) {
  bindings_ = bindings;
  counts_ = counts;
  run_ = run;
  for (TileMaker& maker : makers_) maker.begin(run);
}

Box LaneRunner::shortened(const Box& piece, const Action& action, const Tile& tile) const {
  Box out = lane_box(piece, action.tile, tile.lane);
  out.hi[0] = std::min(out.hi[0], out.lo[0] + tile.rows);
  return out;
}

void LaneRunner::run(const Action& action, std::int64_t lane, Workbench& bench) const {
  Tile tile{{}, lane, 0};
  const std::int64_t begin = bench.record.in_full() ? ticks() : 0;
  bench.made = 0;
  if (action.box.dims > 0) {
    tile.box = lane_box(action.box, action.tile, lane);
    const std::int64_t limit = action.box.lo[0] + rows_that_count(action, counts_);
    tile.box.hi[0] = std::clamp(limit, tile.box.lo[0], tile.box.hi[0]);
    tile.rows = tile.box.size(0);
    if (tile.rows > 0 && action.targets.size() > 0) move(action, tile, bench);
  }
  signal(action, tile, bench);
  if (bench.record.on())
    bench.record.add({EventKind::lane, static_cast<std::int32_t>(&action - program_.actions.data()),
                      static_cast<std::int32_t>(lane), run_, begin, bench.made, ticks(), 0});
  if (hooks_ != nullptr) hooks_->end_lane(program_.rank);
}

void LaneRunner::signal(const Action& action, const Tile& tile, Workbench& bench) const {
  const auto signals = program_.signals_of(action);
  for (const Signal& signal : signals) {
    const std::int64_t id = signal.counter + (signal.per > 0 ? tile.lane / signal.per : 0);
    bench.sent.signals += signal.rank != program_.rank;
    if (hooks_ != nullptr) {
      auto* counters =
          reinterpret_cast<std::uint32_t*>(memory_.base[signal.rank] + memory_.layouts[signal.rank].counters);
      hooks_->signal(program_.rank, signal.rank, counters + id);
    } else if (is_remote(signal.rank)) {
      remote_->raise(signal.rank, id, bench.outbox);
    } else if (links_ != nullptr && links_->paces(signal.rank)) {
      // The first signal to a rank covers the lane's bytes there; any other to the same rank travels behind it.
      const bool first = std::none_of(signals.data(), &signal, [&](const Signal& s) { return s.rank == signal.rank; });
      const std::int64_t bytes = first ? bytes_to(signal.rank, action, tile) : 0;
      const Passage passage = links_->signal(signal.rank, id, bytes);
      if (bench.record.in_full() && bytes > 0)
        bench.record.add({EventKind::link, -1, signal.rank, run_, passage.begin_ns, 0, passage.end_ns, bytes});
    } else {
      signals_->raise(signal.rank, id);
    }
  }
  if (remote_ != nullptr) remote_->post(bench.outbox);
}

std::int64_t LaneRunner::bytes_to(int rank, const Action& action, const Tile& tile) const {
  std::int64_t bytes = 0;
  if (tile.rows == 0) return bytes;
  for (const Piece& target : program_.targets(action))
    if (target.rank == rank)
      bytes += shortened(target.box, action, tile).volume() *
               static_cast<std::int64_t>(size_of(plan_.buffers[target.buffer].dtype));
  return bytes;
}

const std::byte* LaneRunner::input(const Piece& piece) const {
  if (memory_.layouts[piece.rank].buffers[piece.buffer].role == Role::input)
    return static_cast<const std::byte*>(bindings_->buffers[piece.buffer]);
  return memory_.copy(piece.rank, piece.buffer, run_);
}

ConstStrip LaneRunner::strip(const Piece& piece, const Box& box, const std::array<std::int64_t, kMaxDims>& at) const {
  const BufferLayout& layout = memory_.layouts[piece.rank].buffers[piece.buffer];
  const auto bytes = static_cast<std::int64_t>(size_of(layout.dtype));
  return {input(piece) + layout.element(corner(box, at)) * bytes, layout.row_stride(), layout.dtype};
}

void LaneRunner::move(const Action& action, const Tile& tile, Workbench& bench) const {
  if (const GemmTarget to = made_in_place(action, tile, bench); to.data != nullptr) {
    // What the target gets is the tile, or one source and the tile: made there, with one pass over memory less.
    if (!is_written(action)) make(action, tile, to, bench);
    for (const Piece& target : program_.targets(action))
      if (target.rank != program_.rank)
        bench.sent.bytes += tile.box.volume() * static_cast<std::int64_t>(sizeof(float));
    return;
  }
  for_each_strip(tile.box, [&](std::int64_t rows, std::int64_t cols, const std::array<std::int64_t, kMaxDims>& at) {
    bench.sources.clear();
    for (const Piece& source : program_.sources(action))
      bench.sources.push_back(strip(source, shortened(source.box, action, tile), at));
    if (action.kind == ActionKind::step) {
      const std::int64_t ld = bench_ld(action);
      make(action, tile, {bench.tile.get(), ld}, bench);
      if (bench.record.in_full()) bench.made = ticks();
      bench.sources.push_back({bench.tile.get(), ld, Dtype::f32});
    }
    store(action, tile, rows, cols, at, bench);
  });
}

// Rows that were written through a window are in their target already, if this host has it.
bool LaneRunner::is_written(const Action& action) const {
  return plan_.producers[action.producer].kind == ProducerKind::window &&
         bindings_->producers[action.producer].x == nullptr && !is_remote(program_.targets(action)[0].rank);
}

// Where a step's tile may be made: in its target or two, if no more is added than the kernel can add.
GemmTarget LaneRunner::made_in_place(const Action& action, const Tile& tile, Workbench& bench) const {
  constexpr GemmTarget kNowhere{nullptr, 0};
  if (action.kind != ActionKind::step || action.finish || hooks_ != nullptr) return kNowhere;
  const auto sources = program_.sources(action), targets = program_.targets(action);
  const bool adds = makers_[action.producer].adds();
  if (sources.size() > (adds ? 1u : 0u) || targets.size() > (adds ? 2u : 1u)) return kNowhere;
  const auto place = [&](const Piece& piece) { return strip(piece, shortened(piece.box, action, tile), {}); };
  const auto f32 = [&](const Piece& piece) {
    return memory_.layouts[piece.rank].buffers[piece.buffer].dtype == Dtype::f32;
  };
  if (!std::all_of(targets.begin(), targets.end(), f32) || !std::all_of(sources.begin(), sources.end(), f32))
    return kNowhere;
  const std::int64_t rows = tile.box.size(0), cols = tile.box.size(1);
  for (const Piece& target : targets)
    if (is_remote(target.rank) && rows * cols * static_cast<std::int64_t>(sizeof(float)) > remote_->most_bytes())
      return kNowhere;
  GemmTarget out{};
  for (const Piece& target : targets) {
    ConstStrip to = place(target);
    if (is_remote(target.rank)) {
      const Strip staged =
          remote_->stage(target.rank, rows, cols, {const_cast<void*>(to.data), to.ld, to.dtype}, bench.outbox);
      to = {staged.data, staged.ld, staged.dtype};
    }
    (out.data == nullptr ? out.data : out.twin) = static_cast<float*>(const_cast<void*>(to.data));
    (out.twin == nullptr ? out.ld : out.twin_ld) = to.ld;
  }
  for (const Piece& source : sources) {
    const ConstStrip from = place(source);
    out.addend = static_cast<const float*>(from.data);
    out.addend_ld = from.ld;
  }
  return out;
}

void LaneRunner::make(const Action& action, const Tile& tile, const GemmTarget& target, Workbench& bench) const {
  const float* rows = nullptr;
  if (const auto reads = program_.reads(action); !reads.empty()) {
    const Box box = lane_rows(reads[0].box, action, tile.lane);
    rows = static_cast<const float*>(strip(reads[0], box, {}).data);
  }
  makers_[action.producer].make(bindings_->producers[action.producer], tile.box, rows, target, bench.scratch.get());
}

void LaneRunner::finish(const Action& action, const Tile& tile, float* values, std::int64_t ld) const {
  // A trigger finishes what the plan's first producer began.
  const int index = std::max(action.producer, 0);
  const Producer& p = plan_.producers[index];
  const Inputs& in = bindings_->producers[index];
  const Piece& first = program_.targets(action)[0];
  Epilogue epilogue;
  epilogue.activation = p.activation;
  if (p.bias) epilogue.bias = in.bias + tile.box.lo[1];
  if (p.residual) {  // indexed as the first target, this rank's own output
    const Box box = shortened(first.box, action, tile);
    epilogue.residual_ld = p.columns(program_.rank);
    epilogue.residual = in.residual + box.lo[0] * epilogue.residual_ld + box.lo[1];
  }
  apply(tile.box.size(0), tile.box.size(1), epilogue, values, ld);
}

void LaneRunner::store(const Action& action, const Tile& tile, std::int64_t rows, std::int64_t cols,
                       const std::array<std::int64_t, kMaxDims>& at, Workbench& bench) const {
  const auto targets = program_.targets(action);
  if (folds_first(action)) {
    const std::int64_t ld = bench_ld(action);
    sum(rows, cols, bench.sources, {bench.tile.get(), ld, Dtype::f32});
    if (action.finish) finish(action, tile, bench.tile.get(), ld);
    bench.sources.assign(1, {bench.tile.get(), ld, Dtype::f32});
  }
  for (const Piece& target : targets) {
    const ConstStrip to = strip(target, shortened(target.box, action, tile), at);
    const Strip out{const_cast<void*>(to.data), to.ld, to.dtype};
    if (target.rank != program_.rank) bench.sent.bytes += rows * cols * static_cast<std::int64_t>(size_of(to.dtype));
    if (hooks_ != nullptr)
      hooks_->put(program_.rank, target.rank, rows, cols, bench.sources[0], out);
    else if (is_remote(target.rank))
      send(target.rank, rows, cols, out, bench);
    else if (bench.sources.size() == 1 && goes_past_caches(action, target, program_.rank, to.dtype))
      copy_past_caches(rows, cols, bench.sources[0], out);
    else if (bench.sources.size() == 1)
      copy(rows, cols, bench.sources[0], out);
    else
      sum(rows, cols, bench.sources, out);
  }
}

// To a rank of another host, in pieces that can be staged: some rows, or a part of one.
void LaneRunner::send(int rank, std::int64_t rows, std::int64_t cols, const Strip& to, Workbench& bench) const {
  const auto part = [](const auto& whole, std::int64_t row, std::int64_t col) {
    auto out = whole;
    using Byte =
        std::conditional_t<std::is_const_v<std::remove_pointer_t<decltype(out.data)>>, const std::byte, std::byte>;
    out.data =
        static_cast<Byte*>(whole.data) + (row * whole.ld + col) * static_cast<std::int64_t>(size_of(whole.dtype));
    return out;
  };
  const std::int64_t size = static_cast<std::int64_t>(size_of(to.dtype));
  const std::int64_t wide = std::min(cols, remote_->most_bytes() / size);
  const std::int64_t high = std::min(rows, std::max<std::int64_t>(remote_->most_bytes() / (wide * size), 1));
  for (std::int64_t row = 0; row < rows; row += high)
    for (std::int64_t col = 0; col < cols; col += wide) {
      const std::int64_t m = std::min(high, rows - row), n = std::min(wide, cols - col);
      const Strip staged = remote_->stage(rank, m, n, part(to, row, col), bench.outbox);
      bench.parts.clear();
      for (const ConstStrip& source : bench.sources) bench.parts.push_back(part(source, row, col));
      if (bench.parts.size() == 1)
        copy(m, n, bench.parts[0], staged);
      else
        sum(m, n, bench.parts, staged);
    }
}

}  // namespace weft
