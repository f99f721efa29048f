#include "weft/sim/step/block_writer.h"

#include <algorithm>

#include "weft/base/error.h"

namespace weft::netsim {
namespace {

using Needs = ProgramWriter::Nodes;

Needs joined(Needs a, std::int32_t b) {
  a.push_back(b);
  return a;
}

bool is_of_weights(const SubLayer& layer) { return layer.name.ends_with("_wgrad"); }

// One node for both. It computes: what follows in the rank's order begins after its last step, and waits for all of it
// only where it needs it.
void add_fused(const Exchange& e, const TrainingOptions& options, GraphWriter* graph, Flow* flow, const Needs& input) {
  const bool first = e.before != Collective::none;
  const std::int64_t bytes = first ? e.before_bytes : e.after_bytes;
  const std::int32_t shape =
      graph->shape({space_of(first ? e.before : e.after), e.ranks, bytes, e.seconds * options.fused_factor, first});
  const std::string name = fmt::format("{} + {}", e.name, to_string(first ? e.before : e.after));
  flow->front = {flow->program.collective(graph->name(name), shape, e.communicator, joined(input, flow->last))};
}

void add_panels(const Exchange& e, const TrainingOptions& options, GraphWriter* graph, Flow* flow, const Needs& input) {
  const int parts = e.overlap == Overlap::panels ? options.panels : 1;
  const auto collective = [&](Collective kind, std::int64_t bytes, const Needs& needs) {
    const std::int32_t shape = graph->shape({space_of(kind), e.ranks, std::max<std::int64_t>(bytes / parts, 1)});
    return flow->program.collective(graph->name(fmt::format("{} {}", e.name, to_string(kind))), shape, e.communicator,
                                    needs);
  };
  const Needs front = flow->front;
  Needs done;
  std::int32_t brought = -1, taken = -1;
  for (int part = 0; part < parts; ++part) {
    if (e.before != Collective::none) brought = collective(e.before, e.before_bytes, joined(input, brought));
    flow->last =
        flow->program.compute(graph->name(e.name), e.seconds / parts, joined(joined(front, flow->last), brought));
    if (e.after != Collective::none) taken = collective(e.after, e.after_bytes, {flow->last, taken});
  }
  flow->front = {e.after != Collective::none ? taken : flow->last};
}

}  // namespace

double work_seconds(const SubLayer& layer, const TrainingOptions& options) {
  const double m = static_cast<double>(layer.m), n = static_cast<double>(layer.n), k = static_cast<double>(layer.k);
  const double size = static_cast<double>(size_of(layer.dtype)), count = static_cast<double>(layer.count);
  double bytes = (m * k + k * n + m * n) * size * count;
  if (layer.work == WorkKind::attention) bytes = 3 * m * n * size * count;
  if (layer.work == WorkKind::embedding_bag) bytes = (m * k * static_cast<double>(layer.dim) + m * n) * size;
  return std::max(flops(layer) / options.flops_per_s, bytes / options.bytes_per_s);
}

void add_exchange(const Exchange& e, const TrainingOptions& options, GraphWriter* graph, Flow* flow,
                  const Needs& input) {
  Exchange one = e;
  if (e.ranks == 1) one.before = one.after = Collective::none;
  const bool both = one.before != Collective::none && one.after != Collective::none;
  const bool none = one.before == Collective::none && one.after == Collective::none;
  const bool can_fuse = !both && !none && (one.before == Collective::none || one.before == Collective::all_gather);
  if (one.overlap == Overlap::fused && can_fuse) return add_fused(one, options, graph, flow, input);
  if (none || one.overlap == Overlap::fused) one.overlap = Overlap::bulk;
  add_panels(one, options, graph, flow, input);
}

BlockWriter::BlockWriter(const Workload& micro, const Training& training, const TrainingOptions& options,
                         GraphWriter* graph)
    : micro_(micro), options_(options), graph_(*graph) {
  const bool experts = micro.kind == WorkloadKind::moe;
  split_ranks_ = experts ? training.ep : training.tp;
  const Parallel parallel{split_ranks_, 0, options.reduction};
  forward_ = sub_layers(micro, parallel, Phase::forward);
  backward_ = sub_layers(micro, parallel, Phase::backward);
  const std::vector<int> axes{training.dp, training.ep, training.pp, training.tp};
  const auto add = [&](const char* name, const std::vector<int>& along) {
    graph_.graph().communicators.push_back(communicator_along(name, axes, along));
    return int_size(graph_.graph().communicators) - 1;
  };
  split_ = add(experts ? "ep" : "tp", {experts ? 1 : 3});
  stages_ = add("pp", {2});
  replicas_ = add("dp", {0});
  if (experts && micro.attention == AttentionSplit::data && training.ep > 1) {
    everybody_ = add("dp and ep", {0, 1});
    ep_is_alone_ = false;
  }
  count_weights();
  const std::int64_t shared = experts || options.reduction == Reduction::reduce_scatter ? split_ranks_ : 1;
  boundary_bytes_ = std::max<std::int64_t>(
      1, micro.tokens() * micro.hidden * static_cast<std::int64_t>(size_of(micro.dtype)) / shared);
}

// Those of experts belong to one rank of a replica; so do those that are split by columns or rows. Attention that is
// split by tokens, a router and shared experts are the same on all.
void BlockWriter::count_weights() {
  double own = 0, common = 0;
  for (const SubLayer& layer : forward_) {
    if (layer.work != WorkKind::gemm) continue;
    const double count = static_cast<double>(layer.n) * static_cast<double>(layer.k) * static_cast<double>(layer.count);
    const bool is_common = everybody_ >= 0 && !layer.name.starts_with("expert");
    (is_common ? common : own) += count;
  }
  weights_.push_back({replicas_, own});
  if (common > 0) weights_.push_back({everybody_, common});
}

Exchange BlockWriter::exchange_of(const SubLayer& layer) const {
  Exchange out;
  out.name = layer.name;
  out.seconds = work_seconds(layer, options_);
  out.before = layer.before, out.after = layer.after;
  const std::int64_t rows = layer.m * layer.count, size = static_cast<std::int64_t>(size_of(layer.dtype));
  out.before_bytes = (is_of_weights(layer) ? layer.m * layer.k * layer.count : rows * layer.k) * size;
  out.after_bytes = rows * layer.n * size;
  out.communicator = split_, out.ranks = split_ranks_;
  out.overlap = layer.phase == Phase::forward ? options_.forward : options_.backward;
  if (is_of_weights(layer) && out.overlap == Overlap::fused) out.overlap = Overlap::bulk;
  return out;
}

void BlockWriter::forward(Flow* flow) {
  for (const SubLayer& layer : forward_) add_exchange(exchange_of(layer), options_, &graph_, flow, flow->front);
}

void BlockWriter::backward(Flow* flow, bool inputs, bool weights) {
  Needs gradient = flow->front;  // that the product's gradients are made of
  for (const SubLayer& layer : backward_) {
    if (!is_of_weights(layer)) {
      gradient = flow->front;
      if (inputs) add_exchange(exchange_of(layer), options_, &graph_, flow, flow->front);
      continue;
    }
    if (!weights) continue;
    const Needs next = flow->front;  // nobody waits for a weight's gradient
    flow->front = gradient;
    add_exchange(exchange_of(layer), options_, &graph_, flow, gradient);
    flow->front = next;
  }
}

}  // namespace weft::netsim
