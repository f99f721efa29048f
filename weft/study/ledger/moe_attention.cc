// Attention of a mixture-of-experts block: split by heads (all_gather before it, reduce_scatter after), or by tokens,
// plain or latent, with nothing exchanged.
#include <algorithm>
#include <memory>

#include <fmt/core.h>

#include "weft/kernel/attention/attention.h"
#include "weft/study/ledger/stages.h"

namespace weft {
namespace {

// The tokens of this rank, and how many of them attend to each other.
struct OwnTokens {
  Width width;
  std::int64_t sequence;
};

void add_tensor_attention(WorkloadBlock& block, const MoeRooms& at) {
  const Width own{block.workload().tokens() / block.ranks(), block.workload().hidden};
  MeasuredPart& in = add_product(
      block,
      {.name = "ip", .x = unit_rows_of(at.x, own, at.h), .space = all_gather(block.mesh(), "tp"), .gathers = true});
  add_attention_of_heads(block, in, at.qkv, at.attended);
  add_product(block, {.name = "op",
                      .x = [=] { return at.attended; },
                      .then = [=](const Result& made) { add_to(made, at.x, own, at.middle); },
                      .space = reduce_scatter(block.mesh(), "tp")});
}

struct Latent {
  std::int64_t rows, heads, dim, rope, kv_rank;
};

// Rows of q, k and v for plain attention: every head's k is its own part and the rotary part that all heads share.
void spread_latent(const Latent& l, const float* up, const float* down, float* k, float* v) {
  const std::int64_t qk = l.dim + l.rope;
  for (std::int64_t i = 0; i < l.rows; ++i)
    for (std::int64_t head = 0; head < l.heads; ++head) {
      const float* from = up + (i * l.heads + head) * 2 * l.dim;
      float* key = k + (i * l.heads + head) * qk;
      std::copy_n(from, l.dim, key);
      std::copy_n(down + i * (l.kv_rank + l.rope) + l.kv_rank, l.rope, key + l.dim);
      std::copy_n(from + l.dim, l.dim, v + (i * l.heads + head) * l.dim);
    }
}

void add_latent_attention(WorkloadBlock& block, const MoeRooms& at, const OwnTokens& own) {
  const Workload& w = block.workload();
  const Latent l{own.width.rows, w.heads, w.head_dim, w.rope_dim, w.kv_rank};
  MeasuredPart& q_down = add_product(block, {.name = "q_down", .x = unit_rows_of(at.x, own.width, at.h)});
  MeasuredPart& q_up = add_product(block, {.name = "q_up", .x = [&q_down] { return q_down.made(); }});
  MeasuredPart& kv_down = add_product(block, {.name = "kv_down", .x = [=] { return at.h; }});
  float* latent = block.buffer(l.rows * l.kv_rank);
  const auto latent_rows = [=, &kv_down] {
    for (std::int64_t i = 0; i < l.rows; ++i)
      std::copy_n(kv_down.made() + i * (l.kv_rank + l.rope), l.kv_rank, latent + i * l.kv_rank);
    return latent;
  };
  MeasuredPart& kv_up = add_product(block, {.name = "kv_up", .x = latent_rows});
  const std::int64_t qk = l.dim + l.rope, qk_cols = l.heads * qk, v_cols = l.heads * l.dim;
  float *k = block.buffer(l.rows * qk_cols), *v = block.buffer(l.rows * v_cols);
  const auto attention = std::make_shared<Attention>(
      AttentionShape{own.sequence, l.heads, l.heads, qk, l.dim, qk_cols, qk_cols, v_cols, v_cols});
  add_attention_stage(block, own.sequence, [=, &q_up, &kv_up, &kv_down] {
    spread_latent(l, kv_up.made(), kv_down.made(), k, v);
    for (std::int64_t row = 0; row < l.rows; row += own.sequence)
      attention->run(q_up.made() + row * qk_cols, k + row * qk_cols, v + row * v_cols, at.attended + row * v_cols);
  });
}

void add_plain_attention(WorkloadBlock& block, const MoeRooms& at, const OwnTokens& own) {
  const Workload& w = block.workload();
  MeasuredPart& in = add_product(block, {.name = "ip", .x = unit_rows_of(at.x, own.width, at.h)});
  const auto attend =
      attention_over({own.width.rows, own.sequence, w.heads * w.head_dim, w.kv_heads * w.head_dim, w.head_dim});
  add_attention_stage(block, own.sequence, [=, &in] { attend(in.made(), at.attended); });
}

void add_data_attention(WorkloadBlock& block, const MoeRooms& at) {
  const Workload& w = block.workload();
  OwnTokens own{{w.tokens() / block.ranks(), w.hidden}, 0};
  own.sequence = std::min(w.sequence, own.width.rows);
  if (own.width.rows % own.sequence != 0) own.sequence = own.width.rows;
  if (own.sequence < w.sequence)
    block.set_note(
        fmt::format("attention looks at the {} tokens of its own rank, not at {}", own.sequence, w.sequence));
  if (w.q_rank > 0)
    add_latent_attention(block, at, own);
  else
    add_plain_attention(block, at, own);
  add_product(block, {.name = "op",
                      .x = [=] { return at.attended; },
                      .then = [=](const Result& made) { add_to(made, at.x, own.width, at.middle); }});
}

}  // namespace

void add_moe_attention(WorkloadBlock& block, MoeRooms& at) {
  const Workload& w = block.workload();
  if (w.attention == AttentionSplit::tensor) {
    at.qkv = block.buffer(w.tokens() * block.layer("ip").n);
    at.attended = block.buffer(w.tokens() * block.layer("op").k);
    add_tensor_attention(block, at);
  } else {
    at.attended = block.buffer(w.tokens() / block.ranks() * w.heads * w.head_dim);
    add_data_attention(block, at);
  }
}

}  // namespace weft
