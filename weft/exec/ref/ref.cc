#include "weft/exec/ref/ref.h"

#include <algorithm>
#include <cassert>
#include <random>

#include "weft/base/error.h"
#include "weft/base/index.h"
#include "weft/exec/layout.h"
#include "weft/kernel/quant/quant_rows.h"
#include "weft/kernel/reference.h"
#include "weft/plan/assumptions.h"
#include "weft/plan/program.h"

namespace weft {
namespace {

// A lane that is still to run.
struct Pending {
  std::size_t action;
  std::int64_t lane;
};

struct Rank {
  Program program;
  std::vector<std::vector<std::vector<float>>> memory;  // [buffer][copy], row-major whatever the packing
  std::vector<std::vector<std::vector<std::int64_t>>>
      integers;  // the same of buffers that hold some; they are only moved
  std::vector<std::vector<std::int64_t>> shapes;
  std::vector<std::uint64_t> counters, totals;
  std::vector<Pending> steps, triggers;  // of the run under way
  std::size_t next_step = 0;
};

bool is_float(Dtype dtype) { return dtype == Dtype::f32 || dtype == Dtype::bf16 || dtype == Dtype::int8; }

float float_at(const void* data, Dtype dtype, std::int64_t i) {
  if (dtype == Dtype::f16) return to_float(static_cast<const f16*>(data)[i]);
  return dtype == Dtype::bf16 ? to_float(static_cast<const bf16*>(data)[i]) : static_cast<const float*>(data)[i];
}

std::int64_t integer_at(const void* data, Dtype dtype, std::int64_t i) {
  switch (dtype) {
    case Dtype::i32:
      return static_cast<const std::int32_t*>(data)[i];
    case Dtype::i64:
      return static_cast<const std::int64_t*>(data)[i];
    default:
      return static_cast<const std::uint8_t*>(data)[i];
  }
}

// Rows of `cols` values as a buffer of that dtype keeps them.
std::vector<float> rounded(std::vector<float> values, std::int64_t cols, Dtype dtype) {
  if (dtype == Dtype::bf16)
    for (float& value : values) value = to_float(to_bf16(value));
  if (dtype != Dtype::int8) return values;
  std::vector<std::byte> row(num(row_bytes(dtype, cols)));
  for (auto at = values.begin(); at != values.end(); at += cols) {
    quantise_naive(cols, &*at, row.data());
    for (std::int64_t j = 0; j < cols; ++j) at[j] = element_at({row.data(), cols, dtype}, 0, j);
  }
  return values;
}

}  // namespace

struct RefExecutor::Impl {
  Plan plan;
  Expander expander;
  std::vector<Rank> ranks;
  std::int64_t runs = 0;
  std::uint64_t seed;
  std::mt19937_64 random;
  std::span<const Bindings> bindings;
  std::span<const Counts> counts;

  Impl(const Plan& plan_in, std::uint64_t seed_in) : plan(plan_in), expander(plan), seed(seed_in), random(seed_in) {}

