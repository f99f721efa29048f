// Each kind of channel stores and signals what the lane gives it, where and when its kind says.
#include "weft/exec/cpu/channel.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>

#include "weft/base/index.h"
#include "weft/exec/cpu/hooks.h"
#include "weft/exec/cpu/links.h"
#include "weft/exec/cpu/signals.h"
#include "weft/exec/cpu/workbench.h"
#include "weft/plan/rule_words.h"
#include "weft/transport/local/threads.h"

namespace weft {
namespace {

constexpr std::int64_t kWide = 4;

// Rank 0 stores two rows in rank 1's y and signals twice.
Plan two_ranks() {
  Plan plan;
  plan.name = "two ranks";
  plan.num_ranks = 2;
  plan.buffers = {{"x", Dtype::f32, Role::input, {2, kWide}, 1, {}},
                  {"y", Dtype::f32, Role::output, {2, kWide}, 1, {}}};
  plan.counters = {{"full", 2, 1}};
  Rule rule;
  rule.name = "move";
  rule.when = Expr::parse("r == 0");
  rule.box = {{0, 0}, {2, kWide}};
  rule.tile = {1, kWide};
  rule.sources = {piece(0, {{0, 0}, {2, kWide}})};
  rule.targets = {piece(1, {{0, 0}, {2, kWide}}).of(1)};
  rule.signals = {signal(1, 0).per_lane()};
  plan.rules = {rule};
  return plan;
}

// Rank 0's side of that plan, with both ranks' memory here.
class ChannelTest : public ::testing::Test {
 protected:
  ChannelTest()
      : plan_(two_ranks()),
        expander_(plan_),
        program_(expander_.program(0)),
        transports_(make_thread_transports(2)),
        segments_(2),
        bells_(2) {
    for (int rank = 0; rank < 2; ++rank) {
      memory_.layouts.push_back(layout_of(plan_, expander_, rank));
      segments_[at(rank)].resize(memory_.layouts.back().bytes / sizeof(float));
      memory_.base.push_back(reinterpret_cast<std::byte*>(segments_[at(rank)].data()));
      memory_.bells.push_back(&bells_[at(rank)]);
      memory_.world_rank.push_back(rank);
    }
    signals_.emplace(expander_, program_, memory_, 1, Signalling::fenced);
  }

  Channels channels(Links* links = nullptr, Hooks* hooks = nullptr) {
    return Channels(memory_, program_, {&*signals_, nullptr, links, hooks});
  }
  Links links(Fabric fabric, bool ordered, double bytes_per_s = 1e6) {
    const std::size_t bytes = std::max(Links::bytes_of(expander_, 0, 2), Links::bytes_of(expander_, 1, 2));
    transits_.assign(2, std::vector<std::int64_t>(bytes / sizeof(std::int64_t) + 8));
    std::vector<std::byte*> where;
    for (auto& transit : transits_) {
      void* begin = transit.data();
      std::size_t space = transit.size() * sizeof(std::int64_t);
      where.push_back(static_cast<std::byte*>(std::align(64, bytes, begin, space)));
    }
    return Links({bytes_per_s, 0, 1, fabric}, 0, memory_, where, expander_, *transports_[0], ordered);
  }
  Strip theirs() { return {memory_.copy(1, 1, 0), kWide, Dtype::f32}; }
  float y(std::int64_t i) const { return reinterpret_cast<const float*>(memory_.copy(1, 1, 0))[i]; }
  std::uint32_t counter(std::int64_t id) const { return memory_.counter(1, id).load(); }

