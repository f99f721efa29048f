// Compiles a step's plans, folds ranks where that is proved, runs it and sums it up.
#include "weft/sim/step/run.h"

#include <algorithm>
#include <numeric>
#include <unordered_map>

#include "weft/base/error.h"
#include "weft/base/trace.h"
#include "weft/plan/program.h"
#include "weft/sim/net/report.h"
#include "weft/sim/net/symmetry.h"

namespace weft::netsim {
namespace {

constexpr std::size_t kMaxSends = std::size_t{1} << 20;  // of one script: a message's key has room for so many

// A rank's steps share the shape's time by the size of what they make.
StepSeconds shared_seconds(const StepShape& shape, const Program& zero) {
  if (shape.seconds <= 0) return {};
  double volume = 0;
  for (const Action& action : zero.actions)
    if (action.kind == ActionKind::step) volume += static_cast<double>(action.box.volume());
  const double scale = shape.seconds / volume;
  return [scale](const Program&, const Action& action) { return scale * static_cast<double>(action.box.volume()); };
}

Compiled compile(const StepShape& shape, const Topology& topology) {
  Compiled out;
  const Expander expander(shape.plan);
  const Program zero = expander.program(0);
  ScriptOptions options;
  options.step_seconds = shared_seconds(shape, zero);
  out.computes = shape.seconds > 0;
  if (const auto symmetry = plan_symmetry(shape.plan, expander, zero, topology)) {
    out.digits = symmetry->digits;
    out.scripts = one_script(shape.plan, expander, zero, symmetry->raised, options);
    out.comes.assign(1, 0);
    for (const Send& send : out.scripts.of[0].sends) out.comes[0] += send.bytes > 0 && send.to != 0;
  } else {
    out.scripts = every_script(shape.plan, expander, options);
    out.comes.assign(num(shape.plan.num_ranks), 0);
    for (int rank = 0; rank < shape.plan.num_ranks; ++rank)
      for (const Send& send : out.scripts.of[at(rank)].sends)
        out.comes[at(send.to)] += send.bytes > 0 && send.to != rank;
  }
  for (const Script& script : out.scripts.of)
    if (script.sends.size() > kMaxSends)
      bad_input("plan \"{}\" sends {} messages from a rank; a step takes {}, use larger tiles", shape.plan.name,
                script.sends.size(), kMaxSends);
  return out;
}

// Which digits may be shifted: those that the builder says, that the network shares, and under which every plan is one.
std::vector<int> alike_steps(const StepGraph& graph, const std::vector<Compiled>& shapes, const Topology& topology) {
  const Digits digits(graph.axes);
  std::vector<int> steps = graph.axes;
  for (const Compiled& shape : shapes)
    if (!shape.scripts.shared || shape.digits.num() != 1) return steps;
  if (digits.count() != topology.num_ranks) return steps;
  const std::vector<int> shared = shared_steps(digits, topology);
  for (int d = 0; d < digits.num(); ++d)
    if (graph.is_alike[at(d)]) steps[at(d)] = shared[at(d)];
  return steps;
}

StepStage set_up(const StepGraph& graph, const Topology& topology, const StepRunOptions& options) {
  StepStage out;
  out.graph = &graph;
  out.keep_slices = options.keep_slices;
  for (const StepShape& shape : graph.shapes) out.shapes.push_back(compile(shape, topology));
  Classes classes;
  if (graph.axes.empty()) {
    classes = classes_of(Digits({graph.num_ranks}), {graph.num_ranks}, topology);
  } else {
    classes = classes_of(Digits(graph.axes), alike_steps(graph, out.shapes, topology), topology);
  }
  out.class_of = classes.class_of;
  if (options.ranks == Ranks::folded && classes.count < graph.num_ranks) {
    out.seat_of = classes.class_of;
    for (int rank = 0; rank < graph.num_ranks; ++rank)
      if (classes.first_of[at(rank)] == rank) out.rank_of.push_back(rank);
    out.canonical = std::move(classes.wire_of);
  } else {
    out.rank_of.resize(num(graph.num_ranks));
    std::iota(out.rank_of.begin(), out.rank_of.end(), 0);
    out.seat_of = out.rank_of;
  }
  return out;
}

// What each plan takes alone, on the first group that uses it.
std::vector<double> alone_seconds(const StepGraph& graph, const Topology& topology) {
  std::vector<double> out(graph.shapes.size(), -1);
  for (int rank = 0; rank < graph.num_ranks; ++rank)
    for (const StepNode& node : graph.program(rank).nodes) {
      if (node.kind != NodeKind::collective || out[at(node.shape)] >= 0) continue;
      const Communicator& where = graph.communicators[at(node.communicator)];
      const auto& ranks = where.groups[at(where.group_of[at(rank)])];
      Job job{&graph.shapes[at(node.shape)].plan, {ranks.begin(), ranks.end()}, 0};
      const bool is_all = int_size(ranks) == topology.num_ranks && std::is_sorted(ranks.begin(), ranks.end());
      if (is_all) job.ranks.clear();  // which can be folded
      out[at(node.shape)] = simulate({job}, topology).seconds();
    }
  return out;
}

std::vector<OperatorUse> operators_of(const StepGraph& graph, const Topology& topology, const StepMachine& machine,
                                      const StepRunOptions& options, int seats) {
  std::vector<double> of_name(graph.names.size(), 0);
  if (options.time_alone) {
    const std::vector<double> of_shape = alone_seconds(graph, topology);
    for (const StepProgram& program : graph.programs)
      for (const StepNode& node : program.nodes)
        if (node.kind == NodeKind::collective) of_name[at(node.name)] = of_shape[at(node.shape)];
  }
  std::vector<OperatorUse> out;
  for (std::size_t name = 0; name < graph.names.size(); ++name) {
    const NameUse& use = machine.uses()[name];
    if (use.count == 0) continue;
    const auto mean = [&](Time sum) { return sim::to_seconds(sum) / seats; };
    OperatorUse one;
    one.name = graph.names[name];
    one.count = static_cast<double>(use.count) / seats;
    one.compute_s = mean(use.compute), one.exposed_s = mean(use.exposed);
    one.comm_s = mean(use.comm) + of_name[name] * one.count;
    one.hidden_s = std::max(one.comm_s - one.exposed_s, 0.0);
    out.push_back(std::move(one));
  }
  std::stable_sort(out.begin(), out.end(),
                   [](const OperatorUse& a, const OperatorUse& b) { return a.exposed_s > b.exposed_s; });
  return out;
}

}  // namespace

StepResult simulate_step(const StepGraph& graph, const Topology& topology, const StepRunOptions& options) {
  if (graph.num_ranks > topology.num_ranks)
    bad_input("{} is for {} ranks, but network \"{}\" has {}; use a larger network or fewer ranks", graph.name,
              graph.num_ranks, topology.name, topology.num_ranks);
  const StepStage stage = set_up(graph, topology, options);
  StepMachine machine(stage, topology);
  machine.run();
  const int seats = int_size(stage.rank_of), group = graph.num_ranks / seats;
  StepResult out;
  NetResult& net = out.net;
  net.end = machine.end(), net.ends = {machine.end()};
  net.compute = machine.busiest(), net.chain = machine.chain();
  net.bytes = machine.bytes() * group, net.messages = machine.messages() * group;
  net.hops = machine.wires().hops(), net.events = machine.events();
  net.ranks = graph.num_ranks, net.simulated = seats;
  check_bounds(machine.wires(), topology, &net);
  net.wires = machine.wires().uses();
  net.canonical = stage.canonical;
  net.crossings = machine.wires().crossings();
  out.operators = operators_of(graph, topology, machine, options, seats);
  out.slices = machine.slices();
  return out;
}

std::string step_trace(const StepResult& result, const StepGraph& graph, const Topology& topology,
                       const StepTraceOptions& options) {
  TraceText trace;
  const int ranks = std::min(graph.num_ranks, options.ranks);
  for (int rank = 0; rank < ranks; ++rank) trace.name_process(rank, fmt::format("rank {}", rank), rank);
  const auto us = [](Time time) { return static_cast<double>(time) * 1e-6; };
  for (const NodeSlice& slice : result.slices) {
    if (slice.rank >= ranks) continue;
    const StepNode& node = graph.program(slice.rank).nodes[at(slice.node)];
    // Collectives of a rank can be under way together: each communicator has a row.
    const int row = node.kind == NodeKind::compute ? 0 : 1 + 2 * node.communicator + (node.kind == NodeKind::receive);
    trace.slice({slice.rank, row}, graph.name_of(node), to_string(node.kind), us(slice.begin),
                us(slice.end - slice.begin));
  }
  for (int rank = 0; rank < ranks; ++rank) {
    trace.name_row({rank, 0}, "compute");
    for (int c = 0; c < int_size(graph.communicators); ++c) {
      trace.name_row({rank, 1 + 2 * c}, graph.communicators[at(c)].name);
      trace.name_row({rank, 2 + 2 * c}, graph.communicators[at(c)].name + ", receiving");
    }
  }
  add_links(result.net, topology, options.links, &trace);
  return TraceText::file({trace.events()});
}

}  // namespace weft::netsim