  void open();
  bool met(const Rank& rank, const Pending& lane) const;
  bool advance(Rank& rank);
  bool fire(Rank& rank);
  void run_lane(Rank& rank, const Pending& pending);
  void move_floats(Rank& rank, const Action& action, std::int64_t lane);
  float source_at(const Rank& rank, const Piece& source, const Box& box, std::int64_t i);
  void make_tile(const Rank& rank, const Action& action, const Box& tile, std::int64_t lane,
                 std::vector<float>* out) const;
  void add_addend(const Rank& rank, const Action& action, const Box& tile, std::vector<float>* made) const;
  void add_epilogue(const Rank& rank, const Action& action, const Box& tile, const Box& first_target,
                    std::vector<float>* values) const;
  float& element(int rank, int buffer, const Box& box, std::int64_t i);
  bool is_copy(const Rank& rank, const Action& action, Dtype target) const;
  bool moves_integers(const Rank& rank, const Action& action) const;
  void move_integers(Rank& rank, const Action& action, std::int64_t lane);
  Box shortened(const Rank& rank, const Action& action, const Box& piece, std::int64_t lane) const;
  std::string stuck() const;
};

namespace {

// Element i, counted row-major, of a box.
std::array<std::int64_t, kMaxDims> nth(const Box& box, std::int64_t i) {
  std::array<std::int64_t, kMaxDims> at{};
  for (int d = box.dims - 1; d >= 0; --d) {
    at[d] = box.lo[d] + i % box.size(d);
    i /= box.size(d);
  }
  return at;
}

std::int64_t offset(const std::vector<std::int64_t>& shape, const std::array<std::int64_t, kMaxDims>& at) {
  std::int64_t out = 0;
  for (std::size_t d = 0; d < shape.size(); ++d) out = out * shape[d] + at[d];
  return out;
}

}  // namespace

RefExecutor::RefExecutor(const Plan& plan, std::uint64_t seed) : impl_(std::make_unique<Impl>(plan, seed)) {
  for (int r = 0; r < plan.num_ranks; ++r) {
    Rank rank;
    rank.program = impl_->expander.program(r);
    assert(assumptions_hold(plan, impl_->expander, rank.program));  // verify() has proved it
    for (int b = 0; b < int_size(plan.buffers); ++b) {
      rank.shapes.push_back(impl_->expander.shape(b, r));
      std::size_t elements = 1;
      for (const std::int64_t size : rank.shapes.back()) elements *= num(size);
      const bool floats = is_float(plan.buffers[at(b)].dtype);
      rank.memory.emplace_back(plan.buffers[at(b)].depth, std::vector<float>(floats ? elements : 0, 0.0f));
      rank.integers.emplace_back(plan.buffers[at(b)].depth, std::vector<std::int64_t>(floats ? 0 : elements, 0));
    }
    for (std::int64_t c = 0; c < impl_->expander.num_counters(r); ++c) {
      rank.counters.push_back(0);
      rank.totals.push_back(impl_->expander.counter_total(static_cast<int>(c), r));
    }
    impl_->ranks.push_back(std::move(rank));
  }
}

RefExecutor::~RefExecutor() = default;

void RefExecutor::Impl::open() {
  for (Rank& rank : ranks) {
    rank.steps.clear();
    rank.triggers.clear();
    rank.next_step = 0;
    for (std::size_t a = 0; a < rank.program.actions.size(); ++a) {
      const Action& action = rank.program.actions[a];
      for (std::int64_t lane = 0; lane < action.lanes; ++lane)
        (action.kind == ActionKind::step ? rank.steps : rank.triggers).push_back({a, lane});
    }
  }
}

bool RefExecutor::Impl::met(const Rank& rank, const Pending& pending) const {
  const Action& action = rank.program.actions[pending.action];
  for (const Wait& w : rank.program.of(action)) {
    const std::int64_t counter = w.counter + (w.per > 0 ? pending.lane / w.per : 0);
    const std::int64_t at = (runs - w.lag) * static_cast<std::int64_t>(rank.totals[counter]) + w.at;
    if (runs >= w.lag && static_cast<std::int64_t>(rank.counters[counter]) < at) return false;
  }
  return true;
}

bool RefExecutor::Impl::advance(Rank& rank) {
  if (rank.next_step < rank.steps.size() && met(rank, rank.steps[rank.next_step])) {
    run_lane(rank, rank.steps[rank.next_step++]);
    return true;
  }
  return fire(rank);
}

bool RefExecutor::Impl::fire(Rank& rank) {
  const std::size_t count = rank.triggers.size();
  const std::size_t start = seed != 0 && count > 0 ? random() % count : 0;
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t at = (start + i) % count;
    if (!met(rank, rank.triggers[at])) continue;
    const Pending pending = rank.triggers[at];
    rank.triggers.erase(rank.triggers.begin() + at);
    run_lane(rank, pending);
    return true;
  }
  return false;
}

float& RefExecutor::Impl::element(int r, int buffer, const Box& box, std::int64_t i) {
  auto& copies = ranks[r].memory[buffer];
  return copies[runs % std::ssize(copies)][offset(ranks[r].shapes[buffer], nth(box, i))];
}

