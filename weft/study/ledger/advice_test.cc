#include "weft/study/ledger/advice.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "weft/base/index.h"

namespace weft {
namespace {

struct Figures {
  double sequential, panels, fused, compute;  // of the whole block
  double comm = 0;                            // of the one collective, beside a product of 100 us
};

// A block whose sub-layer fc2 is all that communicates.
BlockLedger ledger_of(const Figures& figures) {
  const Workload whole = load_workload("t-nlg");
  BlockLedger out;
  out.workload = scaled(whole, whole.scale_down);
  out.table.ranks = 4;
  out.table.link = {Link{.bytes_per_s = 1e9 / 8, .latency_s = 1e-5}, "1gbit,10us"};
  out.table.aa_band = 0.01;
  const double us[] = {figures.sequential, figures.panels, figures.fused, figures.compute};
  for (const Style style : kStyles) out.table.rows.push_back({.name = to_string(style), .measured_us = us[at(style)]});
  set_exposed(&out.table);
  SubLayerRow fc2{.name = "fc2", .collective = "all_reduce", .comm_us = figures.comm};
  fc2.us = {100 + figures.comm, 100 + figures.comm, 100, 100};
  out.sub_layers = {{.name = "fc1"}, fc2};
  out.comm_us = figures.comm;
  return out;
}

bool says(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST(Advice, VerdictComparesFusedWithTheBestOfTheOthers) {
  EXPECT_TRUE(says(advice(ledger_of({300, 250, 200, 150, 100})).sentences[0],
                   "1.50 times as fast as sequential and 1.25 times as fast as panels"));
  EXPECT_TRUE(says(advice(ledger_of({300, 200, 250, 150, 100})).sentences[0], "slower than panels by 50.0 us"));
  EXPECT_TRUE(says(advice(ledger_of({300, 310, 350, 150, 100})).sentences[0], "slower than sequential by 50.0 us"));
  EXPECT_TRUE(says(advice(ledger_of({300, 250, 251, 150, 100})).sentences[0], "within the noise"));
}

TEST(Advice, BoundIsTheSideThatTakesLonger) {
  EXPECT_TRUE(says(advice(ledger_of({300, 250, 200, 150, 100})).sentences[1], "Balanced"));
  EXPECT_TRUE(says(advice(ledger_of({900, 800, 700, 150, 400})).sentences[1], "The link bounds"));
  EXPECT_TRUE(says(advice(ledger_of({300, 250, 200, 150, 40})).sentences[1], "Compute bounds"));
  EXPECT_TRUE(says(advice(ledger_of({152, 152, 151, 150, 40})).sentences[1], "There is little to hide"));
}

TEST(Advice, CommandsNameTheSubLayerWhereMostIsExposedAndALinkInRoundNumbers) {
  const Advice next = advice(ledger_of({900, 800, 700, 150, 400}));
  std::string all;
  for (const Advice::Command& command : next.commands) all += command.words + "\n";
  EXPECT_TRUE(says(all, "--link 5gbit,10us")) << all;   // four times the bytes in the same time
  EXPECT_TRUE(says(all, "--link 10gbit,10us")) << all;  // ten times as fast
  EXPECT_TRUE(says(all, "bench gemm-ar --ranks 4 --m 256 --n 2128 --k 2128 --link 1gbit,10us")) << all;
  EXPECT_TRUE(says(all, "plan gemm-ar --ranks 4 --m 256 --n 2128 --k 2128\n")) << all;
  EXPECT_TRUE(says(all, "--workload mixtral-8x7b")) << all;
}

TEST(Advice, HeadlineOfABlockSaysWhatIsLeftOrThatThereIsNothing) {
  EXPECT_EQ(headline(ledger_of({300, 250, 200, 150, 100})),
            "Communication takes 150 us of 300 us; fused leaves 50.0 us of it exposed, panels 100 us.");
  EXPECT_TRUE(says(headline(ledger_of({151, 152, 149, 150, 40})), "there is nothing to hide"));
}

TEST(Advice, HeadlineOfAModelCountsDroppedSynchronisations) {
  ModelLedger ledger;
  ledger.model = "models/some";
  ledger.config.blocks = 16;
  ledger.table.rows = {{.name = "sequential", .measured_us = 9000}, {.name = "fused", .measured_us = 8000}};
  ledger.table.rows.push_back({.name = "dropped_int8", .measured_us = 2000, .dropped = 12});
  EXPECT_TRUE(says(headline(ledger), "9.00 ms as products")) << headline(ledger);
  EXPECT_TRUE(says(headline(ledger), "2.00 ms fused with 12 of 32"));
  for (const Advice::Command& command : advice(ledger).commands) EXPECT_FALSE(command.what.empty());
}

// Pasted as it stands it must run, so it names the text that the command asks for; without one it is left out.
TEST(Advice, TheAnalysisIsSuggestedWithItsText) {
  ModelLedger ledger;
  ledger.model = "models/some";
  ledger.table.ranks = 2;
  const auto words = [&] {
    std::string all;
    for (const Advice::Command& command : advice(ledger).commands) all += command.words + "\n";
    return all;
  };
  EXPECT_FALSE(says(words(), "spd analyze")) << words();
  ledger.calibration = "models/some/calibration.txt";
  EXPECT_TRUE(says(words(),
                   "build/weft spd analyze --model models/some --tp 2 --text models/some/calibration.txt "
                   "--quick --max-loss 1%\n"))
      << words();
}

TEST(Advice, DurationsBelowAFewNanosecondsAreNone) {
  EXPECT_EQ(duration_text(-3), "0 us");
  EXPECT_EQ(duration_text(0.04), "0 us");
  EXPECT_EQ(duration_text(1500), "1.50 ms");
}

TEST(Advice, LimitsNameASlowerAndAFasterLink) {
  ModelLedger ledger;
  EXPECT_EQ(limits_of(ledger), "");
  ledger.elsewhere = {{.bytes_per_s = 31.25e6, .sequential_us = 500e3, .fused_us = 485e3, .compute_us = 80e3},
                      {.bytes_per_s = 3.125e9, .sequential_us = 86e3, .fused_us = 82e3, .compute_us = 80e3}};
  EXPECT_EQ(
      limits_of(ledger),
      "Where it would convince less, as predicted: at 250 Mbit/s fusing saves 3 % of 500 ms, for a product hides at "
      "most its own time; at 25 Gbit/s there are only 6.00 ms beside compute to hide.");
}

}  // namespace
}  // namespace weft