  const std::vector<float> a_{1, 2, 3, 4, 5, 6, 7, 8}, b_{10, 20, 30, 40, 50, 60, 70, 80};
  const std::vector<ConstStrip> one_{{a_.data(), kWide, Dtype::f32}}, two_{one_[0], {b_.data(), kWide, Dtype::f32}};
  Plan plan_;
  Expander expander_;
  Program program_;
  std::vector<std::unique_ptr<Transport>> transports_;
  std::vector<std::vector<float>> segments_;
  std::vector<Bell> bells_;
  std::vector<std::vector<std::int64_t>> transits_;
  Memory memory_;
  std::optional<Signals> signals_;
  Workbench bench_;
};

TEST_F(ChannelTest, MemoryIsWrittenAndRaisedAtOnce) {
  const Channels all = channels();
  Channel& to = all.to(1);
  EXPECT_TRUE(to.in_memory());
  EXPECT_FALSE(to.may_fill());
  EXPECT_EQ(to.stage(2, kWide, theirs(), bench_).data, theirs().data);
  to.store({2, kWide, one_, theirs(), 32, false}, bench_);
  EXPECT_EQ(y(7), 8);
  to.store({2, kWide, two_, theirs(), 32, false}, bench_);
  EXPECT_EQ(y(7), 88);
  to.store({2, kWide, one_, theirs(), 32, true}, bench_);
  EXPECT_EQ(y(7), 8);
  to.signal(1, bench_);
  EXPECT_EQ(counter(0), 0u);
  EXPECT_EQ(counter(1), 1u);
}

// A store is there at once. The first signal behind it covers its bytes, the next none.
TEST_F(ChannelTest, PacedSignalsCoverTheBytesBeforeThem) {
  Links paced = links(Fabric::pairs, false);
  const Channels all = channels(&paced);
  all.equip(&bench_);
  bench_.record = Recorder(Detail::trace);
  bench_.run = 7;
  Channel& to = all.to(1);
  EXPECT_TRUE(to.in_memory());
  to.store({1, kWide, one_, theirs(), 16, false}, bench_);
  EXPECT_EQ(y(3), 4);
  to.stage(1, kWide, theirs(), bench_);
  EXPECT_EQ(bench_.unsignalled[1], 32);
  to.stage(1, 8, {theirs().data, 8, Dtype::bf16}, bench_);
  EXPECT_EQ(bench_.unsignalled[1], 48) << "of its own type";
  to.signal(0, bench_);
  to.signal(1, bench_);
  EXPECT_EQ(counter(0), 0u) << "raised by whoever looks when it is due";
  const auto events = bench_.record.events();
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(std::tuple(events[0].kind, events[0].lane, events[0].run, events[0].bytes),
            std::tuple(EventKind::link, 1, 7u, 48));
  EXPECT_EQ(events[0].end - events[0].begin, 48'000) << "48 bytes at 1 MB/s";
}

// Triggers wait for room where a NIC is shared or a plan has an order. Signals never do.
TEST_F(ChannelTest, OnlyBytesFillALink) {
  for (const auto& [fabric, ordered, holds] :
       {std::tuple(Fabric::pairs, false, false), {Fabric::pairs, true, true}, {Fabric::nic, false, true}}) {
    Links paced = links(fabric, ordered, 1e3);
    const Channels all = channels(&paced);
    all.equip(&bench_);
    EXPECT_EQ(all.to(1).may_fill(), holds);
    EXPECT_FALSE(all.to(0).may_fill()) << "its own rank";
  }
  Links paced = links(Fabric::nic, false, 1e3);
  const Channels all = channels(&paced);
  all.equip(&bench_);
  Channel& to = all.to(1);
  // The links of before share its clock and have sent nothing.
  for (int i = 0; i < 8; ++i) to.signal(i % 2, bench_);
  EXPECT_EQ(to.room_at(false), Transit::kNothing);
  to.store({1, kWide, one_, theirs(), 16, false}, bench_);
  EXPECT_EQ(to.room_at(false), Transit::kNothing) << "not issued yet";
  to.signal(0, bench_);  // 16 ms of the link
  EXPECT_NE(to.room_at(false), Transit::kNothing);
}

struct Told : Hooks {
  void put(int, int target, std::int64_t rows, std::int64_t cols, const ConstStrip& from, const Strip& to) override {
    puts += target == 1;
    copy(rows, cols, from, to);
  }
  void signal(int, int, std::uint32_t* word) override { ++*word; }
  void end_lane(int) override { ++lanes; }
  void begin_run(int) override {}
  void pause(int, bool) override {}
  bool has_room(int, int) override { return room; }
  int puts = 0, lanes = 0;
  bool room = true;
};

TEST_F(ChannelTest, HooksAreToldOfAllAndMakeNoTileInPlace) {
  Told told;
  Links paced = links(Fabric::nic, false);
  const Channels all = channels(&paced, &told);
  Channel& to = all.to(1);
  EXPECT_EQ(to.most_staged(), 0);
  to.store({2, kWide, two_, theirs(), 32, false}, bench_);
  EXPECT_EQ(told.puts, 1);
  EXPECT_EQ(y(0), 11) << "folded before it is handed over";
  to.signal(1, bench_);
  EXPECT_EQ(counter(1), 1u);
  all.end_lane(bench_);
  EXPECT_EQ(told.lanes, 1);
  EXPECT_EQ(to.room_at(false), Transit::kNothing);
  told.room = false;
  EXPECT_NE(to.room_at(false), Transit::kNothing);
}

}  // namespace
}  // namespace weft