// Of what is rounded already: the bytes of int8, rounded again, could be others.
bool RefExecutor::Impl::is_copy(const Rank& rank, const Action& action, Dtype target) const {
  const auto sources = rank.program.sources(action);
  return action.kind == ActionKind::trigger && !action.finish && sources.size() == 1 &&
         plan.buffers[sources[0].buffer].dtype == target;
}

bool RefExecutor::Impl::moves_integers(const Rank& rank, const Action& action) const {
  const auto targets = rank.program.targets(action);
  return !targets.empty() && !is_float(plan.buffers[targets[0].buffer].dtype);
}

// Integers are moved as they are: one source, and all of one dtype.
void RefExecutor::Impl::move_integers(Rank& rank, const Action& action, std::int64_t lane) {
  const Piece& source = rank.program.sources(action)[0];
  const Buffer& buffer = plan.buffers[source.buffer];
  const Box from = shortened(rank, action, source.box, lane);
  for (std::int64_t i = 0; i < from.volume(); ++i) {
    const std::int64_t at = offset(rank.shapes[source.buffer], nth(from, i));
    const auto& copies = rank.integers[source.buffer];
    const std::int64_t value = buffer.role == Role::input
                                   ? integer_at(bindings[rank.program.rank].buffers[source.buffer], buffer.dtype, at)
                                   : copies[runs % copies.size()][at];
    for (const Piece& target : rank.program.targets(action)) {
      auto& there = ranks[target.rank].integers[target.buffer];
      const Box to = shortened(rank, action, target.box, lane);
      there[runs % there.size()][offset(ranks[target.rank].shapes[target.buffer], nth(to, i))] = value;
    }
  }
}

void RefExecutor::Impl::run_lane(Rank& rank, const Pending& pending) {
  const Action& action = rank.program.actions[pending.action];
  if (moves_integers(rank, action))
    move_integers(rank, action, pending.lane);
  else if (action.targets.size() > 0)
    move_floats(rank, action, pending.lane);
  for (const Signal& signal : rank.program.signals_of(action))
    ++ranks[signal.rank].counters[signal.counter + (signal.per > 0 ? pending.lane / signal.per : 0)];
}

float RefExecutor::Impl::source_at(const Rank& rank, const Piece& source, const Box& box, std::int64_t i) {
  const Buffer& buffer = plan.buffers[source.buffer];
  if (buffer.role != Role::input) return element(source.rank, source.buffer, box, i);
  return float_at(bindings[rank.program.rank].buffers[source.buffer], buffer.dtype,
                  offset(rank.shapes[source.buffer], nth(box, i)));
}

// The part of a piece that a lane touches. Rows that count are a prefix of the action's box; a lane beyond them stores
// nothing.
Box RefExecutor::Impl::shortened(const Rank& rank, const Action& action, const Box& piece, std::int64_t lane) const {
  const Counts none;
  const std::int64_t rows = rows_that_count(action, counts.empty() ? none : counts[rank.program.rank]);
  Box out = lane_box(piece, action.tile, lane);
  out.hi[0] = std::clamp(piece.lo[0] + rows, out.lo[0], out.hi[0]);
  return out;
}

void RefExecutor::Impl::move_floats(Rank& rank, const Action& action, std::int64_t lane) {
  const auto shortened = [&](const Box& piece) { return this->shortened(rank, action, piece, lane); };
  const Box tile = shortened(action.box);
  const std::int64_t count = tile.volume();
  std::vector<float> values(num(count), 0.0f);
  bool begun = false;
  const auto add = [&](std::int64_t i, float next) { values[at(i)] = begun ? values[at(i)] + next : next; };
  for (const Piece& source : rank.program.sources(action)) {
    const Box box = shortened(source.box);
    for (std::int64_t i = 0; i < count; ++i) add(i, source_at(rank, source, box, i));
    begun = true;
  }
  if (action.kind == ActionKind::step && count > 0) {
    std::vector<float> made(values.size());
    make_tile(rank, action, tile, lane, &made);
    add_addend(rank, action, tile, &made);
    for (std::int64_t i = 0; i < count; ++i) add(i, made[at(i)]);
  }
  const auto targets = rank.program.targets(action);
  if (action.finish && count > 0) add_epilogue(rank, action, tile, shortened(targets[0].box), &values);
  for (const Piece& target : targets) {
    const Box box = shortened(target.box);
    const Dtype dtype = plan.buffers[target.buffer].dtype;
    const std::vector<float> kept = is_copy(rank, action, dtype) ? values : rounded(values, tile.size(1), dtype);
    for (std::int64_t i = 0; i < count; ++i) element(target.rank, target.buffer, box, i) = kept[at(i)];
  }
}

