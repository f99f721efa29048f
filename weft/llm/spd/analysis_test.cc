// The whole analysis of a small model: what its parts must add up to, and that a bound holds.
#include "weft/llm/spd/analysis.h"

#include <gtest/gtest.h>

#include "weft/base/index.h"
#include "weft/base/refusal_test.h"
#include "weft/llm/model/small_folder_test.h"
#include "weft/llm/spd/timed_analysis.h"
#include "weft/world/world.h"

namespace weft {
namespace {

class AnalysisOfAFolder : public ::testing::Test {
 protected:
  AnalysisOfAFolder() {
    folder_.write("text.txt", SmallFolder::letters(16 * 8, 3));
    folder_.write("heldout.txt", SmallFolder::letters(16 * 4, 4));
    folder_.write("tasks.jsonl", R"({"task": "continuation", "context": "hgf", "choices": ["ed", "aa"], "answer": 0})"
                                 "\n");
    options_.model = folder_.path();
    options_.text = folder_.file("text.txt");
    options_.window = 16;
  }

  AnalysisInputs inputs() const { return read_analysis_inputs(options_, load_config(folder_.path())); }

  // Times are made up: a search must not depend on how busy this machine is.
  Analysis analyzed(const std::vector<ModeTime>& times = {}) const {
    Analysis out;
    const AnalysisInputs read = inputs();
    World::local(2, [&](World& world) {
      Analysis found = analyze(world, options_, read, times);
      if (world.rank() == 0) out = std::move(found);
    });
    return out;
  }

