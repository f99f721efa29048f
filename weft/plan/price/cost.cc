#include "weft/plan/price/cost.h"

#include <algorithm>
#include <cmath>

#include "weft/base/index.h"
#include "weft/plan/price/traffic.h"

namespace weft::estimating {
namespace {

using verifying::Act;
using verifying::Model;
using verifying::VPiece;

double weight_bytes(const Producer& p, double cols) { return cols * p.k * bytes_per_value(p.weight); }

double pass(double read, double store) { return std::max(read, store) + kExposed * std::min(read, store); }

}  // namespace

Costs::Costs(const Model& model, const Cluster& cluster, const EstimateHint& hint)
    : m_(model), cluster_(cluster), hint_(hint) {
  std::vector<double> touched(m_.acts_of.size(), 0);
  for (int rank = 0; rank < int_size(touched); ++rank)
    for (const Producer& p : m_.plan->producers)
      if (p.is_product()) touched[at(rank)] += weight_bytes(p, static_cast<double>(p.columns(rank)));
  for (const Act& act : m_.acts) touched[act.rank] += touched_by(act);
  for (const double bytes : touched) memory_.push_back(memory_for(bytes, cluster_.cache_bytes));
  for (const Producer& p : m_.plan->producers) {
    auto& lookups = lookups_.emplace_back();
    for (std::size_t rank = 0; p.kind == ProducerKind::embedding_bag && rank < touched.size(); ++rank)
      lookups.emplace_back(p, static_cast<int>(rank), touched[rank], cluster_, hint_);
  }
  cold_read_ = hint_.weights_in_turn > 0 ? memory_for(hint_.weights_in_turn, cluster_.shared_cache_bytes).read
                                         : 1 / cluster_.read_bytes_per_s;
}

double Costs::bytes(const VPiece& piece) const {
  return static_cast<double>(bytes_of(m_.boxes[piece.box], m_.plan->buffers[piece.buffer].dtype));
}

double Costs::sent_bytes(const Act& act, const VPiece& target) const {
  const bool copies = !act.is_step && !act.finish && act.sources.size() == 1;
  if (!copies) return bytes(target);
  const Dtype source = m_.plan->buffers[m_.pieces_of(act.sources)[0].buffer].dtype;
  const Dtype dtype = travels_as(source, m_.plan->buffers[target.buffer].dtype);
  return static_cast<double>(bytes_of(m_.boxes[target.box], dtype));
}

double Costs::store_seconds(const Act& act, const VPiece& piece) const {
  const Memory& memory = memory_[act.rank];
  if (piece.rank == act.rank) return bytes(piece) * memory.write;
  const bool packed = m_.plan->buffers[piece.buffer].packing.tile_rows > 0;
  return bytes(piece) * (packed ? memory.store : std::max(memory.store, memory.write));
}

// Beside weights and tables.
double Costs::touched_by(const Act& act) const {
  double out = 0;
  for (const VPiece& p : m_.pieces_of(act.sources)) out += bytes(p);
  for (const VPiece& p : m_.pieces_of(act.targets)) out += bytes(p);
  if (!act.is_step || act.box < 0) return out;
  const Producer& p = m_.plan->producers[act.producer];
  const Box& box = m_.boxes[act.box];
  if (p.is_product()) out += static_cast<double>(box.size(0) * p.k) * 4;
  if (p.kind == ProducerKind::copy) out += static_cast<double>(box.volume()) * 4;
  if (p.addend) out += static_cast<double>(box.volume()) * 4;
  return out;
}

Costs::Memory Costs::memory_for(double touched, double cache_bytes) const {
  const double times = cache_bytes > 0 ? touched / cache_bytes : 2;
  const double beyond = std::clamp(times - 1, 0.0, 1.0);
  const auto a_byte = [&](double rate) {
    const double cached = 1 / std::max(cluster_.cache_bytes_per_s, rate);
    return cached + beyond * (1 / rate - cached);
  };
  return {a_byte(cluster_.read_bytes_per_s), a_byte(cluster_.write_bytes_per_s), a_byte(cluster_.tile_bytes_per_s),
          a_byte(cluster_.local.bytes_per_s)};
}

bool Costs::made_in_place(const Act& act) const {
  const Producer& p = m_.plan->producers[act.producer];
  return p.kind == ProducerKind::gemm && !act.finish && act.sources.size() <= (p.addend ? 0 : 1) &&
         act.targets.size() == 1;
}

double Costs::produce(const Act& act, const Memory& memory) const {
  const Producer& p = m_.plan->producers[act.producer];
  const Box& box = m_.boxes[act.box];
  const double rows = box.size(0), cols = box.size(1), k = p.k;
  // What an earlier step has read is as near as all else that the run touches.
  const double weights = weight_bytes(p, cols);
  const double first_read = weights * (first_with_weights(act) ? cold_read_ : std::min(cold_read_, memory.read));
  switch (p.kind) {
    case ProducerKind::gemv:
      if (p.m <= kFewRows) {
        const double passes = std::ceil(rows / p.tile[0]);
        return rows * cols * cluster_.row_s + first_read + (passes - 1) * weights * memory.read;
      }
      [[fallthrough]];
    case ProducerKind::gemm:
      return 2 * rows * cols * k / cluster_.flops_per_s + rows * k * 4 * memory.read + first_read;
    case ProducerKind::embedding_bag:
    case ProducerKind::copy:
      return 0;  // reading is part of the pass over memory
    case ProducerKind::window:
      return 0;  // the caller's own time; its stores are counted as the targets' are
  }
  return 0;
}

// Steps of a rank are in listed order, and those of one producer follow one another. A slice of columns has weights of
// its own; rows of another rank have not.
bool Costs::first_with_weights(const Act& act) const {
  const Range all = m_.acts_of[act.rank];
  const Box& box = m_.boxes[act.box];
  for (const Act* before = &act; before > m_.acts.data() + all.begin; --before) {
    const Act& earlier = before[-1];
    if (!earlier.is_step || earlier.box < 0) continue;
    if (earlier.producer != act.producer) return true;
    const Box& read = m_.boxes[earlier.box];
    if (read.lo[1] <= box.lo[1] && box.hi[1] <= read.hi[1]) return false;
  }
  return true;
}

// What is rounded into a rank's own memory first is copied to the others as it is (exec/cpu/lane_runner.cc).
double Costs::convert(const Act& act) const {
  constexpr double kNarrow = 2, kWiden = 1;  // passes
  const auto targets = m_.pieces_of(act.targets), sources = m_.pieces_of(act.sources);
  const auto dtype = [&](const VPiece& p) { return m_.plan->buffers[p.buffer].dtype; };
  const auto is_narrow = [&](const VPiece& p) { return dtype(p) == Dtype::bf16 || dtype(p) == Dtype::int8; };
  if (targets.empty()) return 0;
  // Rows of a window stay as the caller wrote them.
  if (act.is_step && m_.plan->producers[act.producer].kind == ProducerKind::window) return 0;
  if (!act.is_step && !act.finish && sources.size() == 1 && dtype(sources[0]) == dtype(targets[0])) return 0;
  double passes = 0;
  for (const VPiece& p : sources) passes += is_narrow(p) ? kWiden : 0;
  for (const VPiece& p : targets) {
    passes += is_narrow(p) ? kNarrow : 0;
    if (p.rank == act.rank) break;
  }
  return passes * m_.boxes[targets[0].box].volume() * 4 / cluster_.cache_bytes_per_s;
}

Cost Costs::of(const Act& act) const {
  const Memory& memory = memory_[act.rank];
  double read = 0, store = 0;
  for (const VPiece& p : m_.pieces_of(act.sources)) read += bytes(p) * memory.read;
  for (const VPiece& p : m_.pieces_of(act.targets)) store += store_seconds(act, p);
  double tiles = act.lanes * cluster_.step_s;
  for (const verifying::VSignal& g : m_.signals_of(act))
    if (g.rank != act.rank) tiles += act.lanes * cluster_.signal_s;
  const double converted = convert(act);
  if (!act.is_step || act.box < 0) return {tiles + converted + pass(read, store), 0};
  const double values = static_cast<double>(m_.boxes[act.box].volume()) * 4;
  const Producer& p = m_.plan->producers[act.producer];
  const ProducerKind kind = p.kind;
  double own_read = kind == ProducerKind::copy            ? values * memory.read
                    : kind == ProducerKind::embedding_bag ? lookups_[act.producer][act.rank].seconds(m_.boxes[act.box])
                                                          : 0;
  if (p.addend) own_read += values * memory.read;
  const double made = produce(act, memory), a_tile = act.lanes * cluster_.step_s;
  const double kept =
      kind == ProducerKind::gemm ? values * memory.tile + kExposed * own_read : pass(own_read, values * memory.write);
  const double moved =
      made_in_place(act) ? values * memory.tile + kExposed * (read + own_read) : pass(read + own_read, store);
  return {tiles + made + converted + moved, a_tile + made + kept};
}

}  // namespace weft::estimating