void RefExecutor::Impl::make_tile(const Rank& rank, const Action& action, const Box& tile, std::int64_t lane,
                                  std::vector<float>* out) const {
  const Producer& p = plan.producers[action.producer];
  const Inputs& in = bindings[rank.program.rank].producers[action.producer];
  const std::int64_t rows = tile.size(0), cols = tile.size(1), n = p.columns(rank.program.rank);
  const std::int64_t width = p.k > 0 ? p.k : n;  // of a row of x
  const float* x = in.x == nullptr ? nullptr : in.x + tile.lo[0] * width;
  std::vector<float> wide;  // rows of bf16
  const auto widen = [&](const bf16* from) {
    for (std::int64_t i = 0; i < rows * width; ++i) wide.push_back(to_float(from[i]));
    return wide.data();
  };
  const auto reads = rank.program.reads(action);
  if (reads.empty() && p.x() == Dtype::bf16 && in.narrow_x != nullptr) x = widen(in.narrow_x + tile.lo[0] * width);
  if (!reads.empty()) {
    const Box box = lane_rows(reads[0].box, action, lane);
    const auto& memory = rank.memory[reads[0].buffer];
    const bool given = plan.buffers[reads[0].buffer].role == Role::input;
    const void* base =
        given ? bindings[rank.program.rank].buffers[reads[0].buffer] : memory[runs % std::ssize(memory)].data();
    x = given && p.x() == Dtype::bf16 ? widen(static_cast<const bf16*>(base) + box.lo[0] * p.k)
                                      : static_cast<const float*>(base) + box.lo[0] * p.k;
  }
  switch (p.kind) {
    case ProducerKind::gemm: {
      if (p.layout() == WeightLayout::nk) {
        std::vector<float> turned;  // (k, cols)
        for (std::int64_t k = 0; k < p.k; ++k)
          for (std::int64_t j = tile.lo[1]; j < tile.hi[1]; ++j)
            turned.push_back(element_at({in.w, p.k, p.weight}, j, k));
        return gemm_naive(rows, cols, p.k, {x, p.k, Dtype::f32}, {turned.data(), cols, Dtype::f32}, out->data(), cols);
      }
      const auto* w = static_cast<const std::byte*>(in.w) + tile.lo[1] * size_of(p.weight);
      return gemm_naive(rows, cols, p.k, {x, p.k, Dtype::f32}, {w, n, p.weight}, out->data(), cols);
    }
    case ProducerKind::gemv:
      if (size_of(p.weight) == 0) {
        std::vector<double> wide(out->size());
        const auto* row = static_cast<const std::byte*>(in.w) + tile.lo[1] * row_bytes(p.weight, in.w_ld);
        quant_matmul_naive(rows, {row, p.weight, cols, p.k, in.w_first, in.w_ld}, x, p.k, wide.data(), cols);
        std::transform(wide.begin(), wide.end(), out->begin(), [](double v) { return static_cast<float>(v); });
        return;
      }
      for (std::int64_t i = 0; i < rows * cols; ++i) {
        const ConstStrip w{in.w, p.k, p.weight};
        double sum = 0;
        for (std::int64_t k = 0; k < p.k; ++k)
          sum += static_cast<double>(element_at(w, tile.lo[1] + i % cols, k)) * x[i / cols * p.k + k];
        (*out)[at(i)] = static_cast<float>(sum);
      }
      return;
    case ProducerKind::embedding_bag: {
      const std::size_t table = num(tile.lo[1] / p.dim);
      std::vector<double> pooled(out->size());
      embedding_bag_f64({in.tables[table], p.rows, p.dim}, {in.indices[table], in.offsets[table]}, p.pooling,
                        tile.lo[0], tile.hi[0], pooled.data(), p.dim);
      std::transform(pooled.begin(), pooled.end(), out->begin(), [](double v) { return static_cast<float>(v); });
      return;
    }
    case ProducerKind::copy:
    case ProducerKind::window:
      for (std::int64_t i = 0; i < rows * cols; ++i) (*out)[at(i)] = x[i / cols * n + tile.lo[1] + i % cols];
  }
}

