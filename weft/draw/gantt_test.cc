// Bars that share a row: stacked piece by piece, nothing lost and nothing on top of another.
#include "weft/draw/gantt.h"

#include <algorithm>
#include <limits>
#include <map>
#include <random>

#include <gtest/gtest.h>

#include "weft/draw/drawing_test.h"

namespace weft::draw {
namespace {

std::vector<GanttBar> random_bars(std::mt19937& random) {
  std::vector<GanttBar> bars(1 + random() % 8);
  for (GanttBar& bar : bars) {
    bar.begin_s = static_cast<double>(random() % 16);
    bar.end_s = bar.begin_s + 1 + static_cast<double>(random() % 6);
    bar.share = static_cast<double>(1 + random() % 4) / 8;
  }
  return bars;
}

// Every bar has all of its time and share in pieces of its own.
TEST(Stacked, PiecesOfABarAddUpToIt) {
  std::mt19937 random(1);
  for (int round = 0; round < 300; ++round) {
    const std::vector<GanttBar> bars = random_bars(random);
    std::map<std::size_t, double> seconds;
    for (const StackedBar& piece : stacked(bars)) {
      EXPECT_GE(piece.begin_s, bars[piece.bar].begin_s);
      EXPECT_LE(piece.end_s, bars[piece.bar].end_s);
      EXPECT_EQ(piece.share, bars[piece.bar].share);
      seconds[piece.bar] += piece.end_s - piece.begin_s;
    }
    for (std::size_t i = 0; i < bars.size(); ++i) EXPECT_EQ(seconds[i], bars[i].end_s - bars[i].begin_s);
  }
}

TEST(Stacked, PiecesOfOneTimeLieOnOneAnother) {
  std::mt19937 random(2);
  for (int round = 0; round < 300; ++round) {
    const std::vector<GanttBar> bars = random_bars(random);
    std::map<std::pair<double, double>, double> height;  // of each piece of time, so far
    for (const StackedBar& piece : stacked(bars)) {
      double& top = height[{piece.begin_s, piece.end_s}];
      EXPECT_EQ(piece.from, top) << "on what is there already";
      top += piece.share;
    }
    // At any time the pieces are as high as the bars that are there.
    for (const auto& [span, top] : height) {
      double sum = 0;
      for (const GanttBar& bar : bars) sum += bar.begin_s <= span.first && span.second <= bar.end_s ? bar.share : 0;
      EXPECT_EQ(top, sum);
    }
  }
}

TEST(Stacked, WhatIsNoBarIsPassedOver) {
  const double nan = std::numeric_limits<double>::quiet_NaN(), inf = std::numeric_limits<double>::infinity();
  const std::vector<GanttBar> bars{
      {.begin_s = 2, .end_s = 1}, {.begin_s = nan, .end_s = 1},           {.begin_s = 0, .end_s = inf},
      {.begin_s = 1, .end_s = 1}, {.begin_s = 0, .end_s = 1, .share = 0}, {.begin_s = 3, .end_s = 4}};
  const auto pieces = stacked(bars);
  ASSERT_EQ(pieces.size(), 1u);
  EXPECT_EQ(pieces[0].bar, 5u);
  EXPECT_TRUE(stacked({}).empty());
}

TEST(Gantt, ARowSaysHowMuchOfItIsUsed) {
  Gantt what{.title = "two rows"};
  what.rows.push_back({"host 0", "out", {{.begin_s = 0, .end_s = 10, .hint = "all of it"}}});
  what.rows.push_back({"host 0", "in", {{.begin_s = 0, .end_s = 5, .share = 0.5, .hint = "a quarter <of it>"}}});
  const std::string svg = gantt(what);
  expect_drawing(svg);
  expect_texts_apart(svg);
  std::vector<std::string> texts;
  for (const DrawnText& text : texts_of(svg)) texts.push_back(text.text);
  EXPECT_EQ(std::count(texts.begin(), texts.end(), "100 %"), 1);
  EXPECT_EQ(std::count(texts.begin(), texts.end(), "25 %"), 1);
  EXPECT_EQ(std::count(texts.begin(), texts.end(), "host 0"), 1) << "the name of a group stands once";
  EXPECT_NE(svg.find("a quarter &lt;of it&gt;"), std::string::npos);
}

TEST(Gantt, LabelsStandOnlyInBarsThatHaveRoom) {
  Gantt what{.title = "labels"};
  what.rows.push_back({"g",
                       "r",
                       {{.begin_s = 0, .end_s = 50, .label = "wide"},
                        {.begin_s = 50, .end_s = 50.5, .label = "narrow"},
                        {.begin_s = 60, .end_s = 100, .share = 0.2, .label = "flat"}}});
  const std::string svg = gantt(what);
  expect_drawing(svg);
  EXPECT_NE(svg.find(">wide<"), std::string::npos);
  EXPECT_EQ(svg.find(">narrow<"), std::string::npos);
  EXPECT_EQ(svg.find(">flat<"), std::string::npos);
}

TEST(Gantt, NothingAtAllIsStillADrawing) {
  expect_drawing(gantt({}));
  expect_drawing(gantt({.title = "limits alone", .limits = {{0, "zero"}, {3, "three"}}}));
}

}  // namespace
}  // namespace weft::draw
