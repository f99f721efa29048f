#include "weft/reshard/schedule.h"

#include <gtest/gtest.h>

#include "weft/base/refusal_test.h"
#include "weft/reshard/nine_cases_test.h"

namespace weft {
namespace {

void expect_sound(const Schedule& schedule, const std::vector<Task>& tasks, const Network& network) {
  const auto found = problems(schedule, tasks, network);
  EXPECT_TRUE(found.empty()) << found.size() << " problems, the first: " << found[0];
}

TEST(Schedule, NaiveGivesTheKnownFigures) {
  for (const NineCase& c : nine_cases()) {
    const Instance instance = instance_of(c);
    const std::vector<Task> all = tasks(instance.reshard);
    const Schedule s = schedule(all, instance.network, {.choice = Choice::naive});
    EXPECT_NEAR(s.makespan_s / instance.unit_s, c.naive, 1e-9) << c.source << " to " << c.destination;
    expect_sound(s, all, instance.network);
  }
}

TEST(Schedule, EveryStrategyReachesEveryReceiverOnce) {
  for (const NineCase& c : nine_cases())
    for (const Strategy strategy :
         {Strategy::send_recv, Strategy::local_allgather, Strategy::global_allgather, Strategy::broadcast}) {
      const Instance instance = instance_of(c);
      const std::vector<Task> all = tasks(instance.reshard);
      const Schedule s = schedule(all, instance.network, {.strategy = strategy, .choice = Choice::naive});
      SCOPED_TRACE(std::string(to_string(strategy)) + " " + c.source + " to " + c.destination);
      expect_sound(s, all, instance.network);
    }
}

}  // namespace
}  // namespace weft
