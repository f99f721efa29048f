#include "weft/sim/step/training.h"

#include <algorithm>

#include "weft/base/error.h"
#include "weft/schedule/build.h"
#include "weft/sim/step/block_writer.h"

namespace weft::netsim {
namespace {

constexpr int kPp = 2;  // of the digits (dp, ep, pp, tp)

// Bytes that a weight's update reads and writes: its gradient, master copy, two moments, and itself.
constexpr double kUpdateBytes = 2 + 2 * (4 + 4 + 4) + 2;

using Nodes = ProgramWriter::Nodes;

class StageWriter {
 public:
  StageWriter(const Workload& micro, const TrainingOptions& options, GraphWriter* graph, BlockWriter* block)
      : options_(options), graph_(*graph), block_(*block), micro_(micro) {}

  StepProgram write(const pipeline::Schedule& schedule, int stage) {
    schedule_ = &schedule;
    stage_ = stage;
    const std::size_t places = num(schedule.num_chunks) * num(schedule.num_micro_batches);
    forward_.assign(places, {});
    for (const pipeline::WorkItem& item : schedule.stages[at(stage)]) add(item);
    for (const auto& [sum, weights] : sums_) {
      const double seconds = weights * kUpdateBytes / options_.bytes_per_s;
      out_.last = out_.program.compute(graph_.name("update"), seconds, {sum, out_.last});
    }
    return out_.program.take();
  }

 private:
  int position(const pipeline::WorkItem& item) const { return schedule_->position(stage_, item.chunk); }
  std::size_t place(const pipeline::WorkItem& item) const {
    return at(item.chunk) * num(schedule_->num_micro_batches) + at(item.micro_batch);
  }
  int layers_at(int where) const {
    const auto layers = static_cast<int>(micro_.layers), parts = schedule_->num_positions();
    return layers * (where + 1) / parts - layers * where / parts;
  }

  void add(const pipeline::WorkItem& item) {
    using pipeline::Work;
    const int layers = layers_at(position(item));
    const bool is_last = item.micro_batch == schedule_->num_micro_batches - 1;
    if (item.work == Work::forward || item.work == Work::recompute) {
      if (item.work == Work::forward) out_.front = received(item, true);
      for (int layer = 0; layer < layers; ++layer) block_.forward(&out_);
      if (item.work == Work::forward) forward_[place(item)] = out_.front, send(item, true);
      return;
    }
    const bool inputs = item.work != Work::backward_weight, weights = item.work != Work::backward_input;
    if (inputs) out_.front = received(item, false);
    for (int layer = 0; layer < layers; ++layer) {
      block_.backward(&out_, inputs, weights);
      if (weights && is_last) sum_gradients();
    }
    if (item.work == Work::backward) out_.front.push_back(out_.last);  // whole, as the schedule has it
    if (inputs) send(item, false);
  }

  void sum_gradients() {
    for (const auto& [communicator, weights] : block_.weights()) {
      std::int32_t sum = out_.last;
      const int ranks = int_size(graph_.graph().communicators[at(communicator)].groups[0]);
      if (ranks > 1) {
        const auto bytes = static_cast<std::int64_t>(weights) * static_cast<std::int64_t>(size_of(micro_.dtype));
        sum = out_.program.collective(graph_.name("gradients all_reduce"),
                                      graph_.shape({SpaceKind::all_reduce, ranks, bytes}), communicator, {out_.last});
      }
      sums_.push_back({sum, weights});
    }
  }

  StepNode transfer(const pipeline::WorkItem& item, bool forward, NodeKind kind) const {
    const int from = forward == (kind == NodeKind::send) ? position(item) : position(item) - 1;
    StepNode node;
    node.kind = kind;
    node.communicator = block_.stages();
    // The boundary behind position `from`, crossed up or down.
    node.tag = ((forward ? 0 : schedule_->num_positions()) + from) * schedule_->num_micro_batches + item.micro_batch;
    const bool up = forward == (kind == NodeKind::send);
    node.peer = (position(item) + (up ? 1 : -1)) % schedule_->num_stages();
    node.bytes = block_.boundary_bytes();
    return node;
  }

