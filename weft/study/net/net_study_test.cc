// Plans and steps on a network as they are asked for: what a name is, what a run adds up to, and what is told of it.
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "weft/base/refusal_test.h"
#include "weft/collective/build.h"
#include "weft/io/scratch_folder_test.h"
#include "weft/plan/text/save.h"
#include "weft/study/net/plan_run.h"
#include "weft/study/net/scale_rows.h"
#include "weft/study/net/step_request.h"
#include "weft/study/net/step_run.h"

namespace weft::netsim {
namespace {

TEST(StepRequest, NamesSayWhatIsRun) {
  const ScratchFolder folder;
  EXPECT_EQ(subject_of("t-nlg"), Subject::workload);
  EXPECT_EQ(subject_of("step.txt"), Subject::text);
  EXPECT_EQ(subject_of("step.0.et"), Subject::chakra);
  EXPECT_EQ(subject_of("plans/ar.json"), Subject::plan) << "even where there is none";
  folder.write("step.0.et", "");
  EXPECT_EQ(subject_of(folder.file("step")), Subject::chakra) << "a prefix";
  folder.write("broken.json", "{");
  EXPECT_EQ(subject_of(folder.file("broken.json")), Subject::plan);
}

TEST(StepRequest, SizesThatAreNotGivenAreTheWorkloads) {
  const Workload workload = load_workload("t-nlg");
  EXPECT_EQ(training_of(workload, {}).ranks(), workload.training.ranks());
  const Training asked = training_of(workload, {.tp = 2, .pp = 4, .dp = 1, .schedule = "gpipe"});
  EXPECT_EQ(asked.ranks(), 8);
  EXPECT_EQ(asked.schedule, "gpipe");
  EXPECT_NE(refusal([] { training_options({}); }).find("give either --chip NAME|FILE or --cluster FILE"),
            std::string::npos);
  EXPECT_NE(refusal([] { training_options({.reduction = "sum", .chip = "h200-like"}); }).find("--reduction sum"),
            std::string::npos);
}

class PlansOnANetwork : public ::testing::Test {
 protected:
  PlansOnANetwork() {
    const Mesh mesh({{"tp", 16}});
    save_plan(build(gemm({.m = 1024, .n = 512, .k = 256}), reduce_scatter(mesh, "tp")), folder_.file("rs.json"));
  }

  PlanRequest request() const { return {.plan = folder_.file("rs.json")}; }

  const ScratchFolder folder_;
  const Topology ring_ = load_topology("ring-16");
};

TEST_F(PlansOnANetwork, WithoutComputingAllCommunicationIsExposed) {
  const PlanRun run = run_plans(request(), ring_);
  EXPECT_FALSE(run.alone);
  EXPECT_EQ(run.comm_s(), run.result.seconds());
  EXPECT_EQ(run.hidden_s(), 0);
}

TEST_F(PlansOnANetwork, ExposedAndHiddenAreAtMostTheTimeAlone) {
  PlanRequest asked = request();
  asked.chip = "t3-paper";
  const PlanRun run = run_plans(asked, ring_);
  ASSERT_TRUE(run.alone);
  EXPECT_GT(run.result.compute, 0);
  EXPECT_EQ(run.alone->compute, 0);
  EXPECT_GT(run.hidden_s(), 0);
  EXPECT_LT(run.hidden_s(), run.comm_s());
  const auto told = nlohmann::json::parse(plan_run_json(run, 3));
  EXPECT_NEAR(told["time_us"].get<double>(), run.result.seconds() * 1e6, 1e-9);
  EXPECT_NEAR(told["hidden_us"].get<double>(), run.hidden_s() * 1e6, 1e-9);
  EXPECT_LE(told["links"].size(), 3u);
  EXPECT_NE(plan_run_text(run, 3).find("on network ring-16"), std::string::npos);
  EXPECT_EQ(plan_run_text(run, 0).find("hottest links"), std::string::npos) << "no links, no table";
}

TEST_F(PlansOnANetwork, TimesComeFromOnePlace) {
  PlanRequest asked = request();
  asked.chip = "t3-paper", asked.steps = "steps.json";
  EXPECT_NE(refusal([&] { run_plans(asked, ring_); }).find("give one of --cluster, --chip and --steps"),
            std::string::npos);
  asked.steps.clear(), asked.beside = asked.plan;
  EXPECT_NE(refusal([&] { run_plans(asked, ring_); }).find("is for collectives alone"), std::string::npos);
}

// A block of t-nlg on 16 ranks, small enough for a test.
StepRequest small_step() { return {.tp = 8, .pp = 2, .dp = 1, .micro_batches = 2, .chip = "h200-like"}; }

TEST(StepRun, OperatorsAreToldAsTheyWere) {
  const Topology ring = load_topology("ring-16");
  const StepRun run = run_step(load_step("t-nlg", small_step(), ring.num_ranks), ring);
  const auto told = nlohmann::json::parse(step_run_json(run, 2));
  EXPECT_EQ(told["operators"].size(), run.result.operators.size());
  EXPECT_NEAR(told["time_us"].get<double>(), run.result.net.seconds() * 1e6, 1e-6);
  const std::string text = step_run_text(run, 2);
  EXPECT_NE(text.find("of 16 ranks"), std::string::npos);
  EXPECT_NE(text.find("hottest links"), std::string::npos);
}

TEST(ScaleRows, DoubleTheRanks) {
  Setting setting;
  setting.workload = load_workload("t-nlg");
  setting.training = training_of(setting.workload, small_step());
  setting.options = training_options(small_step());
  setting.topology = load_topology("ring-16");
  int slowed = 0;
  const auto slow = [&](Topology*) { ++slowed; };
  const std::vector<ScaleRow> rows = rows_over_ranks(setting, 16, 32, slow);
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].what, "16 ranks");
  EXPECT_EQ(rows[1].styles.ranks, 32);
  EXPECT_EQ(slowed, 2) << "each network, once it has its size";
  for (const ScaleRow& row : rows) EXPECT_LE(row.styles.both_s, row.styles.bulk_s);
  EXPECT_EQ(nlohmann::json::parse(scale_json("t-nlg", "ring-16", rows))["rows"].size(), 2u);
  EXPECT_NE(scale_text(rows).find("fused both ways saves"), std::string::npos);
  EXPECT_NE(refusal([&] { rows_over_ranks(setting, 4, 2, slow); }).find("the smaller first"), std::string::npos);
}

}  // namespace
}  // namespace weft::netsim
