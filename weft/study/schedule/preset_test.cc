// Presets are read as they are written, and their transfers are those of the reshard planner.
#include "weft/study/schedule/preset.h"

#include <gtest/gtest.h>

#include "weft/base/json.h"
#include "weft/base/refusal_test.h"
#include "weft/cluster/data_file.h"
#include "weft/io/fuzz_test.h"
#include "weft/study/schedule/picture.h"

namespace weft {
namespace {

TEST(PipelinePreset, CountsWhatStagesComputeAndMove) {
  const PipelinePreset gpt = load_preset("gpt-1.3b");
  ASSERT_EQ(gpt.num_stages(), 2);
  const double tokens = 16 * 1024, h = 2048, layer = 24 * h * h + 4 * 1024 * h;
  EXPECT_NEAR(gpt.forward_s[0], tokens * 12 * layer / 2 / 50e12, 1e-9);
  EXPECT_NEAR(gpt.forward_s[1] - gpt.forward_s[0], tokens * 2 * h * 51200 / 2 / 50e12, 1e-9);
  // 16 x 1024 x 2048 values of two bytes over 10 Gbit/s; both devices of the next stage want all of them.
  const double once = tokens * h * 2 / 1.25e9;
  for (const bool forward : {true, false}) {
    EXPECT_NEAR(transfer_seconds(gpt, Strategy::broadcast, forward), once, 0.05 * once);
    EXPECT_NEAR(transfer_seconds(gpt, Strategy::send_recv, forward), 2 * once, 0.1 * once);
  }
}

TEST(PipelinePreset, RefusesWhatCannotBe) {
  const std::string good = read_text_file(find_data_file("workloads/pipeline", "pipeline", "gpt-1.3b"), 1 << 20);
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    text.replace(text.find(from), from.size(), to);
    return refusal([&] { parse_preset(text, "p.json"); });
  };
  EXPECT_NE(with("\"micro_batches\": 4", "\"micro_batches\": 0").find("micro_batches"), std::string::npos);
  EXPECT_NE(with("\"tensors\": \"gpt-1.3b\"", "\"tensors\": \"bert\"").find("bert"), std::string::npos);
  EXPECT_NE(with("vocabulary)", "words)").find("words"), std::string::npos);
  EXPECT_NE(with("\"micro_batch * sequence * (layers", "\"0 * (layers").find("give 1 or more"), std::string::npos);
  EXPECT_NE(with("\"backward\": 2", "\"backward\": 2, \"speed\": 3").find("unknown field"), std::string::npos);
  EXPECT_NE(refusal([] { load_preset("nothing"); }).find("unknown pipeline \"nothing\""), std::string::npos);
}

TEST(PipelinePreset, MutantsAreTakenOrRefused) {
  const std::string good = read_text_file(find_data_file("workloads/pipeline", "pipeline", "gpt-1.3b"), 1 << 20);
  const FuzzCounts counts = fuzz(good, 2000, [](const std::string& text) { parse_preset(text, "p.json"); });
  EXPECT_GT(counts.refused, 500);
}

TEST(PipelinePreset, EveryOneShippedGainsStepByStep) {
  for (const std::string& name : preset_names()) {
    SCOPED_TRACE(name);
    const PresetTable table = preset_table(load_preset(name));
    ASSERT_EQ(table.rows.size(), 7u);
    const auto seconds = [&](std::size_t row) { return table.rows[row].seconds; };
    EXPECT_LE(seconds(2), seconds(0) * 1.001) << "broadcast sends least";
    EXPECT_LE(seconds(3), seconds(2) * 1.001) << "and is hidden";
    EXPECT_LE(seconds(4), seconds(3) * 1.001) << "more of it, eagerly";
    EXPECT_LE(seconds(5), seconds(4) * 1.001) << "a search begins there";
    for (std::size_t row = 3; row < 6; ++row) EXPECT_GE(seconds(row), table.bound.seconds * (1 - 1e-9)) << row;
    EXPECT_LE(table.rows[5].peak, table.rows[4].peak) << "within the same memory";
  }
}

TEST(PipelinePicture, NamesEveryItem) {
  const pipeline::Schedule schedule = build(pipeline::BuildOptions{.stages = 2, .micro_batches = 3});
  const pipeline::Compared one = pipeline::compared(schedule, pipeline::uniform_costs({.stages = 2, .transfer_s = 1}));
  const std::string svg = schedule_svg(one, "two stages");
  for (const char* hint : {"forward of micro-batch 2", "backward of micro-batch 0", "to stage 1", "two stages"})
    EXPECT_NE(svg.find(hint), std::string::npos) << hint;
}

}  // namespace
}  // namespace weft
