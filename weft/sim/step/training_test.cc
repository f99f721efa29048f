#include "weft/sim/step/training.h"

#include <gtest/gtest.h>

#include "weft/base/refusal_test.h"
#include "weft/sim/step/run.h"

namespace weft::netsim {
namespace {

const Link kHostLink{400e9, 500e-9}, kRailLink{50e9, 1e-6};

Workload small_transformer() {
  Workload w;
  w.name = "small";
  w.hidden = 512, w.layers = 4, w.heads = 8, w.kv_heads = 8, w.head_dim = 64, w.ffn = 2048, w.sequence = 256;
  w.batch = 1;
  return w;
}

Workload small_moe() {
  Workload w = small_transformer();
  w.kind = WorkloadKind::moe;
  w.experts = 8, w.top_k = 2, w.attention = AttentionSplit::data;
  return w;
}

Workload small_dlrm(int tables) {
  Workload w;
  w.name = "tables", w.kind = WorkloadKind::dlrm, w.dtype = Dtype::f32;
  w.dim = 32;
  w.rows.assign(num(tables), 1000), w.multi_hot.assign(num(tables), 10);
  w.bottom = {16, 64, 32}, w.top = {64, 64, 1}, w.cross_rank = 1, w.interaction = 64;
  return w;
}

TrainingOptions rates() {
  TrainingOptions out;
  out.flops_per_s = 100e12, out.bytes_per_s = 2e12;
  return out;
}

TEST(Training, EveryScheduleAndOverlapRunsAndFoldsToThePicosecond) {
  const Topology network = rails_topology(8, 4, kHostLink, kRailLink);
  const Training base{.tp = 4, .pp = 2, .dp = 4, .micro_batches = 4};
  for (const char* schedule : {"gpipe", "1f1b", "eager_1f1b", "interleaved_1f1b", "zero_bubble"})
    for (const Overlap overlap : {Overlap::bulk, Overlap::panels, Overlap::fused})
      for (const Reduction reduction : {Reduction::all_reduce, Reduction::reduce_scatter}) {
        Training training = base;
        training.schedule = schedule;
        training.chunks = training.schedule == "interleaved_1f1b" ? 2 : 1;
        TrainingOptions options = rates();
        options.forward = options.backward = overlap, options.reduction = reduction;
        const StepGraph graph = training_step(small_transformer(), training, options);
        check_graph(graph);
        const StepResult folded = simulate_step(graph, network);
        const StepResult every = simulate_step(graph, network, {Ranks::every});
        EXPECT_EQ(folded.net.simulated, 2) << schedule;
        EXPECT_EQ(every.net.simulated, 32);
        EXPECT_EQ(folded.net.end, every.net.end) << schedule << " " << to_string(overlap);
        EXPECT_EQ(folded.net.bytes, every.net.bytes);
        EXPECT_GE(folded.net.end, folded.net.compute);
      }
}

// A pipeline of p stages and m micro-batches that sends nothing to speak of takes m + p - 1 times a stage's work.
TEST(Training, PipelineHasTheBubbleOfItsSchedule) {
  const Topology network = switch_topology(4, {1e18, 0});
  Training training{.pp = 4, .micro_batches = 8};
  const StepResult result = simulate_step(training_step(small_transformer(), training, rates()), network);
  double update = 0, compute = sim::to_seconds(result.net.compute);
  for (const OperatorUse& one : result.operators)
    if (one.name == "update") update = one.compute_s;
  EXPECT_NEAR(result.net.seconds() - update, (compute - update) * 11 / 8, 1e-9);
}

// Without anything to overlap, a step is its computing and its collectives, one after the other.
TEST(Training, OneReplicaOfOneStageIsTheSumOfItsParts) {
  const Topology network = switch_topology(4, kHostLink);
  Workload w = small_transformer();
  w.layers = 1;
  const StepGraph graph = training_step(w, {.tp = 4}, rates());
  const StepResult result = simulate_step(graph, network);
  double sum = sim::to_seconds(result.net.compute);
  for (const OperatorUse& one : result.operators) {
    if (one.name.find("bwd all_reduce") == std::string::npos) sum += one.comm_s;
    EXPECT_LE(one.exposed_s, one.comm_s + 1e-12) << one.name;
  }
  EXPECT_GT(result.net.seconds(), sum);  // what of the backward all_reduce a weight's gradient does not hide
  double exposed = 0;
  for (const OperatorUse& one : result.operators) exposed += one.exposed_s;
  EXPECT_NEAR(result.net.seconds(), sim::to_seconds(result.net.compute) + exposed, 1e-10);
}

TEST(Training, FusedBeatsPanelsBeatBulkWhereBytesAreMany) {
  const Topology network = rails_topology(8, 4, {50e9, 500e-9}, kRailLink);
  const Training training{.tp = 4, .pp = 2, .dp = 4, .micro_batches = 4};
  Time last = 0;
  for (const Overlap overlap : {Overlap::fused, Overlap::panels, Overlap::bulk}) {
    TrainingOptions options = rates();
    options.forward = options.backward = overlap;
    Workload w = small_transformer();
    w.sequence = 8192;
    const Time end = simulate_step(training_step(w, training, options), network).net.end;
    EXPECT_GT(end, last) << to_string(overlap);
    last = end;
  }
}

TEST(Training, ExpertsAndTablesRunAndFold) {
  const Topology network = rails_topology(4, 8, kHostLink, kRailLink);
  for (const Overlap overlap : {Overlap::bulk, Overlap::panels, Overlap::fused}) {
    TrainingOptions options = rates();
    options.forward = options.backward = overlap;
    const StepGraph moe =
        training_step(small_moe(), {.pp = 2, .dp = 2, .ep = 8, .micro_batches = 2, .micro_batch = 8}, options);
    const StepGraph dlrm = training_step(small_dlrm(64), {.dp = 32, .micro_batch = 64}, options);
    for (const StepGraph* graph : {&moe, &dlrm}) {
      check_graph(*graph);
      const StepResult folded = simulate_step(*graph, network);
      const StepResult every = simulate_step(*graph, network, {Ranks::every});
      EXPECT_LT(folded.net.simulated, every.net.simulated) << graph->name;
      EXPECT_EQ(folded.net.end, every.net.end) << graph->name << " " << to_string(overlap);
    }
  }
}

TEST(Training, ASlowRankOrLinkHoldsItsReplicaUp) {
  const Training training{.tp = 4, .pp = 2, .dp = 4, .micro_batches = 4};
  const StepGraph graph = training_step(small_transformer(), training, rates());
  Topology network = rails_topology(8, 4, kHostLink, kRailLink);
  const Time even = simulate_step(graph, network).net.end;
  slow_rank(&network, 5, 2, "test");
  const StepResult slow = simulate_step(graph, network);
  EXPECT_EQ(slow.net.simulated, 32);  // no class is proved any more
  EXPECT_GT(slow.net.end, even);
  Topology narrow = rails_topology(8, 4, kHostLink, kRailLink);
  slow_wire(&narrow, "rank 3", "host 0", 8, "test");
  EXPECT_GT(simulate_step(graph, narrow).net.end, even);
}

TEST(Training, RefusesWhatCannotBeSplit) {
  const auto says = [](const Training& training, TrainingOptions options) {
    return refusal([&] { training_step(small_transformer(), training, options); });
  };
  EXPECT_NE(says({.tp = 3}, rates()).find("cannot be shared by 3 ranks"), std::string::npos);
  EXPECT_NE(says({.pp = 8, .micro_batches = 8}, rates()).find("4 layers cannot be shared by 8 stages"),
            std::string::npos);
  EXPECT_NE(says({}, {}).find("give a chip or a cluster"), std::string::npos);
  EXPECT_NE(says({.dp = 0}, rates()).find("use 1 or more of each"), std::string::npos);
  const StepGraph graph = training_step(small_transformer(), {.tp = 8, .dp = 4}, rates());
  EXPECT_NE(refusal([&] { simulate_step(graph, switch_topology(16, kHostLink)); }).find("has 16; use a larger network"),
            std::string::npos);
}

}  // namespace
}  // namespace weft::netsim