  SmallFolder folder_;
  AnalysisOptions options_;
};

const std::vector<ModeTime> kTimes{{{}, 10e-3}, {{true, BlockWire::f32}, 8e-3}, {{false, BlockWire::int8}, 7e-3}};

TEST_F(AnalysisOfAFolder, WithoutABoundAllTextIsCalibration) {
  EXPECT_EQ(inputs().calibration.size(), 8u);
  EXPECT_TRUE(inputs().heldout.empty());
  options_.samples = 3;
  EXPECT_EQ(inputs().calibration.size(), 3u);
}

TEST_F(AnalysisOfAFolder, WithABoundOneHalfOfTheTextIsHeldOut) {
  options_.max_loss = 0.01;
  const AnalysisInputs halves = inputs();
  EXPECT_EQ(halves.calibration.size(), 4u);
  EXPECT_EQ(halves.heldout.size(), 4u);
  EXPECT_NE(halves.calibration.back().data(), halves.heldout.front().data());
  options_.heldout = folder_.file("heldout.txt");
  EXPECT_EQ(inputs().calibration.size(), 8u);
  EXPECT_EQ(inputs().heldout.size(), 4u);
  options_.heldout.clear();
  folder_.write("text.txt", SmallFolder::letters(20, 3));
  EXPECT_NE(refusal([&] { inputs(); }).find("give a longer text or --heldout"), std::string::npos);
}

TEST_F(AnalysisOfAFolder, TheCurveBeginsWithNothingDroppedAndEndsWithAll) {
  const Analysis found = analyzed();
  const auto blocks = found.sensitivity.s.size();
  ASSERT_EQ(found.curve.size(), blocks + 1);
  EXPECT_EQ(found.curve.front(), found.sensitivity.perplexity_from.back());
  EXPECT_EQ(found.curve.back(), found.sensitivity.perplexity_from.front());
  EXPECT_EQ(found.evaluations, num(2 * blocks)) << "blocks + 1, and the curve between its ends";
  EXPECT_FALSE(found.chosen);
  options_.curve = false;
  EXPECT_TRUE(analyzed().curve.empty());
}

TEST_F(AnalysisOfAFolder, TheChoiceKeepsItsBoundOnHeldOutText) {
  options_.heldout = folder_.file("heldout.txt");
  options_.tasks = folder_.file("tasks.jsonl");
  options_.curve = false;
  for (const double bound : {0.0, 0.02, 0.9}) {
    options_.max_loss = bound;
    const Analysis found = analyzed(kTimes);
    ASSERT_TRUE(found.chosen);
    const ChosenModes& chosen = *found.chosen;
    EXPECT_LE(chosen.held_out.loss.loss, bound + 1e-12);
    EXPECT_EQ(chosen.held_out.plain.size(), 4u);
    ASSERT_EQ(chosen.held_out.tasks.size(), 1u);
    EXPECT_EQ(chosen.held_out.tasks[0].name, "continuation");
    if (bound == 0.9) {
      EXPECT_GT(chosen.predicted_saved_s, 0) << "a wide bound leaves nothing as it was";
    }
  }
}

TEST_F(AnalysisOfAFolder, WiresThatNoModeHasAreNotMeasured) {
  options_.max_loss = 0.5;
  options_.curve = false;
  const Analysis found = analyzed(kTimes);
  EXPECT_LT(found.wire_losses[0], 0) << "bf16";
  EXPECT_GE(found.wire_losses[1], 0) << "int8";
}

TEST_F(AnalysisOfAFolder, IsTimedWhereThereIsABound) {
  TimedAnalysisOptions asked{.times = {.rows = 8, .rounds = 1}, .modes = parse_modes("drop"), .ranks = 2};
  asked.analysis = options_;
  const TimedAnalysis plain = analyze_timed(nullptr, asked, inputs());
  EXPECT_TRUE(plain.times.empty());
  EXPECT_EQ(plain.sensitivity.s, analyzed().sensitivity.s);

  options_.max_loss = asked.analysis.max_loss = 0.9;
  std::vector<std::string> said;
  const TimedAnalysis timed = analyze_timed(nullptr, asked, inputs(), [&](std::string_view what, auto, auto of) {
    if (of == 0) said.emplace_back(what);
  });
  ASSERT_EQ(timed.times.size(), 2u) << "sync comes first";
  EXPECT_EQ(timed.times[0].mode, BlockMode{});
  ASSERT_TRUE(timed.chosen);
  EXPECT_GT(timed.sync_s, 0);
  EXPECT_GT(timed.chosen_s, 0);
  EXPECT_EQ(said, (std::vector<std::string>{"timing the modes", "timing the choice"}));
}

TEST(Analysis, BlocksAreDroppedByNumberClassOrAll) {
  Analysis found;
  found.sensitivity.s = {3, 0.01, 20, 0.02};
  found.order = drop_order(found.sensitivity.s);
  const auto dropped = [&](std::string_view which) {
    std::string out;
    for (const BlockMode mode : dropped_by_class(which, found, {}, "--drop")) out += mode.drop ? 'x' : '.';
    return out;
  };
  EXPECT_EQ(dropped("0"), "....");
  EXPECT_EQ(dropped("1"), ".x..");
  EXPECT_EQ(dropped("3"), "xx.x");
  EXPECT_EQ(dropped("isb"), ".x.x");
  EXPECT_EQ(dropped("all"), "xxxx");
  for (const char* text : {"", "5", "-1", "sb", "2x"})
    EXPECT_NE(refusal([&] { dropped(text); }).find("use a number from 0 to 4, isb or all"), std::string::npos) << text;
}

TEST(Analysis, WeightsAreNamedDownwardsOnly) {
  const SpdFile spd{.weights = "w.safetensors", .path = "/data/a/x.spd"};
  EXPECT_EQ(weights_beside("/data/a/y.spd", spd), "w.safetensors");
  EXPECT_EQ(weights_beside("/data/y.spd", spd), "a/w.safetensors");
  EXPECT_NE(refusal([&] { weights_beside("/data/b/y.spd", spd); }).find("write it into /data/a"), std::string::npos);
}

TEST(Analysis, AChoiceThatGainsNothingSaysSo) {
  const Modes sync = all_blocks(4, {}), changed = all_blocks(4, {.drop = true});
  EXPECT_EQ(no_gain(changed, 1.0, 0.9), "");
  EXPECT_NE(no_gain(changed, 1.0, 0.995).find("gains nothing on this link"), std::string::npos);
  EXPECT_NE(no_gain(sync, 1.0, 0.5).find("no block may change"), std::string::npos) << "whatever the clock says";
}

TEST(Analysis, TextsAreTheFoldersWhereNoneIsNamed) {
  AnalysisOptions options{.model = WEFT_SOURCE "/models/weft-16"};
  take_texts_of_folder(&options);
  EXPECT_EQ(options.text, WEFT_SOURCE "/models/weft-16/calibration.txt");
  EXPECT_EQ(options.heldout, WEFT_SOURCE "/models/weft-16/heldout.txt");
  AnalysisOptions named{.model = WEFT_SOURCE "/models/weft-16", .text = "mine.txt"};
  take_texts_of_folder(&named);
  EXPECT_EQ(named.text, "mine.txt");
  EXPECT_EQ(named.heldout, "") << "half of one's own text is held out";
  AnalysisOptions none{.model = WEFT_SOURCE "/tests/models/llama-gqa"};
  EXPECT_NE(refusal([&] { take_texts_of_folder(&none); }).find("give --text FILE"), std::string::npos);
}

}  // namespace
}  // namespace weft
