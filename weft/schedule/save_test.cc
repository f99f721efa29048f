// A schedule survives being written and read; what is no schedule is refused with file, place and remedy.
#include "weft/schedule/save.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "weft/base/refusal_test.h"
#include "weft/schedule/check.h"
#include "weft/schedule/random_test.h"
#include "weft/schedule/trace.h"

namespace weft::pipeline {
namespace {

TEST(Save, ReadsBackWhatItWrites) {
  RandomPipeline random(11);
  for (int round = 0; round < 200; ++round) {
    const Schedule schedule = build(random.options(5, 8));
    EXPECT_EQ(parse_schedule(to_json(schedule), "test"), schedule);
  }
}

TEST(Save, RefusesWhatIsNoSchedule) {
  const auto refused = [](const std::string& text) { return refusal([&] { parse_schedule(text, "a.json"); }); };
  const auto with = [](const std::string& item) {
    return R"({"name": "s", "stages": 1, "micro_batches": 1, "chunks": 1, "items": [["f0", )" + item + "]]}";
  };
  EXPECT_EQ(refused(with("\"b0\"")), "did not throw");
  for (const char* item :
       {"3", "\"\"", "\"x0\"", "\"f\"", "\"f-1\"", "\"f0.\"", "\"f0.1x\"", "\"f99999999999\"", "null"})
    EXPECT_NE(refused(with(item)).find("a.json: stage 0, item 1 is "), std::string::npos) << item;
  EXPECT_NE(refused("[]").find("a.json"), std::string::npos);
  EXPECT_NE(refused(R"({"name": "s", "stages": 2, "micro_batches": 1, "chunks": 1, "items": [[]]})").find("1 lists"),
            std::string::npos);
  EXPECT_NE(refused(R"({"name": "s", "stages": 1, "micro_batches": 1, "chunks": 1, "items": [3]})").find("no array"),
            std::string::npos);
  EXPECT_NE(
      refused(R"({"name": "s", "stages": 1, "micro_batches": 0, "chunks": 1, "items": [[]]})").find("micro_batches"),
      std::string::npos);
  EXPECT_NE(refused(R"({"name": "s", "kind": 1})").find("unknown field"), std::string::npos);
}

// Whatever bytes come: a sentence, or a schedule that the checker can judge.
TEST(Save, SurvivesSpoiledFiles) {
  RandomPipeline random(12);
  int refused = 0;
  for (int round = 0; round < 3000; ++round) {
    std::string text = to_json(build(random.options(3, 3)));
    for (int spoiled = random.from(1, 3); spoiled > 0; --spoiled)
      text[at(random.from(0, int_size(text) - 2))] = "0123456789-.fbiwr[]{},\"x"[random.from(0, 23)];
    try {
      refused += !check(parse_schedule(text, "spoiled")).ok();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::bad_input);
      ++refused;
    }
  }
  EXPECT_GT(refused, 1500);
}

TEST(Trace, HasASlicePerItemAndTransfer) {
  const Schedule schedule = build({.kind = Kind::eager_1f1b, .stages = 3, .micro_batches = 4});
  const auto file =
      nlohmann::json::parse(trace(schedule, timing(schedule, uniform_costs({.stages = 3, .transfer_s = 1}))));
  int work = 0, transfers = 0;
  for (const auto& event : file["traceEvents"]) {
    if (event["ph"] != "X") continue;
    ++(event["cat"] == "transfer" ? transfers : work);
  }
  EXPECT_EQ(work, 3 * 4 * 2);
  EXPECT_EQ(transfers, 2 * 2 * 4);
}

}  // namespace
}  // namespace weft::pipeline
