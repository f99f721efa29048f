// The checker finds what is wrong: a good schedule is spoilt in one way at a time.
#include <functional>

#include <gtest/gtest.h>

#include "weft/reshard/cases_test.h"

namespace weft {
namespace {

class Problems : public testing::Test {
 protected:
  Problems() : instance_(instance_of(nine_cases()[4])), tasks_(tasks(instance_.reshard)) {
    schedule_ = schedule(tasks_, instance_.network);
  }

  // The first problem after `spoil`.
  std::string after(const std::function<void(Schedule&)>& spoil) const {
    Schedule spoilt = schedule_;
    spoil(spoilt);
    const auto found = problems(spoilt, tasks_, instance_.network);
    return found.empty() ? "none" : found[0];
  }

  Instance instance_;
  std::vector<Task> tasks_;
  Schedule schedule_;
};

TEST_F(Problems, AGoodScheduleHasNone) {
  EXPECT_EQ(after([](Schedule&) {}), "none");
}

TEST_F(Problems, AreNamed) {
  const auto expect = [&](const char* words, const std::function<void(Schedule&)>& spoil) {
    EXPECT_NE(after(spoil).find(words), std::string::npos) << words << ", but: " << after(spoil);
  };
  expect("gets 0 of", [](Schedule& s) { s.chunks.pop_back(); });
  expect("twice", [](Schedule& s) { s.chunks.push_back(s.chunks.back()); });
  expect("does not want it", [](Schedule& s) { s.chunks[0].hops[0].to = 1; });
  expect("does not hold it", [](Schedule& s) { s.chunks[0].root = 15; });
  expect("does not have it yet", [](Schedule& s) { std::swap(s.chunks[0].hops[0], s.chunks[0].hops.back()); });
  expect("bytes a second go", [](Schedule& s) {
    for (Chunk& chunk : s.chunks) chunk.begin_s = 0;
  });
  expect("which is no part of", [](Schedule& s) { s.chunks[0].box.hi[0] += 1; });
  expect("but its box is", [](Schedule& s) { s.chunks[0].bytes -= 4; });
  expect("in no time", [](Schedule& s) { s.chunks[0].begin_s = s.chunks[0].end_s = 0; });
  expect("below the lower bound", [](Schedule& s) { s.lower_bound_s = s.makespan_s * 1.01; });
  expect("which is not there", [](Schedule& s) { s.chunks[0].task = 99; });
}

TEST_F(Problems, UplinksCount) {
  Network narrow = instance_.network;  // the hosts of the two meshes in two racks, at half of what they send
  narrow.rack_of = {0, 0, 1, 1};
  narrow.uplink = {1.25e9, 0};
  EXPECT_FALSE(problems(schedule_, tasks_, narrow).empty());
  const Schedule slower = schedule(tasks_, narrow);
  EXPECT_TRUE(problems(slower, tasks_, narrow).empty());
  EXPECT_NEAR(slower.makespan_s, 2 * schedule_.makespan_s, 1e-9);
  EXPECT_TRUE(slower.optimal);
}

}  // namespace
}  // namespace weft
