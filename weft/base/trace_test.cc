#include "weft/base/trace.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "weft/base/clock.h"
#include "weft/base/index.h"
#include "weft/base/json.h"
#include "weft/base/log.h"

namespace weft {
namespace {

Json events_of(const std::vector<std::string>& parts) {
  return parse_json(TraceText::file(parts), "trace")["traceEvents"];
}

TEST(TraceText, PartsOfSeveralRanksMakeOneFile) {
  TraceText first, second;
  first.name_process(0, "rank 0", 0);
  first.slice({0, 1}, "tile", "make", 1.5, 2.25, "\"tile\": 3");
  second.name_row({1, 0}, "thread \"0\"");
  const Json events = events_of({first.events(), second.events()});
  ASSERT_EQ(int_size(events), 4);  // a process has a name and a place
  EXPECT_EQ(events[0]["args"]["name"], "rank 0");
  EXPECT_EQ(events[2]["ph"], "X");
  EXPECT_EQ(events[2]["ts"], 1.5);
  EXPECT_EQ(events[2]["dur"], 2.25);
  EXPECT_EQ(events[2]["args"]["tile"], 3);
  EXPECT_EQ(events[3]["args"]["name"], "thread \"0\"");
}

TEST(TraceText, WithoutEventsItIsStillAFile) {
  EXPECT_TRUE(TraceText().empty());
  EXPECT_TRUE(events_of({}).empty());
  EXPECT_TRUE(events_of({"", ""}).empty());
}

TEST(TraceText, NamesAreQuoted) {
  TraceText text;
  text.slice({}, "a\"b\\c\n", "x", 0, 0);
  EXPECT_EQ(events_of({text.events()})[0]["name"], "a\"b\\c\n");
}

TEST(Clock, StampsBecomeNanosecondsOnTheLineThroughTwoMoments) {
  const Moment a{.ticks = 100, .ns = 1'000}, b{.ticks = 300, .ns = 2'000};
  EXPECT_EQ(to_ns(100, a, b), 1'000);
  EXPECT_EQ(to_ns(200, a, b), 1'500);
  EXPECT_EQ(to_ns(400, a, b), 2'500);  // after the second moment too
  EXPECT_EQ(to_ns(7, a, a), 1'000);    // one moment is no line
}

TEST(Clock, GoesForward) {
  const Moment before = Moment::now();
  const std::int64_t start = now_ns();
  while (now_ns() < start + 1'000'000) {
  }
  const Moment after = Moment::now();
  EXPECT_GE(seconds_since(start), 1e-3);
  EXPECT_GT(after.ns, before.ns);
  EXPECT_GT(after.ticks, before.ticks);
  EXPECT_DOUBLE_EQ(seconds(std::chrono::milliseconds(250)), 0.25);
}

std::string heard;

TEST(Log, GoesToWhomeverIsToldAndToNobodyElse) {
  EXPECT_FALSE(has_log());
  log_line("lost");
  set_log([](std::string_view line) { heard += line; });
  EXPECT_TRUE(has_log());
  log_line("kept");
  set_log(nullptr);
  log_line("lost again");
  EXPECT_EQ(heard, "kept");
}

}  // namespace
}  // namespace weft
