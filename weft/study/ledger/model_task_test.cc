// What a model's ledger is asked for, and what its rows should take.
#include "weft/study/ledger/model_task.h"

#include <gtest/gtest.h>

#include "weft/base/error.h"
#include "weft/base/index.h"
#include "weft/study/ledger/hardware.h"
#include "weft/study/ledger/model_ledger.h"

namespace weft {
namespace {

ModelTask small_task(int ranks = 2) { return open_model_task({.tokens = 64, .ranks = ranks, .rounds = 1}); }

// The rows of a ledger that nobody measured.
ModelLedger predicted(const ModelTask& task, double bytes_per_s) {
  ModelLedger out;
  out.table.ranks = task.ranks;
  out.table.link.paced = Link{.bytes_per_s = bytes_per_s, .latency_s = 1e-5};
  Cluster& cluster = out.table.cluster = default_cluster(task.ranks);
  std::swap(cluster.num_hosts, cluster.ranks_per_host);
  cluster.network = *out.table.link.paced;
  cluster.fabric = Fabric::pairs;
  for (const ModelForm& form : forms_of(task)) out.table.rows.push_back({.name = form.name});
  predict_model(task, &out);
  return out;
}

TEST(ModelTask, ReadsThePromptAndFindsWhatToDrop) {
  const ModelTask task = small_task();
  EXPECT_EQ(task.prompt.size(), 64u);
  EXPECT_EQ(task.dropped.size(), num(task.source.config.blocks));
  EXPECT_FALSE(task.dropped_why.empty());
  EXPECT_FALSE(task_text(task).empty());
}

TEST(ModelTask, RefusesWhatCannotBeMeasured) {
  EXPECT_THROW(open_model_task({.model = "weft-17"}), Error);
  EXPECT_THROW(open_model_task({.tokens = 0}), Error);
  EXPECT_THROW(open_model_task({.tokens = 1 << 20}), Error);
  EXPECT_THROW(open_model_task({.prompt = "/nowhere.txt"}), Error);
  EXPECT_THROW(open_model_task({.spd = "/nowhere.spd"}), Error);
}

TEST(ModelTask, FormsThatChangeNoValueComeFirstAndTheFloorLast) {
  const ModelTask task = small_task();
  const std::vector<ModelForm> forms = forms_of(task);
  ASSERT_EQ(forms.size(), 7u);
  for (std::size_t i = 0; i < forms.size(); ++i) EXPECT_EQ(keeps_values(forms[i]), i < 3) << forms[i].name;
  EXPECT_EQ(forms.back().name, kFloor);
  EXPECT_EQ(forms.back().sync, Style::compute);
  EXPECT_EQ(num_dropped(forms[3].modes), 0);
  EXPECT_EQ(num_dropped(forms[5].modes), num_dropped(task.dropped));
  for (const BlockMode& mode : forms[5].modes) EXPECT_EQ(mode.wire, BlockWire::int8);
}

TEST(ModelPredictions, SendingLessTakesLessAndTheFloorIsBelowAll) {
  const ModelLedger ledger = predicted(small_task(), 12.5e6);
  const auto us = [&](const char* name) { return *ledger.table.find(name)->predicted_us; };
  EXPECT_LE(us("fused"), us("sequential"));
  EXPECT_LE(us("panels"), us("sequential") * 1.01);
  EXPECT_LT(us("fused_int8"), us("fused"));
  EXPECT_LT(us("dropped"), us("fused"));
  EXPECT_LT(us("dropped_int8"), us("dropped"));
  for (const LedgerRow& row : ledger.table.rows) EXPECT_GE(*row.predicted_us, us(kFloor)) << row.name;
  EXPECT_EQ(ledger.table.rows.back().name, kFloor);
  EXPECT_EQ((ledger.table.rows.end() - 2)->name, "track_and_trigger");
}

TEST(ModelPredictions, AFasterLinkLeavesTheFloorAsItIs) {
  const ModelTask task = small_task();
  const ModelLedger slow = predicted(task, 12.5e6), fast = predicted(task, 1.25e9);
  const double floor_us = *slow.table.find(kFloor)->predicted_us;
  EXPECT_NEAR(*fast.table.find(kFloor)->predicted_us, floor_us, 0.3 * floor_us) << "parts of it are timed each time";
  EXPECT_GT(*slow.table.find("sequential")->predicted_us, *fast.table.find("sequential")->predicted_us);
  EXPECT_GT(*slow.table.find("track_and_trigger")->exposed_us, *fast.table.find("track_and_trigger")->exposed_us);
}

TEST(SimulatedRow, IsMissingWhereRowsCannotBeSharedEvenly) {
  LedgerTable table{.ranks = 3};
  table.cluster = default_cluster(3);
  table.rows = {{.name = kFloor, .predicted_us = 100}};
  const sim::SimShape even{.m = 192, .n = 96, .k = 64, .devices = 3, .element_bytes = 4};
  const sim::SimShape uneven{.m = 64, .n = 64, .k = 64, .devices = 3, .element_bytes = 4};
  EXPECT_FALSE(simulated_row(table, std::vector{even, uneven}, 1));
  const auto once = simulated_row(table, std::vector{even}, 1),
             twice = simulated_row(table, std::vector{even, even}, 1);
  ASSERT_TRUE(once && twice);
  EXPECT_NEAR(*twice->exposed_us, 2 * *once->exposed_us, 1e-6);
  EXPECT_NEAR(*simulated_row(table, std::vector{even}, 2)->exposed_us, *twice->exposed_us, 1e-6);
  EXPECT_NEAR(*once->predicted_us, 100 + *once->exposed_us, 1e-6);
  EXPECT_FALSE(once->measured_us);
}

}  // namespace
}  // namespace weft
