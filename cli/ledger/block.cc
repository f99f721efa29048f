#include "cli/ledger/block.h"

#include <algorithm>
#include <cmath>

#include "weft/base/error.h"
#include "weft/kernel/attention/attention.h"
#include "weft/kernel/rows/norm.h"
#include "weft/kernel/rows/sum.h"
#include "weft/study/values.h"
#include "weft/world/world.h"

namespace weft::cli {

Block::Block(World& world, CommonClock& clock, const Workload& workload)
    : world_(world),
      clock_(clock),
      workload_(workload),
      ranks_(world.size()),
      rank_(world.rank()),
      mesh_(world.mesh({{"tp", world.size()}})),
      layers_(sub_layers(workload, {.ranks = ranks_, .rank = rank_}, Phase::forward)),
      loader_(world, clock) {
  switch (workload.kind) {
    case WorkloadKind::transformer:
      add_transformer(*this);
      break;
    case WorkloadKind::moe:
      add_moe(*this);
      break;
    case WorkloadKind::dlrm:
      add_dlrm(*this);
      break;
  }
}

const SubLayer& Block::layer(const std::string& name) const {
  for (const SubLayer& layer : layers_)
    if (layer.name == name) return layer;
  fail(Code::internal, "workload \"{}\" has no sub-layer \"{}\"", workload_.name, name);
}

float* Block::buffer(std::int64_t elements) {
  return buffers_.emplace_back(static_cast<std::size_t>(elements), 0.0f).data();
}

const float* Block::weights(std::int64_t k, std::int64_t n, std::int64_t sum_k) {
  const float scale = std::sqrt(3.0f / static_cast<float>(sum_k));  // uniform in [-1, 1) has a third of variance
  if (workload_.kind == WorkloadKind::transformer)
    return loader_.load(k, n, sum_k == k ? WeightLoader::Split::columns : WeightLoader::Split::rows, scale);
  float* w = buffer(k * n);
  const std::uint64_t stream = stream_of(Input::w, rank_, 0, ++num_weights_);
  for (std::int64_t i = 0; i < k * n; ++i) w[i] = value_at(stream, i) * scale;
  return w;
}

Part& Block::part(const std::string& name, const Producer& producer, const Space& space, bool gathers) {
  OpSpec spec{.name = name, .producer = producer, .space = space, .gathers = gathers, .ranks = ranks_};
  return *parts_.emplace_back(std::make_unique<Part>(world_, clock_, name, std::move(spec)));
}

// Ranks that hold every token are given the same ones: an input of rank 0's stream.
void Block::refresh(std::uint64_t round) {
  const bool whole = workload_.kind == WorkloadKind::transformer;
  const std::uint64_t stream = stream_of(Input::x, whole ? 0 : rank_, round);
  for (std::size_t i = 0; i < input_.size(); ++i) input_[i] = value_at(stream, static_cast<std::int64_t>(i));
  if (refresh_more_) refresh_more_(round);
}

void Block::run(Style style, StageLog& log) {
  log.start();
  for (std::size_t s = 0; s < stages_.size(); ++s) {
    log.enter(static_cast<int>(s));
    stages_[s].run(style, log);
  }
}

// One run of the products alone gives every part inputs to settle with.
void Block::settle(const std::function<void(const std::string&)>& progress) {
  StageLog unused;
  run(Style::compute, unused);
  for (auto& part : parts_) {
    if (!part->communicates()) continue;
    progress(part->name());
    part->settle(part->last_inputs());
  }
}

double Block::predicted_s(const Stage& stage, Style style, const Cluster& cluster) const {
  if (stage.predicted_s) return stage.predicted_s(style, cluster);
  double sum = 0;
  for (const Part* part : stage.parts) sum += part->predicted_s(style, cluster);
  return sum;
}

double block_bytes(const Workload& workload, int ranks) {
  double elements = 0;
  for (int rank = 0; rank < ranks; ++rank)
    for (const SubLayer& layer : sub_layers(workload, {.ranks = ranks, .rank = rank}, Phase::forward)) {
      const auto m = static_cast<double>(layer.m), n = static_cast<double>(layer.n), k = static_cast<double>(layer.k);
      if (layer.work == WorkKind::gemm) elements += static_cast<double>(layer.count) * k * n;
      elements += static_cast<double>(layer.count) * m * (layer.communicates() ? 8 * n : 2 * n);
    }
  if (workload.kind == WorkloadKind::dlrm)
    for (const std::int64_t rows : workload.rows) elements += static_cast<double>(rows * workload.dim);
  return 4 * elements;
}

const float* as_one(const Result& result, std::int64_t cols, float* room) {
  if (result.size() == 1) return result[0].values.data;
  for (const Placed& p : result)
    copy(p.values.rows, p.values.cols, ConstStrip{p.values.data, p.values.cols, Dtype::f32},
         Strip{room + p.row * cols + p.col, cols, Dtype::f32});
  return room;
}

void add_to(const Result& result, const float* x, Block::Width width, float* out) {
  for (const Placed& p : result) {
    const std::int64_t rows = std::min(p.values.rows, width.rows - p.row), at = p.row * width.cols + p.col;
    const ConstStrip sources[] = {{x + at, width.cols, Dtype::f32}, {p.values.data, p.values.cols, Dtype::f32}};
    if (rows > 0) sum(rows, p.values.cols, sources, {out + at, width.cols, Dtype::f32});
  }
}

void norm(const float* x, Block::Width width, float* y) {
  const std::vector<float> ones(static_cast<std::size_t>(width.cols), 1.0f);
  rms_norm(width.rows, width.cols, {.weight = ones.data()}, x, width.cols, y, width.cols);
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

void add_attention_of_heads(Block& block, Part& in, float* qkv, float* attended) {
  const Workload& w = block.workload();
  const SubLayer layer = block.layer("attention");
  const std::int64_t q = block.layer("op").k, kv = (block.layer("ip").n - q) / 2;
  const auto attend = attention_over({w.tokens(), w.sequence, q, kv, w.head_dim});
  block.stage({"attention",
               [=, &in](Style, StageLog& log) {
                 attend(as_one(in.last_result(), q + 2 * kv, qkv), attended);
                 log.did(Doing::make);
               },
               {},
               [layer](Style, const Cluster& cluster) { return compute_seconds(layer, cluster); }});
}

}  // namespace weft::cli
