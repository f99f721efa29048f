#include "weft/nn/attention.h"

#include <algorithm>
#include <atomic>
#include <cmath>

#include "weft/base/error.h"
#include "weft/base/index.h"
#include "weft/nn/exponential.h"

namespace weft {
namespace {

constexpr std::int64_t kQueries = 96;  // in a block: whole register blocks of the gemm, and few enough to skip half

float sum_of(Floats v) { return (v[0] + v[2]) + (v[1] + v[3]); }

}  // namespace

struct CausalAttention::Scratch {
  TileProduct product;
  std::vector<float> turned;   // (head_dim, sequence): k or v transposed
  std::vector<float> dscores;  // (kQueries, sequence)
  std::vector<float> flipped;  // (sequence, kQueries)
};

CausalAttention::CausalAttention(AttentionLayer layer) : layer_(std::move(layer)) {
  readers_.resize(num(layer_.kv_heads));
  for (std::int64_t h = 0; h < layer_.heads(); ++h) {
    const std::int32_t kv = layer_.kv_of[at(h)];
    if (kv < 0 || kv >= layer_.kv_heads)
      bad_input("attention: query head {} reads key/value head {}, but there are {}", h, kv, layer_.kv_heads);
    readers_[at(kv)].push_back(h);
  }
}

void CausalAttention::keep_in(std::vector<float>* weights) {
  kept_ = weights;
  kept_->resize(num(num_weights()));
}

CausalAttention::Block CausalAttention::block_at(std::int64_t row) const {
  const std::int64_t rows = std::min(kQueries, layer_.sequence - row);
  const std::int64_t key = layer_.window > 0 ? std::max<std::int64_t>(0, row - layer_.window + 1) : 0;
  return {row, rows, key, row + rows - key};
}

float* CausalAttention::weights_at(std::int64_t sequence, std::int64_t head) {
  std::vector<float>& kept = kept_ != nullptr ? *kept_ : own_;
  return kept.data() + (sequence * layer_.heads() + head) * layer_.sequence * layer_.sequence;
}

const float* CausalAttention::weights(std::int64_t sequence, std::int64_t head) const {
  return const_cast<CausalAttention*>(this)->weights_at(sequence, head);
}

// Threads claim (sequence, key/value head): the gradients of one are added by one thread, in order.
void CausalAttention::forward(ThreadPool& pool, const AttentionInputs& in, float* out) {
  if (kept_ == nullptr) own_.resize(num(num_weights()));
  std::atomic<std::int64_t> next{0};
  pool.run([&](int) {
    Scratch scratch;
    for (std::int64_t i = next++; i < layer_.sequences * layer_.heads(); i = next++)
      forward_head(in, out, i / layer_.heads(), i % layer_.heads(), scratch);
  });
}

void CausalAttention::forward_head(const AttentionInputs& in, float* out, std::int64_t sequence, std::int64_t head,
                                   Scratch& scratch) {
  const std::int64_t d = layer_.head_dim, rows = layer_.sequence, ldq = layer_.heads() * d, ldk = layer_.kv_heads * d;
  const std::int64_t kv = layer_.kv_of[at(head)];
  const float* q = in.q + sequence * rows * ldq + head * d;
  const float *k = in.k + sequence * rows * ldk + kv * d, *v = in.v + sequence * rows * ldk + kv * d;
  float *o = out + sequence * rows * ldq + head * d, *weights = weights_at(sequence, head);
  scratch.turned.resize(num(d * rows));
  transpose_rows(rows, d, {k, ldk}, {scratch.turned.data(), rows});
  for (std::int64_t row = 0; row < rows; row += kQueries) {
    const Block block = block_at(row);
    float* first = weights + row * rows + block.key;
    scratch.product.times({block.rows, block.keys, d}, {q + row * ldq, ldq}, {scratch.turned.data() + block.key, rows},
                          {first, rows});
    soften(block, first);
    scratch.product.times({block.rows, d, block.keys}, {first, rows}, {v + block.key * ldk, ldk}, {o + row * ldq, ldq});
  }
}

// Scores to weights, row by row; zero where a query does not see a key.
void CausalAttention::soften(const Block& block, float* rows) const {
  const float scale = 1.0f / std::sqrt(static_cast<float>(layer_.head_dim));
  for (std::int64_t i = 0; i < block.rows; ++i, rows += layer_.sequence) {
    const std::int64_t query = block.row + i, end = query + 1 - block.key;
    const std::int64_t begin = layer_.window > 0 ? std::max<std::int64_t>(0, query - layer_.window + 1) - block.key : 0;
    const float top = *std::max_element(rows + begin, rows + end);
    Floats sums = {};
    for_each_block(begin, end, [&](std::int64_t j, std::int64_t lanes) {
      store_floats(exponential((load_floats(rows + j, lanes) - top) * scale), rows + j, lanes);
      sums += load_floats(rows + j, lanes);
    });
    const float share = 1.0f / sum_of(sums);
    for (std::int64_t j = begin; j < end; ++j) rows[j] *= share;
    std::fill(rows, rows + begin, 0.0f);
    std::fill(rows + end, rows + block.keys, 0.0f);
  }
}

void CausalAttention::backward(ThreadPool& pool, const AttentionInputs& in, const float* out, const float* dout,
                               const AttentionGradients& gradients) {
  std::atomic<std::int64_t> next{0};
  const std::int64_t ld = layer_.kv_heads * layer_.head_dim;
  pool.run([&](int) {
    Scratch scratch;
    for (std::int64_t i = next++; i < layer_.sequences * layer_.kv_heads; i = next++) {
      const std::int64_t sequence = i / layer_.kv_heads, kv = i % layer_.kv_heads;
      for (std::int64_t row = sequence * layer_.sequence; row < (sequence + 1) * layer_.sequence; ++row) {
        std::fill_n(gradients.k + row * ld + kv * layer_.head_dim, layer_.head_dim, 0.0f);
        std::fill_n(gradients.v + row * ld + kv * layer_.head_dim, layer_.head_dim, 0.0f);
      }
      for (const std::int64_t head : readers_[at(kv)]) backward_head(in, out, dout, gradients, sequence, head, scratch);
    }
  });
}

void CausalAttention::backward_head(const AttentionInputs& in, const float* out, const float* dout,
                                    const AttentionGradients& gradients, std::int64_t sequence, std::int64_t head,
                                    Scratch& scratch) {
  const std::int64_t d = layer_.head_dim, rows = layer_.sequence, ldq = layer_.heads() * d, ldk = layer_.kv_heads * d;
  const std::int64_t at_q = sequence * rows * ldq + head * d;
  const std::int64_t at_k = sequence * rows * ldk + layer_.kv_of[at(head)] * d;
  const float* weights = weights_at(sequence, head);
  scratch.turned.resize(num(d * rows));
  scratch.dscores.resize(num(kQueries * rows));
  scratch.flipped.resize(num(kQueries * rows));
  transpose_rows(rows, d, {in.v + at_k, ldk}, {scratch.turned.data(), rows});
  for (std::int64_t row = 0; row < rows; row += kQueries) {
    const Block block = block_at(row);
    const std::int64_t q_row = at_q + row * ldq, k_row = at_k + block.key * ldk;
    const RowsIn w{weights + row * rows + block.key, rows}, dy{dout + q_row, ldq};
    float *ds = scratch.dscores.data(), *flipped = scratch.flipped.data();
    transpose_rows(block.rows, block.keys, w, {flipped, block.rows});
    scratch.product.times({block.keys, d, block.rows}, {flipped, block.rows}, dy, {gradients.v + k_row, ldk},
                          Into::add);
    scratch.product.times({block.rows, block.keys, d}, dy, {scratch.turned.data() + block.key, rows}, {ds, block.keys});
    blame(block, w.data, {out + q_row, ldq}, dy, ds);
    scratch.product.times({block.rows, d, block.keys}, {ds, block.keys}, {in.k + k_row, ldk},
                          {gradients.q + q_row, ldq});
    transpose_rows(block.rows, block.keys, {ds, block.keys}, {flipped, block.rows});
    scratch.product.times({block.keys, d, block.rows}, {flipped, block.rows}, {in.q + q_row, ldq},
                          {gradients.k + k_row, ldk}, Into::add);
  }
}

// dscores = weights * (dweights - sum(weights * dweights)) * scale; the sum is that of out * dout.
void CausalAttention::blame(const Block& block, const float* weights, RowsIn out, RowsIn dout, float* dscores) const {
  const float scale = 1.0f / std::sqrt(static_cast<float>(layer_.head_dim));
  for (std::int64_t i = 0; i < block.rows; ++i, weights += layer_.sequence, dscores += block.keys) {
    float sum = 0;
    for (std::int64_t j = 0; j < layer_.head_dim; ++j) sum += out.data[i * out.ld + j] * dout.data[i * dout.ld + j];
    for (std::int64_t j = 0; j < block.keys; ++j) dscores[j] = weights[j] * (dscores[j] - sum) * scale;
  }
}

}  // namespace weft
