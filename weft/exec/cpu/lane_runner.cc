#include "weft/exec/cpu/lane_runner.h"

#include <algorithm>
#include <cstdlib>
#include <numeric>

#include "weft/base/error.h"
#include "weft/base/index.h"
#include "weft/kernel/rows/epilogue.h"
#include "weft/plan/price/traffic.h"

namespace weft {
namespace {

template <typename T>
std::unique_ptr<T[], void (*)(void*)> aligned_array(std::size_t count) {
  const std::size_t bytes = std::max<std::size_t>((count * sizeof(T) + 63) / 64 * 64, 64);
  auto* data = static_cast<T*>(std::aligned_alloc(64, bytes));
  if (data == nullptr) fail(Code::no_memory, "no memory for {} bytes of scratch", bytes);
  return {data, std::free};
}

// Columns of the scratch tile: those of the action's tiles.
std::int64_t bench_ld(const Action& action) {
  return action.box.dims == 2 && action.tile[1] > 0 ? action.tile[1] : action.box.size(action.box.dims - 1);
}

// A trigger that copies this much to a rank fills no cache with it: lines need not be read to be written (ag-gemm 2048
// x 128 x 1024, 2 ranks, 8.4 MB each way: 1.10 x compute through the caches, 1.06 to 1.08 past them).
constexpr std::int64_t kPastCaches = std::int64_t{1} << 22;

// What each action copies to another rank, or, where a program has triggers alone, what all of them together do. That
// holds for relays too, which read what has just come: 64 MB along a chain of three ranks in tiles of 128, 256 and 512
// KB go at 4.7, 5.4 and 5.9 GB/s past the caches, and at 3.9, 4.1 and 4.5 through them; in 256 triggers of one tile
// each to one rank at 7.0 against 5.2.
std::vector<std::int64_t> copied_bytes(const Plan& plan, const Program& program) {
  std::vector<std::int64_t> out;
  for (const Action& action : program.actions) {
    std::int64_t most = 0;
    for (const Piece& target : program.targets(action))
      if (action.kind == ActionKind::trigger && action.lanes > 0 && target.rank != program.rank)
        most = weft::bytes_of(action.box, plan.buffers[target.buffer].dtype);
    out.push_back(most);
  }
  const auto is_step = [](const Action& action) { return action.kind == ActionKind::step; };
  if (std::none_of(program.actions.begin(), program.actions.end(), is_step)) {
    const std::int64_t all = std::accumulate(out.begin(), out.end(), std::int64_t{0});
    for (std::int64_t& bytes : out) bytes = bytes > 0 ? all : 0;
  }
  return out;
}

}  // namespace

LaneRunner::LaneRunner(const Plan& plan, const Program& program, const Memory& memory, const Channels& channels)
    : plan_(plan),
      program_(program),
      memory_(memory),
      channels_(channels),
      cards_(memory, program),
      copied_bytes_(copied_bytes(plan, program)) {
  for (std::size_t p = 0; p < plan.producers.size(); ++p)
    makers_.emplace_back(plan.producers[p], static_cast<int>(p), program);
  for (const Action& action : program.actions) {
    if (action.box.dims == 0 || action.lanes == 0) continue;
    if (action.kind != ActionKind::step && !folds_first(action)) continue;
    const Box first = lane_box(action.box, action.tile, 0);
    bench_floats_ = std::max(bench_floats_, first.volume() / first.size(first.dims - 1) * bench_ld(action));
  }
}

bool LaneRunner::goes_past_caches(const Action& action, const Place& target) const {
  return target.rank != program_.rank && copied_bytes_[&action - program_.actions.data()] >= kPastCaches;
}

// The sum is needed whole or more than once.
bool LaneRunner::folds_first(const Action& action) const {
  const bool adds = action.sources.size() + (action.kind == ActionKind::step) > 1;
  return action.finish || (adds && action.targets.size() > 1);
}

Workbench LaneRunner::workbench(Detail detail) const {
  Workbench bench;
  bench.record = Recorder(detail);
  std::size_t scratch = 0, sources = 1;
  for (const TileMaker& maker : makers_) scratch = std::max(scratch, maker.scratch_bytes());
  for (const Action& action : program_.actions) sources = std::max(sources, num(action.sources.size()) + 1);
  bench.tile = aligned_array<float>(num(bench_floats_));
  bench.scratch = aligned_array<std::byte>(scratch);
  bench.sources.reserve(sources);
  bench.places.reserve(most_pieces(program_));
  channels_.equip(&bench);
  bench.outbox.parts.reserve(sources);
  return bench;
}

void LaneRunner::begin(const Bindings* bindings, const Counts& counts, std::uint64_t run) {
  bindings_ = bindings;
  counts_ = counts;
  all_rows_ = counts.rows < 0 && counts.peers.empty();
  run_ = run;
  for (TileMaker& maker : makers_) maker.begin(run, counts.rows);
}

void LaneRunner::run(const Action& action, std::int64_t lane, Workbench& bench) const {
  const std::int64_t begin = bench.record.in_full() ? ticks() : 0;
  const auto index = num(&action - program_.actions.data());
  bench.made = 0;
  bench.run = static_cast<std::uint32_t>(run_);
  const auto act = [&](const LaneCard& card) {
    if (card.rows > 0 && !card.targets.empty()) move(action, card, bench);
    signal(action, card, bench);
  };
  if (all_rows_ && !cards_.empty())
    act(cards_.at(index, lane));
  else
    act(card_of(memory_, program_, action, lane, counts_, &bench.places));
  if (bench.record.on())
    bench.record.add({EventKind::lane, static_cast<std::int32_t>(index), static_cast<std::int32_t>(lane), bench.run,
                      begin, bench.made, ticks(), 0});
}

void LaneRunner::signal(const Action& action, const LaneCard& card, Workbench& bench) const {
  for (const Signal& signal : program_.signals_of(action)) {
    bench.sent.signals += signal.rank != program_.rank;
    channels_.to(signal.rank).signal(signal.counter + (signal.per > 0 ? card.lane / signal.per : 0), bench);
  }
  channels_.end_lane(bench);
}

// As traffic() counts them (plan/price/traffic.h).
std::int64_t LaneRunner::bytes_of(std::int64_t rows, std::int64_t cols, const Action& action, const LaneCard& card,
                                  Dtype target) {
  const bool copies = action.kind == ActionKind::trigger && !action.finish && card.sources.size() == 1;
  return rows * row_bytes(copies ? travels_as(card.sources[0].dtype, target) : target, cols);
}

void LaneRunner::move(const Action& action, const LaneCard& card, Workbench& bench) const {
  if (is_written(action)) return tell_of_written(card, bench);
  if (const GemmTarget to = made_in_place(action, card, bench); to.data != nullptr) {
    // What the target gets is the tile, or one source and the tile: made there, with one pass over memory less.
    make(action, card, to, bench);
    for (const Place& target : card.targets)
      if (target.rank != program_.rank)
        bench.sent.bytes += card.box.volume() * static_cast<std::int64_t>(sizeof(float));
    return;
  }
  for_each_strip(card.box, card.row_dim, [&](std::int64_t rows, std::int64_t cols, const auto& at) {
    bench.sources.clear();
    for (const Place& source : card.sources) bench.sources.push_back(source.strip(*bindings_, run_, at));
    if (action.kind == ActionKind::step) {
      const std::int64_t ld = bench_ld(action);
      make(action, card, {bench.tile.get(), ld}, bench);
      if (bench.record.in_full()) bench.made = ticks();
      bench.sources.push_back({bench.tile.get(), ld, Dtype::f32});
    }
    store(action, card, rows, cols, at, bench);
  });
}

// The channel stages them where they are, which counts them on a paced link.
void LaneRunner::tell_of_written(const LaneCard& card, Workbench& bench) const {
  const std::int64_t rows = card.box.size(0), cols = card.box.size(1);
  for (const Place& target : card.targets) {
    const ConstStrip place = target.strip(*bindings_, run_);
    channels_.to(target.rank).stage(rows, cols, {const_cast<void*>(place.data), place.ld, place.dtype}, bench);
    if (target.rank != program_.rank) bench.sent.bytes += rows * row_bytes(place.dtype, cols);
  }
}

// Rows that were written through a window are in their target already, if this host has it.
bool LaneRunner::is_written(const Action& action) const {
  if (action.kind != ActionKind::step) return false;
  const Producer& p = plan_.producers[action.producer];
  return p.kind == ProducerKind::window && bindings_->producers[action.producer].rows(p.x()) == nullptr &&
         channels_.to(program_.targets(action)[0].rank).in_memory();
}

// Whether the kernel can make a step's tile in its target or two and add all that is added to it.
bool LaneRunner::fits_in_place(const Action& action, const LaneCard& card) const {
  if (action.kind != ActionKind::step || action.finish) return false;
  const bool adds = makers_[action.producer].adds();
  // A tile with an addend of its own is finished before a source is added to it.
  const bool adds_source = adds && !plan_.producers[action.producer].addend;
  if (card.sources.size() > (adds_source ? 1u : 0u) || card.targets.size() > (adds ? 2u : 1u)) return false;
  const std::int64_t bytes = card.box.size(0) * card.box.size(1) * static_cast<std::int64_t>(sizeof(float));
  return std::all_of(
             card.targets.begin(), card.targets.end(),
             [&](const Place& p) { return p.dtype == Dtype::f32 && bytes <= channels_.to(p.rank).most_staged(); }) &&
         std::all_of(card.sources.begin(), card.sources.end(), [](const Place& p) { return p.dtype == Dtype::f32; });
}

// Where a step's tile is made: in its targets, or in what is staged for them. Null: on the bench.
GemmTarget LaneRunner::made_in_place(const Action& action, const LaneCard& card, Workbench& bench) const {
  GemmTarget out{};
  if (!fits_in_place(action, card)) return out;
  for (const Place& target : card.targets) {
    const ConstStrip place = target.strip(*bindings_, run_);
    const Strip to =
        channels_.to(target.rank)
            .stage(card.box.size(0), card.box.size(1), {const_cast<void*>(place.data), place.ld, place.dtype}, bench);
    (out.data == nullptr ? out.data : out.twin) = static_cast<float*>(to.data);
    (out.twin == nullptr ? out.ld : out.twin_ld) = to.ld;
  }
  for (const Place& source : card.sources) {
    const ConstStrip from = source.strip(*bindings_, run_);
    out.addend = static_cast<const float*>(from.data);
    out.addend_ld = from.ld;
  }
  return out;
}

void LaneRunner::make(const Action& action, const LaneCard& card, const GemmTarget& target, Workbench& bench) const {
  const void* rows = nullptr;
  if (!card.reads.empty()) rows = card.reads[0].strip(*bindings_, run_).data;
  const Inputs& in = bindings_->producers[action.producer];
  GemmTarget to = target;
  if (const Producer& p = plan_.producers[action.producer]; p.addend) {
    to.addend_ld = p.columns(program_.rank);
    to.addend = in.addend + card.box.lo[0] * to.addend_ld + card.box.lo[1];
  }
  makers_[action.producer].make(in, card.box, rows, to, bench.scratch.get());
}

void LaneRunner::finish(const Action& action, const LaneCard& card, float* values, std::int64_t ld) const {
  // A trigger finishes what the plan's first producer began.
  const int index = std::max(action.producer, 0);
  const Producer& p = plan_.producers[index];
  const Inputs& in = bindings_->producers[index];
  Epilogue epilogue;
  epilogue.activation = p.activation;
  if (p.bias) epilogue.bias = in.bias + card.box.lo[1];
  if (p.residual) {  // indexed as the first target, this rank's own output
    const Box box = lane_box(program_.targets(action)[0].box, action.tile, card.lane);
    epilogue.residual_ld = p.columns(program_.rank);
    epilogue.residual = in.residual + box.lo[0] * epilogue.residual_ld + box.lo[1];
  }
  apply(card.box.size(0), card.box.size(1), epilogue, values, ld);
}

void LaneRunner::store(const Action& action, const LaneCard& card, std::int64_t rows, std::int64_t cols,
                       const std::array<std::int64_t, kMaxDims>& at, Workbench& bench) const {
  if (folds_first(action)) {
    const std::int64_t ld = bench_ld(action);
    sum(rows, cols, bench.sources, {bench.tile.get(), ld, Dtype::f32});
    if (action.finish) finish(action, card, bench.tile.get(), ld);
    bench.sources.assign(1, {bench.tile.get(), ld, Dtype::f32});
  }
  // What was rounded into this rank's own memory serves the targets that follow, as it is.
  const bool rounds_once = card.targets.size() > 1 && card.targets[0].dtype != Dtype::f32 &&
                           std::all_of(card.targets.begin(), card.targets.end(),
                                       [&](const Place& p) { return p.dtype == card.targets[0].dtype; });
  for (const Place& target : card.targets) {
    const ConstStrip to = target.strip(*bindings_, run_, at);
    const Strip out{const_cast<void*>(to.data), to.ld, to.dtype};
    const bool away = target.rank != program_.rank;
    const std::int64_t bytes = away ? bytes_of(rows, cols, action, card, to.dtype) : 0;
    bench.sent.bytes += bytes;
    const bool past_caches = bench.sources.size() == 1 && goes_past_caches(action, target);
    channels_.to(target.rank).store({rows, cols, bench.sources, out, bytes, past_caches}, bench);
    if (rounds_once && target.rank == program_.rank) bench.sources.assign(1, to);
  }
}

}  // namespace weft
