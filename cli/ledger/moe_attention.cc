// Attention of a mixture-of-experts block: split by heads (all_gather before it, reduce_scatter after), or by tokens, plain
// or latent, with nothing exchanged.
#include <algorithm>
#include <memory>

#include <fmt/core.h>

#include "weft/kernel/attention/attention.h"

#include "cli/ledger/moe.h"

namespace weft::cli {
namespace {

void add_tensor_attention(Block& block, const MoeRooms& at) {
  const Workload& w = block.workload();
  const SubLayer ip = block.layer("ip"), op = block.layer("op");
  const Block::Width own{w.tokens() / block.ranks(), w.hidden};
  Part& in = block.part("ip", gemm({.m = own.rows, .n = ip.n, .k = ip.k}), all_gather(block.mesh(), "tp"), true);
  const float* in_weights = block.weights(ip.k, ip.n, ip.k);
  block.stage({"ip",
               [=, &in](Style style, StageLog& log) {
                 norm(at.x, own, at.h);
                 in.run(style, {.x = at.h, .w = in_weights}, log);
               },
               {&in}});
  add_attention_of_heads(block, in, at.qkv, at.attended);
  Part& out = block.part("op", gemm({.m = op.m, .n = op.n, .k = op.k}), reduce_scatter(block.mesh(), "tp"));
  const float* out_weights = block.weights(op.k, op.n, op.k * block.ranks());
  block.stage({"op",
               [=, &out](Style style, StageLog& log) {
                 add_to(out.run(style, {.x = at.attended, .w = out_weights}, log), at.x, own, at.middle);
                 log.did(Doing::make);
               },
               {&out}});
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

void add_latent_attention(Block& block, const MoeRooms& at, std::int64_t own, std::int64_t sequence) {
  const Workload& w = block.workload();
  const Latent l{own, w.heads, w.head_dim, w.rope_dim, w.kv_rank};
  const auto result = [](Part& part) { return part.last_result()[0].values.data; };
  const Block::Width width{own, w.hidden};
  Part& q_down = add_own_tokens(block, "q_down", [=] {
    norm(at.x, width, at.h);
    return at.h;
  });
  Part& q_up = add_own_tokens(block, "q_up", [=, &q_down] { return result(q_down); });
  Part& kv_down = add_own_tokens(block, "kv_down", [=] { return at.h; });
  float* latent = block.buffer(own * w.kv_rank);
  Part& kv_up = add_own_tokens(block, "kv_up", [=, &kv_down] {
    for (std::int64_t i = 0; i < own; ++i)
      std::copy_n(result(kv_down) + i * (l.kv_rank + l.rope), l.kv_rank, latent + i * l.kv_rank);
    return latent;
  });
  const std::int64_t qk = l.dim + l.rope, qk_cols = l.heads * qk, v_cols = l.heads * l.dim;
  float *k = block.buffer(own * qk_cols), *v = block.buffer(own * v_cols);
  const auto attention = std::make_shared<Attention>(
      AttentionShape{sequence, l.heads, l.heads, qk, l.dim, qk_cols, qk_cols, v_cols, v_cols});
  SubLayer layer = block.layer("attention");
  layer.k = sequence;
  block.stage({"attention",
               [=, &q_up, &kv_up, &kv_down](Style, StageLog& log) {
                 spread_latent(l, result(kv_up), result(kv_down), k, v);
                 for (std::int64_t row = 0; row < own; row += sequence)
                   attention->run(result(q_up) + row * qk_cols, k + row * qk_cols, v + row * v_cols,
                                  at.attended + row * v_cols);
                 log.did(Doing::make);
               },
               {},
               [layer](Style, const Cluster& cluster) { return compute_seconds(layer, cluster); }});
}

void add_data_attention(Block& block, const MoeRooms& at) {
  const Workload& w = block.workload();
  const std::int64_t own = w.tokens() / block.ranks();
  std::int64_t sequence = std::min(w.sequence, own);
  if (own % sequence != 0) sequence = own;
  if (sequence < w.sequence)
    block.set_note(fmt::format("attention looks at the {} tokens of its own rank, not at {}", sequence, w.sequence));
  if (w.q_rank > 0) {
    add_latent_attention(block, at, own, sequence);
  } else {
    const Block::Width width{own, w.hidden};
    Part& in = add_own_tokens(block, "ip", [=] {
      norm(at.x, width, at.h);
      return at.h;
    });
    const auto attend = attention_over({own, sequence, w.heads * w.head_dim, w.kv_heads * w.head_dim, w.head_dim});
    SubLayer layer = block.layer("attention");
    layer.k = sequence;
    block.stage({"attention",
                 [=, &in](Style, StageLog& log) {
                   attend(in.last_result()[0].values.data, at.attended);
                   log.did(Doing::make);
                 },
                 {},
                 [layer](Style, const Cluster& cluster) { return compute_seconds(layer, cluster); }});
  }
  Part& out = add_own_tokens(block, "op", [=] { return at.attended; });
  const auto run = block.stages().back().run;
  block.amend([=, &out](Style style, StageLog& log) {
    run(style, log);
    add_to(out.last_result(), at.x, {own, w.hidden}, at.middle);
    log.did(Doing::make);
  });
}

}  // namespace

Part& add_own_tokens(Block& block, const std::string& name, const std::function<const float*()>& x) {
  const SubLayer layer = block.layer(name);
  Part& part = block.local(name, {.m = layer.m, .n = layer.n, .k = layer.k});
  const float* weights = block.weights(layer.k, layer.n, layer.k);
  block.stage(
      {name, [=, &part](Style style, StageLog& log) { part.run(style, {.x = x(), .w = weights}, log); }, {&part}});
  return part;
}

void add_moe_attention(Block& block, MoeRooms& at) {
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

}  // namespace weft::cli