void RefExecutor::Impl::add_addend(const Rank& rank, const Action& action, const Box& tile,
                                   std::vector<float>* made) const {
  const Producer& p = plan.producers[action.producer];
  if (!p.addend) return;
  const float* addend = bindings[rank.program.rank].producers[action.producer].addend;
  for (std::int64_t i = 0; i < tile.volume(); ++i) {
    const std::int64_t row = tile.lo[0] + i / tile.size(1), col = tile.lo[1] + i % tile.size(1);
    float& value = (*made)[at(i)];
    value = addend[row * p.columns(rank.program.rank) + col] + value;
  }
}

void RefExecutor::Impl::add_epilogue(const Rank& rank, const Action& action, const Box& tile, const Box& first_target,
                                     std::vector<float>* values) const {
  // A trigger finishes what the plan's producer began.
  const int producer = std::max(action.producer, 0);
  const Producer& p = plan.producers[producer];
  const Inputs& in = bindings[rank.program.rank].producers[producer];
  const std::int64_t n = p.columns(rank.program.rank);
  for (std::int64_t i = 0; i < std::ssize(*values); ++i) {
    const std::int64_t row = first_target.lo[0] + i / tile.size(1), col = i % tile.size(1);
    float& value = (*values)[at(i)];
    if (p.bias) value += in.bias[tile.lo[1] + col];
    value = static_cast<float>(activation_f64(p.activation, value));
    if (p.residual) value += in.residual[row * n + first_target.lo[1] + col];
  }
}

std::string RefExecutor::Impl::stuck() const {
  for (const Rank& rank : ranks) {
    if (rank.next_step < rank.steps.size()) return describe(plan, rank.program, rank.steps[rank.next_step].action);
    if (!rank.triggers.empty()) return describe(plan, rank.program, rank.triggers[0].action);
  }
  return "nothing";
}

void RefExecutor::run(std::span<const Bindings> bindings, std::span<const Counts> counts) {
  Impl& impl = *impl_;
  impl.bindings = bindings;
  impl.counts = counts;
  impl.open();
  std::vector<std::size_t> order(impl.ranks.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  for (bool progress = true; progress;) {
    progress = false;
    if (impl.seed != 0) std::shuffle(order.begin(), order.end(), impl.random);
    for (const std::size_t r : order) progress = impl.advance(impl.ranks[r]) || progress;
  }
  for (const Rank& rank : impl.ranks)
    if (rank.next_step < rank.steps.size() || !rank.triggers.empty())
      fail(Code::internal, "plan \"{}\" is stuck: {} never becomes ready", impl.plan.name, impl.stuck());
  ++impl.runs;
}

const std::vector<float>& RefExecutor::buffer(int rank, int buffer) const {
  const auto& copies = impl_->ranks[rank].memory[buffer];
  return copies[(impl_->runs - 1) % std::ssize(copies)];
}

const std::vector<std::int64_t>& RefExecutor::integers(int rank, int buffer) const {
  const auto& copies = impl_->ranks[rank].integers[buffer];
  return copies[(impl_->runs - 1) % std::ssize(copies)];
}

const std::vector<float>& RefExecutor::output(int rank) const { return buffer(rank, impl_->plan.buffer("y")); }

}  // namespace weft
