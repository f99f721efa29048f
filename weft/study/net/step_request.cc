#include "weft/study/net/step_request.h"

#include <filesystem>

#include <nlohmann/json.hpp>

#include "weft/base/error.h"
#include "weft/base/json.h"
#include "weft/cluster/cluster.h"
#include "weft/sim/chip/chip.h"
#include "weft/sim/net/step_times.h"
#include "weft/sim/step/chakra.h"
#include "weft/sim/step/text_workload.h"

namespace weft::netsim {
namespace {

Reduction reduction_of(const std::string& text) {
  if (text == "all_reduce" || text == "all-reduce") return Reduction::all_reduce;
  if (text == "reduce_scatter" || text == "reduce-scatter") return Reduction::reduce_scatter;
  bad_input("--reduction {} is neither all_reduce nor reduce_scatter; give one of them", text);
}

}  // namespace

Subject subject_of(const std::string& name) {
  std::error_code error;
  if (name.ends_with(".et") || std::filesystem::is_regular_file(name + ".0.et", error)) return Subject::chakra;
  if (name.ends_with(".txt")) return Subject::text;
  if (!std::filesystem::is_regular_file(name, error))
    return name.find('/') == std::string::npos && !name.ends_with(".json") ? Subject::workload : Subject::plan;
  try {
    return find_field(load_json(name), "scale_down", name) != nullptr ? Subject::workload : Subject::plan;
  } catch (const Error&) {
    return Subject::plan;  // what is wrong with it, the loader of plans says
  }
}

StepGraph load_step(const std::string& name, const StepRequest& request, int network_ranks) {
  const Subject subject = subject_of(name);
  if (subject == Subject::workload) {
    if (!request.fuse.empty() || !request.groups.empty())
      bad_input("--fuse and --groups are for traces; \"{}\" is a workload, give --forward and --backward", name);
    const Workload workload = load_workload(name);
    TrainingOptions how = training_options(request);
    how.plans.prove = request.prove;
    return training_step(workload, training_of(workload, request), how);
  }
  TextOptions text{.ranks = network_ranks, .model_ranks = request.tp};
  text.trace.fuse = request.fuse;
  text.trace.plans = {parse_route(request.route), request.pieces, request.prove};
  if (!request.cluster.empty() || !request.chip.empty()) {
    const TrainingOptions rates = training_options(request);
    text.trace.flops_per_s = rates.flops_per_s, text.trace.bytes_per_s = rates.bytes_per_s;
  }
  if (subject == Subject::text) return load_text_workload(name, text);
  std::string prefix = name;
  if (prefix.ends_with(".0.et")) prefix.resize(prefix.size() - 5);
  return load_chakra(prefix, request.groups, text.trace);
}

Training training_of(const Workload& workload, const StepRequest& request) {
  Training out = workload.training;
  if (request.tp > 0) out.tp = request.tp;
  if (request.pp > 0) out.pp = request.pp;
  if (request.dp > 0) out.dp = request.dp;
  if (request.ep > 0) out.ep = request.ep;
  if (request.micro_batches > 0) out.micro_batches = request.micro_batches;
  if (request.micro_batch > 0) out.micro_batch = request.micro_batch;
  if (!request.schedule.empty()) out.schedule = request.schedule;
  return out;
}

TrainingOptions training_options(const StepRequest& request) {
  if (request.cluster.empty() == request.chip.empty())
    bad_input("a rank's rates come from one place; give either --chip NAME|FILE or --cluster FILE");
  const StepRates rates =
      request.chip.empty() ? rates_of(load_cluster(request.cluster)) : rates_of(sim::load_chip(request.chip));
  TrainingOptions out;
  out.forward = parse_overlap(request.forward), out.backward = parse_overlap(request.backward);
  out.panels = request.panels;
  out.reduction = reduction_of(request.reduction);
  out.flops_per_s = rates.flops_per_s, out.bytes_per_s = rates.read_bytes_per_s;
  out.fused_factor = request.fused_factor, out.update_factor = request.update_factor;
  out.update_parts = request.update_parts;
  out.plans.route = parse_route(request.route);
  out.plans.pieces = request.pieces;
  return out;
}

}  // namespace weft::netsim
