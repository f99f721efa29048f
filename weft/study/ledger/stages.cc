#include "weft/study/ledger/stages.h"

#include <algorithm>

#include "weft/kernel/attention/attention.h"
#include "weft/kernel/rows/norm.h"
#include "weft/kernel/rows/sum.h"

namespace weft {

MeasuredPart& add_product(WorkloadBlock& block, const ProductStage& stage) {
  const SubLayer& layer = block.layer(stage.name);
  const bool sums = stage.space.kind == SpaceKind::all_reduce || stage.space.kind == SpaceKind::reduce_scatter;
  const std::int64_t rows = stage.gathers ? layer.m / block.ranks() : layer.m;
  MeasuredPart& part =
      block.part(stage.name, gemm({.m = rows, .n = layer.n, .k = layer.k, .activation = stage.activation}), stage.space,
                 stage.gathers);
  part.try_libraries();
  const float* weights = block.weights(layer.k, layer.n, sums ? layer.k * block.ranks() : layer.k);
  block.stage({stage.name,
               [weights, &part, x = stage.x, then = stage.then](Style style, StageLog& log) {
                 const Result& made = part.run(style, {.x = x(), .w = weights}, log);
                 if (!then) return;
                 then(made);
                 log.did(Doing::make);
               },
               {&part}});
  return part;
}

const float* as_one(const Result& result, std::int64_t cols, float* room) {
  if (result.size() == 1) return result[0].values.data;
  for (const Placed& p : result)
    copy(p.values.rows, p.values.cols, ConstStrip{p.values.data, p.values.cols, Dtype::f32},
         Strip{room + p.row * cols + p.col, cols, Dtype::f32});
  return room;
}

void add_to(const Result& result, const float* x, Width width, float* out) {
  for (const Placed& p : result) {
    const std::int64_t rows = std::min(p.values.rows, width.rows - p.row), at = p.row * width.cols + p.col;
    const ConstStrip sources[] = {{x + at, width.cols, Dtype::f32}, {p.values.data, p.values.cols, Dtype::f32}};
    if (rows > 0) sum(rows, p.values.cols, sources, {out + at, width.cols, Dtype::f32});
  }
}

std::function<const float*()> unit_rows_of(const float* x, Width width, float* room) {
  return [=, ones = std::vector<float>(num(width.cols), 1.0f)] {
    rms_norm(width.rows, width.cols, {.weight = ones.data()}, x, width.cols, room, width.cols);
    return room;
  };
}

std::function<void(const float*, float*)> attention_over(const HeadSplit& split) {
  const std::int64_t ld = split.q_cols + 2 * split.kv_cols, dim = split.head_dim;
  const auto heads = [&](std::int64_t count, std::int64_t kv_count, std::int64_t width) {
    return std::make_shared<Attention>(AttentionShape{.sequence = split.sequence,
                                                      .heads = count,
                                                      .kv_heads = kv_count,
                                                      .qk_dim = width,
                                                      .v_dim = width,
                                                      .ldq = ld,
                                                      .ldk = ld,
                                                      .ldv = ld,
                                                      .ldy = split.q_cols});
  };
  const std::int64_t whole = split.q_cols / dim, rest = split.q_cols % dim;
  std::int64_t shared = std::clamp<std::int64_t>(split.kv_cols / dim, 1, std::max<std::int64_t>(whole, 1));
  while (whole % shared != 0) --shared;
  const auto main = whole > 0 ? heads(whole, shared, dim) : nullptr, last = rest > 0 ? heads(1, 1, rest) : nullptr;
  return [=](const float* qkv, float* y) {
    for (std::int64_t row = 0; row < split.rows; row += split.sequence) {
      const float* q = qkv + row * ld;
      const float *k = q + split.q_cols, *v = k + split.kv_cols;
      float* out = y + row * split.q_cols;
      if (main) main->run(q, k, v, out);
      const std::int64_t at = std::min(whole * dim, split.kv_cols - rest);  // of k and v, where heads share them
      if (last) last->run(q + whole * dim, k + at, v + at, out + whole * dim);
    }
  };
}

void add_attention_stage(WorkloadBlock& block, std::int64_t sequence, std::function<void()> attend) {
  SubLayer layer = block.layer("attention");
  layer.k = sequence;
  block.stage({"attention",
               [attend = std::move(attend)](Style, StageLog& log) {
                 attend();
                 log.did(Doing::make);
               },
               {},
               [layer](Style, const Cluster& cluster) { return compute_seconds(layer, cluster); }});
}

void add_attention_of_heads(WorkloadBlock& block, MeasuredPart& in, float* qkv, float* attended) {
  const Workload& w = block.workload();
  const std::int64_t q = block.layer("op").k, kv = (block.layer("ip").n - q) / 2;
  const auto attend = attention_over({w.tokens(), w.sequence, q, kv, w.head_dim});
  add_attention_stage(block, block.layer("attention").k,
                      [=, &in] { attend(as_one(in.last_result(), q + 2 * kv, qkv), attended); });
}

}  // namespace weft
