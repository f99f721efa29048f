#include "weft/study/ledger/block.h"

#include <algorithm>
#include <cmath>

#include "weft/base/error.h"
#include "weft/base/index.h"
#include "weft/study/input/values.h"
#include "weft/world/world.h"

namespace weft {

WorkloadBlock::WorkloadBlock(World& world, CommonClock& clock, const Workload& workload)
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

const SubLayer& WorkloadBlock::layer(const std::string& name) const {
  for (const SubLayer& layer : layers_)
    if (layer.name == name) return layer;
  fail(Code::internal, "workload \"{}\" has no sub-layer \"{}\"", workload_.name, name);
}

float* WorkloadBlock::buffer(std::int64_t elements) { return buffers_.emplace_back(num(elements), 0.0f).data(); }

const float* WorkloadBlock::weights(std::int64_t k, std::int64_t n, std::int64_t sum_k) {
  const float scale = std::sqrt(3.0f / static_cast<float>(sum_k));  // uniform in [-1, 1) has a third of variance
  if (workload_.kind == WorkloadKind::transformer)
    return loader_.load(k, n, sum_k == k ? WeightLoader::Split::columns : WeightLoader::Split::rows, scale);
  float* w = buffer(k * n);
  const std::uint64_t stream = stream_of(Input::w, rank_, 0, ++num_weights_);
  for (std::int64_t i = 0; i < k * n; ++i) w[i] = value_at(stream, i) * scale;
  return w;
}

MeasuredPart& WorkloadBlock::part(const std::string& name, const Producer& producer, const Space& space, bool gathers) {
  OpSpec spec{.name = name, .producer = producer, .space = space, .gathers = gathers, .ranks = ranks_};
  return *parts_.emplace_back(std::make_unique<MeasuredPart>(world_, clock_, name, std::move(spec)));
}

// Ranks that hold every token are given the same ones: an input of rank 0's stream.
void WorkloadBlock::refresh(std::uint64_t round) {
  const bool whole = workload_.kind == WorkloadKind::transformer;
  const std::uint64_t stream = stream_of(Input::x, whole ? 0 : rank_, round);
  for (std::int64_t i = 0; i < std::ssize(input_); ++i) input_[at(i)] = value_at(stream, i);
  if (refresh_more_) refresh_more_(round);
}

void WorkloadBlock::run(Style style, StageLog& log) {
  log.start();
  for (int s = 0; s < int_size(stages_); ++s) {
    log.enter(s);
    stages_[at(s)].run(style, log);
  }
}

// One run of the products alone gives every part inputs to settle with.
void WorkloadBlock::settle(const std::function<void(const std::string&)>& progress) {
  StageLog unused;
  run(Style::compute, unused);
  for (auto& part : parts_) {
    if (!part->communicates() && !part->tries_libraries()) continue;
    progress(part->name());
    part->settle(part->last_inputs());
  }
}

double WorkloadBlock::predicted_s(const Stage& stage, Style style, const Cluster& cluster) const {
  if (stage.predicted_s) return stage.predicted_s(style, cluster);
  double sum = 0;
  for (const MeasuredPart* part : stage.parts) sum += part->predicted_s(style, cluster);
  return sum;
}

double block_bytes(const Workload& workload, int ranks) {
  if (workload.interaction > 0)
    bad_input("workload \"{}\" meets its tables in {} columns, which is for simulation; run dlrm-v2", workload.name,
              workload.interaction);
  double elements = 0;
  for (int rank = 0; rank < ranks; ++rank)
    for (const SubLayer& layer : sub_layers(workload, {.ranks = ranks, .rank = rank}, Phase::forward)) {
      const double m = layer.m, n = layer.n, k = layer.k;
      if (layer.work == WorkKind::gemm) elements += 2 * layer.count * k * n;  // and a library's copy of them
      elements += layer.count * m * (layer.communicates() ? 8 * n : 2 * n);
    }
  if (workload.kind == WorkloadKind::dlrm)
    for (const std::int64_t rows : workload.rows) elements += rows * workload.dim;
  return 4 * elements;
}

}  // namespace weft
