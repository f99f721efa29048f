#include "weft/llm/engine/engine.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "weft/base/error.h"
#include "weft/base/index.h"
#include "weft/base/names.h"
#include "weft/llm/engine/engine_state.h"
#include "weft/mesh/box.h"

namespace weft {
namespace {

constexpr std::int64_t kMostRows = 1 << 20;
constexpr std::int64_t kHeadRows = 64;  // logits are made for this many rows at a time

EngineOptions checked(const World& world, const Model& model, EngineOptions options) {
  const ModelConfig& config = model.config();
  if (model.shard().ranks != world.size() || model.shard().rank != world.rank())
    bad_input("this is rank {} of {}, but the model was loaded for rank {} of {}", world.rank(), world.size(),
              model.shard().rank, model.shard().ranks);
  if (options.sequences < 1 || options.sequences > 4096)
    bad_input("an engine of {} sequences; use 1 to 4096", options.sequences);
  if (options.capacity == 0) options.capacity = config.max_positions;
  if (options.capacity < 1 || options.capacity > config.max_positions)
    bad_input("a sequence has room for {} tokens, but the model of {} knows {} positions; use 1 to {}",
              options.capacity, config.file, config.max_positions, config.max_positions);
  if (options.rows < 1 || options.rows > kMostRows)
    bad_input("a forward of {} rows; use 1 to {}", options.rows, kMostRows);
  if (options.panels < 1) bad_input("sync in {} panels; use 1 or more", options.panels);
  options.rows = std::min(options.rows, options.capacity * options.sequences);
  return options;
}

void allot(std::vector<float>* memory, std::int64_t rows, std::int64_t cols) { memory->assign(num(rows * cols), 0.0f); }

}  // namespace

Engine::State::State(World& world_in, const Model& model_in, const EngineOptions& options_in)
    : world(world_in),
      model(model_in),
      options(checked(world_in, model_in, options_in)),
      threads(world_in.threads()),
      few(std::min<std::int64_t>({options.rows, options.sequences, kHeadRows})),
      attention(model_in.config(), model_in.shard(), options.capacity, threads.size()),
      lengths(num(options.sequences), 0) {
  const ModelConfig& c = config();
  for (std::int64_t i = 0; !attention.empty() && i < c.blocks * options.sequences; ++i)
    cache_memory.emplace_back(new float[at(2 * attention.cache_floats())]);
  allot_memory();
  tell_few = gather_op(few, kToldFloats);
  tell_many = gather_op(head_rows, kToldFloats);
  if (c.design.qk_norm == QkNorm::whole && options.sync != Style::compute) {
    squares_few = gather_op(few, 2);
    squares_many = gather_op(options.rows, 2);
  }
  set_modes(std::vector<BlockMode>(num(c.blocks)));
}

void Engine::State::allot_memory() {
  const ModelConfig& c = config();
  const ModelShard& s = shard();
  for (auto* memory : {&embedded, &normed, &kept, &seen, &hidden}) allot(memory, options.rows, c.hidden);
  allot(&qkv, options.rows, (s.heads.size() + 2 * s.kv_heads.size()) * c.head_dim);
  allot(&attended, options.rows, s.attention_width);
  if (c.design.qk_norm == QkNorm::whole) allot(&squares, options.rows, 2);
  allot(&wide, options.rows, 2 * s.mlp.size());
  allot(&activated, options.rows, s.mlp_width);
  head_rows = std::min(options.rows, kHeadRows);
  allot(&picked, head_rows, c.hidden);
  allot(&logits, head_rows, s.vocab_width);
  told.resize(num(head_rows));
  joined.resize(told.size());
  for (int rank = 0; rank < s.ranks; ++rank) vocab_of.push_back(shard_of(c, rank, s.ranks).vocab);
  for (std::int64_t b = 0; b < c.blocks; ++b) {
    const BlockWeights& w = model.block(b);
    auto& both = both_biases.emplace_back();
    if (w.o_bias == nullptr && w.down_bias == nullptr) continue;
    both.assign(num(c.hidden), 0.0f);
    for (std::size_t i = 0; i < both.size(); ++i)
      both[i] = (w.o_bias == nullptr ? 0 : w.o_bias[i]) + (w.down_bias == nullptr ? 0 : w.down_bias[i]);
  }
  runs.reserve(num(options.sequences));
  attention_rows.reserve(num(options.sequences));
}

std::unique_ptr<Op> Engine::State::gather_op(std::int64_t of_rows, std::int64_t cols) {
  if (world.size() == 1) return nullptr;
  const Mesh mesh = world.mesh({{"tp", world.size()}});
  return std::make_unique<Op>(
      world.compile(copy({.rows = of_rows, .cols = cols}), all_gather(mesh, "tp", {.route = Route::direct})));
}

void Engine::State::set_modes(std::span<const BlockMode> given) {
  if (std::ssize(given) != config().blocks)
    bad_input("{} modes for {} blocks; give one per block", given.size(), config().blocks);
  const Design& design = config().design;
  const std::string why = why_not_droppable(design);
  for (std::int64_t b = 0; b < std::ssize(given); ++b) {
    const BlockWeights& w = model.block(b);
    if (given[at(b)].drop && !why.empty())
      bad_input("{}: the synchronisation of block {} cannot be dropped: {}", config().file, b, why);
    if (given[at(b)].drop || design.parallel) {
      compile(Projection::joined, given[at(b)].wire, w.down);
    } else {
      compile(Projection::attention, given[at(b)].wire, w.o);
      compile(Projection::mlp, given[at(b)].wire, w.down);
    }
  }
  modes.assign(given.begin(), given.end());
}

void Engine::State::compile(Projection projection, BlockWire wire, const Weight& weight) {
  const bool of_attention = projection == Projection::attention, joined_sum = projection == Projection::joined;
  const Design& d = config().design;
  for (const bool decode : {true, false}) {
    if (!decode && few == options.rows) continue;
    auto& slot = reductions[{projection, wire, weight.dtype, decode}];
    if (slot != nullptr) continue;
    const ReductionShape shape{.rows = decode ? few : options.rows,
                               .n = config().hidden,
                               .k = of_attention ? shard().attention_width : shard().mlp_width,
                               .weight = weight.dtype,
                               .activations = options.activations,
                               .first = weight.first,
                               .ldw = weight.ld,
                               .huge_pages = weight.huge_pages,
                               .wire = wire,
                               .bias = (d.output_bias && (of_attention || joined_sum)) || (d.mlp_bias && !of_attention),
                               .addend = joined_sum,
                               .residual = !d.norms_after()};
    slot = make_reduction(
        world, shape,
        {.style = options.sync, .panels = options.panels, .threads = &threads, .priced_k = shard().mlp_width});
  }
}

ReducedProduct& Engine::State::reduction(Projection projection, BlockWire wire, Dtype weight, std::int64_t for_rows) {
  return *reductions.at({projection, wire, weight, for_rows <= few});
}

KvCache Engine::State::cache(std::int64_t block, int sequence) {
  float* memory = cache_memory[at(block * options.sequences + sequence)].get();
  return {memory, memory + attention.cache_floats()};
}

void Engine::State::check_sequence(int sequence) const {
  if (sequence < 0 || sequence >= options.sequences)
    bad_input("sequence {} of an engine that has {}", sequence, options.sequences);
}

EngineTraffic& EngineTraffic::operator+=(const EngineTraffic& other) {
  block_bytes += other.block_bytes, head_bytes += other.head_bytes;
  syncs_made += other.syncs_made, syncs_dropped += other.syncs_dropped;
  block_op_s += other.block_op_s, forward_s += other.forward_s, head_s += other.head_s;
  return *this;
}

// Counts travel as two floats each, exact up to 2^48.
EngineTraffic with_all_bytes(World& world, EngineTraffic traffic) {
  if (world.size() == 1) return traffic;
  constexpr std::int64_t kHalf = 1 << 24;
  Op op = world.compile(copy({.rows = 1, .cols = 4}),
                        all_gather(world.mesh({{"tp", world.size()}}), "tp", {.route = Route::direct}));
  const float mine[4] = {
      static_cast<float>(traffic.block_bytes / kHalf), static_cast<float>(traffic.block_bytes % kHalf),
      static_cast<float>(traffic.head_bytes / kHalf), static_cast<float>(traffic.head_bytes % kHalf)};
  op.run(mine);
  const Matrix all = op.output();
  traffic.block_bytes = traffic.head_bytes = 0;
  for (int rank = 0; rank < world.size(); ++rank) {
    const float* row = all.row(rank);
    traffic.block_bytes += static_cast<std::int64_t>(row[0]) * kHalf + static_cast<std::int64_t>(row[1]);
    traffic.head_bytes += static_cast<std::int64_t>(row[2]) * kHalf + static_cast<std::int64_t>(row[3]);
  }
  return traffic;
}

Dtype parse_activations(std::string_view name) {
  constexpr Names<Dtype, 2> kNames{{{Dtype::f32, "f32"}, {Dtype::bf16, "bf16"}}};
  return parse_name(kNames, "activations", name);
}

Engine::Engine(World& world, const Model& model, const EngineOptions& options)
    : state_(std::make_unique<State>(world, model, options)) {}
Engine::Engine(Engine&&) noexcept = default;
Engine::~Engine() = default;

void Engine::set_modes(std::span<const BlockMode> modes) { state_->set_modes(modes); }
void Engine::watch_products(ProductWatch watch) { state_->watch = std::move(watch); }
const Model& Engine::model() const { return state_->model; }
std::int64_t Engine::rows() const { return state_->rows; }
const EngineOptions& Engine::options() const { return state_->options; }

std::span<const float> Engine::hidden() const {
  return {state_->hidden.data(), num(state_->rows * state_->config().hidden)};
}

std::span<const float> Engine::residual() const { return {state_->last, num(state_->rows * state_->config().hidden)}; }

std::int64_t Engine::length(int sequence) const {
  state_->check_sequence(sequence);
  return state_->lengths[at(sequence)];
}

void Engine::truncate(int sequence, std::int64_t length) {
  if (length < 0 || length > this->length(sequence))
    bad_input("sequence {} has {} tokens and cannot be cut to {}", sequence, this->length(sequence), length);
  state_->lengths[at(sequence)] = length;
}

void Engine::copy_sequence(int from, int to, std::int64_t length) {
  State& s = *state_;
  s.check_sequence(to);
  if (length < 0 || length > this->length(from))
    bad_input("sequence {} has {} tokens, so {} of them cannot be copied", from, this->length(from), length);
  if (!s.attention.empty() && from != to) {
    const CachedAttentionShape& shape = s.attention.shape();
    for (std::int64_t block = 0; block < s.config().blocks; ++block) {
      const KvCache source = s.cache(block, from), target = s.cache(block, to);
      for (std::int64_t head = 0; head < shape.kv_heads; ++head) {
        const std::int64_t at = head * shape.capacity * shape.head_dim;
        std::copy_n(source.k + at, length * shape.head_dim, target.k + at);
        std::copy_n(source.v + at, length * shape.head_dim, target.v + at);
      }
    }
  }
  s.lengths[weft::at(to)] = length;
}

EngineTraffic Engine::traffic() const {
  EngineTraffic out = state_->traffic;
  for (const auto& [key, reduction] : state_->reductions) out.block_bytes += reduction->bytes_sent();
  for (const auto* op : {&state_->tell_few, &state_->tell_many, &state_->gather_few, &state_->gather_many})
    if (*op != nullptr) out.head_bytes += (*op)->sent().bytes;
  for (const auto* op : {&state_->squares_few, &state_->squares_many})
    if (*op != nullptr) out.block_bytes += (*op)->sent().bytes;
  return out;
}

}  // namespace weft
