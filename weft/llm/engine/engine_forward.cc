// One pass of rows through the blocks. Buffers hold all rows, feed after feed; only rotary positions and attention look
// at which sequence a row belongs to.
#include <algorithm>
#include <iterator>
#include <vector>

#include "weft/base/error.h"
#include "weft/base/index.h"
#include "weft/base/quant/blocks.h"
#include "weft/kernel/gemm/matmul.h"
#include "weft/kernel/rows/elementwise.h"
#include "weft/kernel/rows/epilogue.h"
#include "weft/kernel/rows/norm.h"
#include "weft/llm/engine/engine_state.h"
#include "weft/llm/engine/parallel_rows.h"
#include "weft/llm/model/linear_of.h"

namespace weft {
namespace {

void widen_row(const Weight& table, std::int64_t row, float* out) {
  if (table.dtype == Dtype::f32) {
    std::copy_n(static_cast<const float*>(table.data) + row * table.ld, table.cols, out);
    return;
  }
  if (is_blocked(table.dtype)) {
    const auto* from = static_cast<const std::byte*>(table.data) + row * row_bytes(table.dtype, table.ld);
    dequantise(table.dtype, from, table.first, table.cols, out);
    return;
  }
  if (table.dtype == Dtype::f16) {
    const f16* from = static_cast<const f16*>(table.data) + row * table.ld;
    for (std::int64_t i = 0; i < table.cols; ++i) out[i] = to_float(from[i]);
    return;
  }
  const bf16* from = static_cast<const bf16*>(table.data) + row * table.ld;
  for (std::int64_t i = 0; i < table.cols; ++i) out[i] = to_float(from[i]);
}

}  // namespace

void Engine::State::multiply(std::initializer_list<Projected> all, const float* x) {
  products.clear();
  for (const Projected& one : all) {
    if (one.weight.empty()) continue;
    if (watch) watch(one.weight, x, rows, one.weight.cols);
    LinearOutput& product = products.emplace_back(linear_of(one.weight, one.bias), one.y, one.ldy);
    product.linear.activations = options.activations;
  }
  if (!products.empty()) matmul(threads, rows, products, x, products[0].linear.k);
}

void Engine::State::check(std::span<const Feed> feeds) const {
  std::int64_t total = 0;
  for (std::size_t i = 0; i < feeds.size(); ++i) {
    const Feed& feed = feeds[i];
    check_sequence(feed.sequence);
    for (std::size_t j = 0; j < i; ++j)
      if (feeds[j].sequence == feed.sequence)
        bad_input("sequence {} comes twice in a forward; join its tokens in one feed", feed.sequence);
    const auto count = std::ssize(feed.tokens);
    const std::int64_t length = lengths[at(feed.sequence)];
    if (length + count > options.capacity)
      bad_input("sequence {} would have {} tokens, but has room for {}; ask for fewer", feed.sequence, length + count,
                options.capacity);
    for (const int token : feed.tokens)
      if (token < 0 || token >= config().vocab)
        bad_input("token {} is none of the vocabulary of {} ({})", token, config().vocab, config().file);
    total += count;
  }
  if (total < 1 || total > options.rows)
    bad_input("a forward of {} rows; this engine takes 1 to {} at once", total, options.rows);
}

void Engine::State::place(std::span<const Feed> feeds) {
  runs.clear();
  rows = 0;
  for (const Feed& feed : feeds) {
    const auto count = std::ssize(feed.tokens);
    if (count == 0) continue;
    runs.push_back({feed.sequence, lengths[at(feed.sequence)], rows, count});
    rows += count;
  }
}

void Engine::State::embed(std::span<const Feed> feeds) {
  const std::int64_t hidden_size = config().hidden;
  const auto scale = static_cast<float>(config().design.embedding_scale);
  std::int64_t row = 0;
  for (const Feed& feed : feeds) {
    const std::int64_t position = lengths[at(feed.sequence)];
    for (std::size_t i = 0; i < feed.tokens.size(); ++i, ++row) {
      float* x = embedded.data() + row * hidden_size;
      widen_row(model.embedding(), feed.tokens[i], x);
      if (scale != 1)
        for (std::int64_t c = 0; c < hidden_size; ++c) x[c] *= scale;
      if (model.positions().empty()) continue;
      float* learned = normed.data();  // its first row is free: nothing has been normed yet
      widen_row(model.positions(), position + static_cast<std::int64_t>(i) + config().design.learned_positions,
                learned);
      for (std::int64_t c = 0; c < hidden_size; ++c) x[c] += learned[c];
    }
  }
}

void Engine::State::norm(const NormWeight& weight, const float* x, float* y) {
  const std::int64_t n = config().hidden;
  const auto eps = static_cast<float>(config().norm_eps);
  parallel_rows(threads, rows, n, [&](std::int64_t begin, std::int64_t end) {
    if (config().design.norm == NormKind::layer)
      layer_norm(end - begin, n, {weight.weight, weight.bias, eps}, x + begin * n, n, y + begin * n, n);
    else
      rms_norm(end - begin, n, {weight.weight, eps}, x + begin * n, n, y + begin * n, n);
  });
}

// A block's input as its norm leaves it; as it is where the norms lie behind the halves.
const float* Engine::State::normed_by(const NormWeight& weight, const float* x) {
  if (!config().design.norms_before()) return x;
  norm(weight, x, normed.data());
  return normed.data();
}

// What a half of a block adds to the residual is scaled in front of its projection; biases are scaled already.
void Engine::State::scale_addition(float* rows_of, std::int64_t width) {
  const auto scale = static_cast<float>(config().design.residual_scale);
  if (scale == 1) return;
  parallel_rows(threads, rows, width, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin * width; i < end * width; ++i) rows_of[i] *= scale;
  });
}

