// A step of a recommendation model: tables dealt to all ranks, dense layers the same on all, each with its own samples.
#include <algorithm>
#include <utility>

#include "weft/base/error.h"
#include "weft/sim/step/block_writer.h"

namespace weft::netsim {
namespace {

using Needs = ProgramWriter::Nodes;

class DlrmWriter {
 public:
  DlrmWriter(const Workload& w, const Training& training, const TrainingOptions& options, GraphWriter* graph)
      : options_(options), graph_(*graph), ranks_(training.dp) {
    for (const SubLayer& layer : sub_layers(w, {.ranks = ranks_})) {
      if (layer.work == WorkKind::embedding_bag)
        (layer.phase == Phase::forward ? lookup_ : update_) = layer;
      else
        (layer.phase == Phase::forward ? forward_ : backward_).push_back(layer);
    }
    graph_.graph().communicators.push_back(communicator_along("dp", {ranks_}, {0}));
    row_bytes_ = static_cast<std::int64_t>(size_of(w.dtype));
    // A step takes as long as the rank with the most to read.
    for (int rank = 1; rank < ranks_; ++rank)
      for (const SubLayer& layer : sub_layers(w, {.ranks = ranks_, .rank = rank}, Phase::forward))
        if (layer.work == WorkKind::embedding_bag && layer.k > lookup_.k) lookup_.k = update_.k = layer.k;
  }

  StepProgram write() {
    Exchange lookup = exchange("embedding", work_seconds(lookup_, options_), options_.forward);
    lookup.after = Collective::all_to_all, lookup.after_bytes = exchanged_bytes();
    add_exchange(lookup, options_, &graph_, &flow_, {});
    const Needs rows = flow_.front;
    flow_.front = {};
    add_dense(forward_, "bottom");
    flow_.front.insert(flow_.front.end(), rows.begin(), rows.end());
    add_dense(forward_, "cross");
    add_dense(forward_, "top");
    add_dense(backward_, "top");
    add_dense(backward_, "cross");
    std::vector<Needs> gradients;
    for (int part = 0; part < options_.update_parts; ++part)
      gradients.push_back(add_gradients(part == 0 ? Needs{} : gradients.back()));
    flow_.front = {};
    add_dense(backward_, "bottom");
    const double update_bytes = 2 * static_cast<double>(update_.m) * static_cast<double>(update_.k) *
                                static_cast<double>(update_.dim * row_bytes_) * options_.update_factor;
    for (const Needs& part : gradients) {
      flow_.front = part;
      const double seconds = update_bytes / options_.bytes_per_s / options_.update_parts;
      add_exchange(exchange("table update", seconds, Overlap::bulk), options_, &graph_, &flow_, {});
    }
    for (const auto& [sum, weights] : sums_)
      flow_.last = flow_.program.compute(graph_.name("update"),
                                         weights * 3 * static_cast<double>(row_bytes_) / options_.bytes_per_s,
                                         {sum, flow_.last});
    return flow_.program.take();
  }

 private:
  Exchange exchange(std::string name, double seconds, Overlap overlap) const {
    Exchange out;
    out.name = std::move(name), out.seconds = seconds, out.overlap = overlap;
    out.communicator = 0, out.ranks = ranks_;
    return out;
  }
  std::int64_t exchanged_bytes() const { return lookup_.m * lookup_.n * row_bytes_; }

  // Bottom layers go back beside the gradients' exchange; the products of a weight's gradient start its sum.
  void add_dense(const std::vector<SubLayer>& layers, std::string_view part) {
    for (const SubLayer& layer : layers) {
      if (!layer.name.starts_with(part)) continue;
      add_exchange(exchange(std::string(layer.name), work_seconds(layer, options_), Overlap::bulk), options_, &graph_,
                   &flow_, flow_.front);
      if (!layer.name.ends_with("_wgrad") || ranks_ == 1) continue;
      const std::int64_t weights = layer.m * layer.n;
      const std::int32_t shape = graph_.shape({SpaceKind::all_reduce, ranks_, weights * row_bytes_});
      sums_.push_back({flow_.program.collective(graph_.name("dense all_reduce"), shape, 0, {flow_.last}),
                       static_cast<double>(weights)});
    }
  }

  // What meets the dense part gives every table's rows their gradients: read and written once. Parts go one after the
  // other, or all would come last. Returns what a part of the update waits for.
  Needs add_gradients(const Needs& before) {
    const Needs from = flow_.front;
    const std::int64_t bytes = exchanged_bytes() / options_.update_parts;
    Exchange out =
        exchange("interaction_bwd", 2 * static_cast<double>(bytes) / options_.bytes_per_s, options_.backward);
    out.after = Collective::all_to_all, out.after_bytes = bytes;
    Needs input = from;
    input.insert(input.end(), before.begin(), before.end());
    flow_.front = input;
    add_exchange(out, options_, &graph_, &flow_, input);
    return std::exchange(flow_.front, from);
  }

  const TrainingOptions& options_;
  GraphWriter& graph_;
  const int ranks_;
  std::int64_t row_bytes_ = 4;
  SubLayer lookup_, update_;
  std::vector<SubLayer> forward_, backward_;
  std::vector<std::pair<std::int32_t, double>> sums_;  // of gradients: the node, how many weights
  Flow flow_;
};

}  // namespace

StepGraph dlrm_step(const Workload& workload, const Training& training, const TrainingOptions& options) {
  if (training.tp != 1 || training.pp != 1 || training.ep != 1)
    bad_input("workload \"{}\": tables are dealt to all ranks; give 1 for tp, pp and ep", workload.name);
  Workload whole = workload;
  whole.batch = training.micro_batch * training.dp;
  GraphWriter writer(workload.name, options.plans);
  StepGraph& graph = writer.graph();
  graph.num_ranks = training.dp;
  graph.axes = {training.dp};
  graph.is_alike = {true};
  graph.programs.push_back(DlrmWriter(whole, training, options, &writer).write());
  graph.program_of.assign(num(training.dp), 0);
  return writer.take();
}

}  // namespace weft::netsim
