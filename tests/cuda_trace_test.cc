// Timelines of the gemm's kernel: every tile of every CTA is there, in an order that its waits allow. On a virtual GPU
// time means nothing, but order does.
#include <algorithm>
#include <map>
#include <set>

#include <nlohmann/json.hpp>

#include "weft/base/trace.h"

#include "tests/cuda_case.h"

namespace weft {
namespace {

using testing_cuda::all_operands;
using testing_cuda::Cuda;
using testing_cuda::CudaCase;
using testing_cuda::OnDevice;

// Products with and without sources, sums of triggers, copies, rows that are gathered, and tiles without a pair.
std::vector<CudaCase> cases() {
  CudaCase gathered{"gathered", 200, 264, 136, {128, 256}, 3, Route::direct, WeightLayout::nk, SpaceKind::all_gather};
  gathered.gathers = true;
  return {{"ring", 1040, 520, 136, {128, 256}, 4, Route::ring, WeightLayout::nk},
          {"sums", 808, 328, 72, {128, 256}, 3, Route::two_shot, WeightLayout::kn, SpaceKind::all_reduce},
          {"copies", 520, 264, 16, {128, 256}, 3, Route::staged, WeightLayout::kn, SpaceKind::all_to_all},
          {"no product", 400, 264, 0, {128, 256}, 2, Route::ring, WeightLayout::kn, SpaceKind::all_gather},
          gathered,
          {"alone", 300, 264, 72, {128, 256}, 1, Route::local}};
}

// The second of two runs: only from then on is every credit waited for.
std::unique_ptr<CudaExecutor> traced(const CudaCase& c) {
  CudaOptions options;
  options.trace = true;
  options.clusters_per_rank = 2;  // of more tiles each
  auto out = std::make_unique<CudaExecutor>(testing_cuda::plan_of(c), options);
  const OnDevice there(all_operands(c, 1));
  for (int run = 0; run < 2; ++run) out->start(there.operands);
  out->finish();
  return out;
}

void expect_order(const LaneTable& table, const RankTimes& times, const std::string& name) {
  ASSERT_EQ(times.lanes.size(), table.lanes.size() + table.triggers.size()) << name;
  for (std::size_t i = 0; i < times.lanes.size(); ++i) {
    const bool trigger = i >= table.lanes.size();
    const DeviceLane& lane = trigger ? table.triggers[i - table.lanes.size()] : table.lanes[i];
    const LaneTimes& at_lane = times.lanes[i];
    const std::string which = fmt::format("{} {} {}", name, trigger ? "trigger" : "lane", i);
    EXPECT_EQ(at_lane.asked > 0, lane.product != 0) << which;
    EXPECT_LE(at_lane.asked, at_lane.asked_last) << which;
    EXPECT_EQ(at_lane.rows > 0, lane.product != 0 && lane.reads > 0) << which;
    EXPECT_LE(at_lane.rows, at_lane.rows_met) << which;
    EXPECT_LE(at_lane.rows_met, at_lane.asked) << which;
    EXPECT_GT(at_lane.told, 0u) << which;
    if (lane.lane < 0) continue;  // keeps nothing
    EXPECT_GT(at_lane.stores, 0u) << which;
    EXPECT_GE(at_lane.stores, at_lane.asked_last) << which;
    EXPECT_LE(at_lane.stores, at_lane.told) << which;
    EXPECT_EQ(at_lane.waits > 0, !trigger && lane.waits > 0) << which;
    std::uint64_t last = at_lane.waits;
    for (int w = 0; !trigger && w < lane.waits; ++w) {
      const std::uint64_t met = times.met[at(lane.first_wait + w)];
      if (met == 0) continue;
      EXPECT_GE(met, last) << which;
      last = met;
    }
    EXPECT_LE(last, at_lane.stores) << which;  // nothing is stored, or told, before what it waits for
  }
}

TEST_F(Cuda, ATracedRunHasEveryLaneInOrder) {
  for (const CudaCase& c : cases()) {
    const auto executor = traced(c);
    const DeviceTimes times = executor->times();
    EXPECT_EQ(times.run, 1u);
    ASSERT_EQ(times.ranks.size(), num(c.ranks));
    for (int r = 0; r < c.ranks; ++r)
      expect_order(executor->tables().tables[at(r)], times.ranks[at(r)], fmt::format("{} rank {}", c.name, r));
  }
}

// Of waits for all that a run raises.
TEST_F(Cuda, NoWaitIsMetBeforeThoseWhoRaiseItsCounterHaveStored) {
  for (const CudaCase& c : cases()) {
    const auto executor = traced(c);
    const DeviceTimes times = executor->times();
    std::map<std::pair<int, std::uint32_t>, std::uint64_t> stored;  // by rank and counter: the last who raises it
    for (int r = 0; r < c.ranks; ++r) {
      const LaneTable& table = executor->tables().tables[at(r)];
      for (std::size_t i = 0; i < times.ranks[at(r)].lanes.size(); ++i) {
        const bool trigger = i >= table.lanes.size();
        const DeviceLane& lane = trigger ? table.triggers[i - table.lanes.size()] : table.lanes[i];
        for (int s = 0; s < lane.signals; ++s) {
          const DeviceSignal& signal = table.signals[at(lane.first_signal + s)];
          std::uint64_t& last = stored[{signal.rank, signal.counter}];
          last = std::max(last, times.ranks[at(r)].lanes[i].stores);
        }
      }
    }
    int waits = 0;
    for (int r = 0; r < c.ranks; ++r) {
      const LaneTable& table = executor->tables().tables[at(r)];
      for (const DeviceLane& lane : table.lanes)
        for (int w = lane.first_wait; w < lane.first_wait + lane.waits; ++w) {
          const DeviceWait& wait = table.waits[at(w)];
          if (wait.lag > 0 || wait.at < wait.total) continue;
          EXPECT_GE(times.ranks[at(r)].met[at(w)], (stored[{r, wait.counter}])) << c.name << " wait " << w;
          ++waits;
        }
    }
    EXPECT_EQ(waits > 0, c.ranks > 1 && c.route != Route::staged) << c.name;
  }
}

// Slices by rank and row.
using Rows = std::map<std::pair<int, int>, std::vector<nlohmann::json>>;
Rows rows_of(const nlohmann::json& file) {
  Rows out;
  for (const auto& event : file.at("traceEvents"))
    if (event.at("ph") == "X") out[{event.at("pid"), event.at("tid")}].push_back(event);
  return out;
}

TEST_F(Cuda, ATimelineHasEveryTileOfEveryCta) {
  for (const CudaCase& c : cases()) {
    const auto executor = traced(c);
    TraceText text;
    add_slices(executor->plan(), executor->tables(), executor->times(), &text);
    const nlohmann::json file = nlohmann::json::parse(TraceText::file({text.events()}));
    std::size_t lanes = 0, kept = 0, found = 0;
    std::set<std::pair<int, int>> ctas, expected_ctas;
    std::set<std::string> boxes;
    for (int r = 0; r < c.ranks; ++r) {
      const auto& all = executor->tables().tables[at(r)].lanes;
      lanes += all.size();
      for (std::size_t i = 0; i < all.size(); ++i) {
        kept += all[i].lane >= 0;
        expected_ctas.emplace(r, i / 2 % num(executor->clusters_per_rank()) * 2 + i % 2);
      }
    }
    for (auto& [row, slices] : rows_of(file)) {
      if (row.second % 4 != 3) ctas.emplace(row.first, row.second / 4);
      std::stable_sort(slices.begin(), slices.end(), [](const auto& a, const auto& b) { return a["ts"] < b["ts"]; });
      double end = 0;
      for (const auto& slice : slices) {
        EXPECT_GE(slice.at("ts").template get<double>(), end - 2e-3) << slice.dump();
        EXPECT_GE(slice.at("dur").template get<double>(), 0) << slice.dump();
        end = slice.at("ts").template get<double>() + slice.at("dur").template get<double>();
        if (row.second % 4 != 2) continue;
        if (slice["args"]["tile"] >= 0) ++found;
        boxes.insert(slice["args"]["in"].template get<std::string>() + slice["args"]["tile"].dump());
      }
    }
    EXPECT_EQ(found, kept) << c.name;
    EXPECT_EQ(boxes.size(), kept) << c.name;
    EXPECT_EQ(ctas, expected_ctas) << c.name;
    const TimelineShares shares = shares_of(executor->tables(), executor->times());
    EXPECT_GT(shares.run_us, 0) << c.name;
    for (const double share : {shares.waited, shares.before, shares.after}) {
      EXPECT_GE(share, 0) << c.name;
      EXPECT_LT(share, 1) << c.name;
    }
  }
}

TEST_F(Cuda, TheSameRunWithoutATraceHasNoTimes) {
  CudaExecutor executor(testing_cuda::plan_of(cases()[0]), {});
  EXPECT_THROW(executor.times(), Error);
}

}  // namespace
}  // namespace weft