// x -> activated.
void Engine::State::feed_forward(const BlockWeights& w, const float* x) {
  const std::int64_t cols = shard().mlp.size(), width = shard().mlp_width;
  const Activation activation = config().design.activation;
  if (cols == 0) return;
  if (!config().gated()) {
    multiply({{w.up, w.up_bias, activated.data(), width}}, x);
    parallel_rows(threads, rows, cols, [&](std::int64_t begin, std::int64_t end) {
      apply(end - begin, cols, {.activation = activation}, activated.data() + begin * width, width);
    });
  } else {
    multiply({{w.gate, w.gate_bias, wide.data(), 2 * cols}, {w.up, w.up_bias, wide.data() + cols, 2 * cols}}, x);
    parallel_rows(threads, rows, cols, [&](std::int64_t begin, std::int64_t end) {
      gate(end - begin, cols, activation, wide.data() + begin * 2 * cols, 2 * cols, activated.data() + begin * width,
           width);
    });
  }
  scale_addition(activated.data(), width);
}

const float* Engine::State::reduce(Projection projection, std::int64_t block, const float* x) {
  const BlockWeights& w = model.block(block);
  const bool of_attention = projection == Projection::attention;
  const Weight& weight = of_attention ? w.o : w.down;
  ReductionInputs in{.x = of_attention ? attended.data() : activated.data(), .w = weight.data, .residual = x};
  in.bias = of_attention ? w.o_bias : w.down_bias;
  if (projection == Projection::joined) {
    const auto& both = both_biases[at(block)];
    in.bias = both.empty() ? nullptr : both.data();
    in.addend = kept.data();
  }
  if (watch) watch(weight, in.x, rows, of_attention ? shard().attention_width : shard().mlp_width);
  const std::int64_t start = now_ns();
  const float* y = reduction(projection, modes[at(block)].wire, weight.dtype, rows).run(in, rows);
  traffic.block_op_s += seconds_since(start);
  ++traffic.syncs_made;
  return y;
}

// x and what a half of the block adds to it, normed first where norms lie behind the halves.
const float* Engine::State::add_half(Projection projection, std::int64_t block, const float* x) {
  if (!config().design.norms_after()) return reduce(projection, block, x);
  const BlockWeights& w = model.block(block);
  const bool of_attention = projection == Projection::attention;
  float* y = of_attention ? seen.data() : kept.data();
  norm(of_attention ? w.post_norm1 : w.post_norm2, reduce(projection, block, nullptr), y);
  add_rows(threads, rows, config().hidden, x, y);
  return y;
}

// This rank's part of the attention's output, without its bias.
void Engine::State::keep_attention(const BlockWeights& w) {
  multiply({{w.o, nullptr, kept.data(), config().hidden}}, attended.data());
}

// x -> the block's output. A dropped block's mlp reads x and this rank's part of the attention output alone; what the
// ranks sum at the end is that part and the mlp's, and x and the biases are added once, behind the sum. A parallel
// block's mlp reads x.
const float* Engine::State::run_block(std::int64_t block, const float* x) {
  const BlockWeights& w = model.block(block);
  const std::int64_t n = config().hidden;
  attend(block, normed_by(w.norm1, x));
  if (config().design.parallel) {
    keep_attention(w);
    feed_forward(w, normed_by(w.norm2, x));
    return reduce(Projection::joined, block, x);
  }
  if (!modes[at(block)].drop) {
    const float* between = add_half(Projection::attention, block, x);
    feed_forward(w, normed_by(w.norm2, between));
    return add_half(Projection::mlp, block, between);
  }
  keep_attention(w);
  parallel_rows(threads, rows, n, [&](std::int64_t begin, std::int64_t end) {
    std::copy_n(kept.data() + begin * n, (end - begin) * n, seen.data() + begin * n);
    apply(end - begin, n, {.bias = w.o_bias, .residual = x + begin * n, .residual_ld = n}, seen.data() + begin * n, n);
  });
  feed_forward(w, normed_by(w.norm2, seen.data()));
  ++traffic.syncs_dropped;
  return reduce(Projection::joined, block, x);
}

// Blocks [first, last), and behind the last one the norm. Rows enter as x.
void Engine::State::run_blocks(std::int64_t first, std::int64_t end, const float* x) {
  for (std::int64_t block = first; block < end; ++block) x = run_block(block, x);
  last = x;
  if (end == config().blocks) norm(model.final_norm(), x, hidden.data());
  for (const Run& run : runs) lengths[at(run.sequence)] += run.rows;
}

void Engine::forward(std::span<const Feed> feeds) { forward_blocks(0, state_->config().blocks, feeds, {}); }

void Engine::forward_blocks(std::int64_t first, std::int64_t last, std::span<const Feed> feeds,
                            std::span<const float> x) {
  State& s = *state_;
  const std::int64_t start = now_ns();
  s.check(feeds);
  if (first < 0 || first > last || last > s.config().blocks)
    bad_input("blocks {} to {} of a model of {}", first, last, s.config().blocks);
  s.place(feeds);
  if (x.empty() && first > 0) bad_input("rows enter block {}, but none are given", first);
  if (!x.empty() && std::ssize(x) != s.rows * s.config().hidden)
    bad_input("{} values enter block {}; {} rows of {} are {}", x.size(), first, s.rows, s.config().hidden,
              s.rows * s.config().hidden);
  if (x.empty()) s.embed(feeds);
  s.run_blocks(first, last, x.empty() ? s.embedded.data() : x.data());
  s.traffic.forward_s += seconds_since(start);
}

}  // namespace weft