  // What the item needs from another position; the last one's backward needs its own forward.
  Nodes received(const pipeline::WorkItem& item, bool forward) {
    const int last = schedule_->num_positions() - 1, here = position(item);
    if (here == (forward ? 0 : last)) return forward ? Nodes{} : forward_[place(item)];
    if (schedule_->num_stages() == 1) return forward_[at(item.micro_batch)];
    StepNode node = transfer(item, forward, NodeKind::receive);
    node.name = graph_.name(forward ? "receive activations" : "receive gradients");
    return {out_.program.transfer(node, {})};
  }

  void send(const pipeline::WorkItem& item, bool forward) {
    const int last = schedule_->num_positions() - 1, here = position(item);
    if (here == (forward ? last : 0) || schedule_->num_stages() == 1) return;
    StepNode node = transfer(item, forward, NodeKind::send);
    node.name = graph_.name(forward ? "send activations" : "send gradients");
    out_.program.transfer(node, out_.front);
  }

  const TrainingOptions& options_;
  GraphWriter& graph_;
  BlockWriter& block_;
  const Workload& micro_;
  const pipeline::Schedule* schedule_ = nullptr;
  int stage_ = 0;
  Flow out_;
  std::vector<Nodes> forward_;                         // per chunk and micro-batch: what its forward ends with
  std::vector<std::pair<std::int32_t, double>> sums_;  // of gradients: the node, how many weights
};

void check_rates(const TrainingOptions& options) {
  for (const double rate : {options.flops_per_s, options.bytes_per_s})
    if (!(rate > 0 && rate < 1e30))
      bad_input("a rank of {} flop/s and {} bytes/s; give a chip or a cluster with positive rates", options.flops_per_s,
                options.bytes_per_s);
  if (options.panels < 1 || options.panels > 64) bad_input("{} panels; use 1 to 64", options.panels);
  if (options.update_parts < 1 || options.update_parts > 64)
    bad_input("an update in {} parts; use 1 to 64", options.update_parts);
  if (!(options.fused_factor >= 0.1 && options.fused_factor <= 10))
    bad_input("a fused producer takes {} of its time; use 0.1 to 10", options.fused_factor);
}

StepGraph block_step(const Workload& workload, const Training& training, const TrainingOptions& options) {
  Workload micro = workload;
  micro.batch = training.micro_batch;
  pipeline::BuildOptions order;
  order.kind = pipeline::parse_kind(training.schedule);
  order.stages = training.pp, order.micro_batches = training.micro_batches, order.chunks = training.chunks;
  const pipeline::Schedule schedule = pipeline::build(order);
  if (schedule.num_positions() > workload.layers)
    bad_input("workload \"{}\": {} layers cannot be shared by {} stages; use fewer", workload.name, workload.layers,
              schedule.num_positions());
  GraphWriter writer(workload.name, options.plans);
  StepGraph& graph = writer.graph();
  graph.num_ranks = training.ranks();
  graph.axes = {training.dp, training.ep, training.pp, training.tp};
  BlockWriter block(micro, training, options, &writer);
  graph.is_alike = {true, block.ep_is_alone(), false, true};
  for (int stage = 0; stage < training.pp; ++stage)
    graph.programs.push_back(StageWriter(micro, options, &writer, &block).write(schedule, stage));
  const Digits digits(graph.axes);
  for (int rank = 0; rank < graph.num_ranks; ++rank) graph.program_of.push_back(digits.digit(rank, kPp));
  return writer.take();
}

}  // namespace

StepGraph training_step(const Workload& workload, const Training& training, const TrainingOptions& options) {
  check_rates(options);
  if (std::min({training.tp, training.pp, training.dp, training.ep}) < 1 || training.ranks() > 65536)
    bad_input("tp {}, pp {}, dp {}, ep {} ranks; use 1 or more of each, 65536 together", training.tp, training.pp,
              training.dp, training.ep);
  return workload.kind == WorkloadKind::dlrm ? dlrm_step(workload, training, options)
                                             : block_step(workload, training, options);
}

}  // namespace weft::netsim
