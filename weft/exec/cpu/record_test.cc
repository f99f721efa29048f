#include "weft/exec/cpu/record.h"

#include <gtest/gtest.h>

#include "weft/base/trace.h"
#include "weft/plan/program.h"
#include "weft/plan/small_plans_test.h"

namespace weft {
namespace {

// One tick per nanosecond, and two ranks that are 5 and 7 of their world.
struct Recorded {
  Plan plan = testing::pair_plan();
  Program program = Expander(plan).program(0);
  RecordContext context() const { return {plan, program, {5, 7}, {1000, 1000}, {9000, 9000}}; }
};

Event lane_event(std::int32_t action, std::int32_t lane, std::int64_t begin, std::int64_t end) {
  return {.action = action, .lane = lane, .run = 3, .begin = begin, .end = end};
}

TEST(Recorder, KeepsTheLastEventsAndSaysHowManyAreLost) {
  Recorder recorder(Detail::flight);
  for (std::int32_t i = 0; i < 5000; ++i) recorder.add(lane_event(0, i, i, i + 1));
  const std::vector<Event> events = recorder.events();
  EXPECT_EQ(events.size() + recorder.lost(), 5000u);
  EXPECT_EQ(events.back().lane, 4999);
  for (std::size_t i = 1; i < events.size(); ++i) ASSERT_EQ(events[i].lane, events[i - 1].lane + 1);
}

TEST(Recorder, IsOffUnlessAskedFor) {
  EXPECT_FALSE(Recorder().on());
  EXPECT_FALSE(Recorder(Detail::none).on());
  EXPECT_TRUE(Recorder(Detail::flight).on());
  EXPECT_FALSE(Recorder(Detail::flight).in_full());
  EXPECT_TRUE(Recorder(Detail::trace).in_full());
}

TEST(Recorder, LastEventsOfAllThreadsStandInTimeWithTheirPeers) {
  const Recorded seen;
  Recorder first(Detail::flight), second(Detail::flight);
  first.add(lane_event(0, 1, 2000, 3000));   // send, to the other rank
  second.add(lane_event(1, 0, 2500, 4000));  // own, here
  first.add({.kind = EventKind::wait, .action = -1, .run = 3, .begin = 5000, .end = 7000});
  const std::string text = last_events(seen.context(), {&first, &second}, 2);
  EXPECT_EQ(text.find("send"), std::string::npos) << text;  // the oldest of three
  EXPECT_LT(text.find("did step 1 of rank 0 (own"), text.find("waited 2.00 us for the end of the run")) << text;
  EXPECT_NE(text.find("2.00 us ago  run 3"), std::string::npos) << text;
  EXPECT_NE(last_events(seen.context(), {&first, &second}, 3).find("to rank 7"), std::string::npos);
}

TEST(Recorder, ATileIsTwoSlicesOnceItWasMadeAndStored) {
  const Recorded seen;
  Recorder recorder(Detail::trace);
  Event made = lane_event(0, 2, 2000, 4000);
  made.made = 3500;
  recorder.add(made);
  TraceText text;
  add_slices(seen.context(), 0, recorder, &text);
  for (const char* part : {"make send", "store send", "\"to\":\"7\"", "\"tile\":2", "\"run\":3"})
    EXPECT_NE(text.events().find(part), std::string::npos) << text.events();
}

TEST(Recorder, LinksGetARowPerPeer) {
  const Recorded seen;
  Recorder recorder(Detail::trace);
  for (int i = 0; i < 2; ++i)
    recorder.add({.kind = EventKind::link, .lane = 1, .run = 3, .begin = 2000, .end = 2500, .bytes = 64});
  TraceText text;
  add_slices(seen.context(), 0, recorder, &text);
  const std::size_t named = text.events().find("rank 5 to rank 7");
  ASSERT_NE(named, std::string::npos) << text.events();
  EXPECT_EQ(text.events().find("rank 5 to rank 7", named + 1), std::string::npos);
  EXPECT_NE(text.events().find("\"bytes\":64"), std::string::npos) << text.events();
}

}  // namespace
}  // namespace weft
