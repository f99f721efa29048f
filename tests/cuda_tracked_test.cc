// Windows over PCIe: a gemm that knows nothing of the others writes a plain matrix in panels, which copy engines take
// to the ranks that they are for.
#include <map>

#include "weft/base/refusal_test.h"
#include "weft/exec/cuda/window/tracked_rows.h"

#include "tests/cuda_case.h"

namespace weft {
namespace {

using testing_cuda::all_operands;
using testing_cuda::Cuda;
using testing_cuda::CudaCase;
using testing_cuda::error_of;
using testing_cuda::expect_deadline;
using testing_cuda::OnDevice;
using testing_cuda::Operands;
using testing_cuda::tolerance;

CudaCase to_all(std::int64_t m, std::int64_t n, int ranks) {
  return {"", m, n, 16, {128, 256}, ranks, Route::direct, WeightLayout::nk, SpaceKind::all_to_all};
}

// The gemm: one rank alone, as many rows as a panel has. All are there before a queue waits for anything: a GPU allots
// no memory while one does.
class PanelGemms {
 public:
  PanelGemms(const CudaCase& c, const TrackedRows& tracked) : case_(c) {
    for (int r = 0; r < c.ranks; ++r)
      for (const RowPanel& panel : tracked.panels(r)) {
        const auto [gemm, added] = gemms_.try_emplace(panel.rows);
        CudaCase alone = c;
        alone.m = panel.rows, alone.ranks = 1, alone.route = Route::local;
        if (added) gemm->second = std::make_unique<CudaExecutor>(testing_cuda::plan_of(alone), CudaOptions{});
      }
  }

  void make(const RowPanel& panel, const CudaOperands& from, std::byte* rows) {
    CudaOperands operands = from;
    operands.x = static_cast<const std::byte*>(from.x) + panel.row * case_.k * 2;
    operands.y = rows + panel.row * case_.n * 2;
    gemms_.at(panel.rows)->start({&operands, 1});
  }

 private:
  CudaCase case_;
  std::map<std::int64_t, std::unique_ptr<CudaExecutor>> gemms_;
};

enum class Turns { listed, reversed };

// A panel of each rank in turn, but that which is left out.
void start_run(TrackedRows* tracked, PanelGemms* gemms, const std::vector<CudaOperands>& from,
               Turns turns = Turns::listed, std::pair<int, int> without = {-1, -1}) {
  std::size_t most = 0;
  for (int r = 0; r < int_size(from); ++r) most = std::max(most, tracked->panels(r).size());
  for (std::size_t turn = 0; turn < most; ++turn)
    for (int r = 0; r < int_size(from); ++r) {
      const std::size_t p = turns == Turns::listed ? turn : most - 1 - turn;
      if (p >= tracked->panels(r).size() || without == std::pair{r, static_cast<int>(p)}) continue;
      gemms->make(tracked->panels(r)[p], from[at(r)], tracked->rows(r));
      tracked->made(r, static_cast<int>(p), device_queue());
    }
  tracked->join(device_queue());
}

void expect_right(const TrackedRows& tracked, const CudaCase& c, const std::vector<Operands>& operands) {
  const auto expected = testing_cuda::reference_of(testing_cuda::plan_of(c), operands);
  for (int r = 0; r < c.ranks; ++r)
    EXPECT_LE(error_of(tracked.output(r), expected[at(r)]), tolerance(c)) << c.m << " rows, rank " << r;
}

void run_tracked(const CudaCase& c, const TrackedOptions& options, Turns turns = Turns::listed) {
  TrackedRows tracked(testing_cuda::plan_of(c), options);
  PanelGemms gemms(c, tracked);
  for (const std::uint64_t run : {1, 2}) {
    const auto operands = all_operands(c, run);
    const OnDevice there(operands);
    start_run(&tracked, &gemms, there.operands, turns);
    tracked.finish();
    expect_right(tracked, c, operands);
  }
}

TEST_F(Cuda, TrackedPanelsReachTheirReceivers) {
  for (const auto& [ranks, panels] : {std::pair{2, 1}, {2, 5}, {3, 5}, {4, 5}, {4, 8}})
    run_tracked(to_all(1000, 264, ranks), {.panels = panels});
  run_tracked(to_all(2048, 512, 4), {.panels = 16, .crossing_bytes = 40'000});
  CudaCase uneven = to_all(520, 264, 3);
  uneven.rows = {0, 60, 120, 200, 0, 60, 130, 1, 0};
  run_tracked(uneven, {.panels = 4});
}

TEST_F(Cuda, TrackedPanelsMayBeMadeInAnyOrder) {
  run_tracked(to_all(1536, 264, 3), {.panels = 12, .crossing_bytes = 40'000}, Turns::reversed);
}

// Without the host between them: rows are written again only when they have left, and arrive in the right run.
TEST_F(Cuda, TrackedRunsFollowOneAnother) {
  const CudaCase c = to_all(1024, 512, 4);
  const auto first = all_operands(c, 1), second = all_operands(c, 2);
  const OnDevice there(first), then(second);
  TrackedRows tracked(testing_cuda::plan_of(c), {.panels = 8});
  PanelGemms gemms(c, tracked);
  std::vector<DeviceMemory> seen;  // by rank 0 behind each run
  const std::int64_t bytes = 1024 * 512 * 2;
  const int runs = testing_cuda::times(20, 4);
  for (int run = 0; run < runs; ++run) seen.emplace_back(bytes);
  for (int run = 0; run < runs; ++run) {
    start_run(&tracked, &gemms, run % 2 == 0 ? there.operands : then.operands);
    copy_later(seen[at(run)].data(), tracked.output(0), bytes, device_queue());
  }
  tracked.finish();
  expect_right(tracked, c, second);
  for (int run = 0; run < runs; ++run) {
    const auto expected = testing_cuda::reference_of(testing_cuda::plan_of(c), run % 2 == 0 ? first : second);
    EXPECT_LE(error_of(seen[at(run)].data(), expected[0]), tolerance(c)) << "run " << run;
  }
}

TEST_F(Cuda, ATrackedPanelThatRaisesItsCounterItselfIsSent) {
  const CudaCase c = to_all(512, 264, 2);
  const auto operands = all_operands(c, 1);
  const OnDevice there(operands);
  TrackedRows tracked(testing_cuda::plan_of(c), {.panels = 4});
  PanelGemms gemms(c, tracked);
  gemms.make(tracked.panels(1)[0], there.operands[1], tracked.rows(1));
  from_device<std::uint16_t>(tracked.rows(1), 1);  // waits until it is made
  start_run(&tracked, &gemms, there.operands, Turns::listed, {1, 0});
  set_word(tracked.counter(1, 0), 1);
  tracked.finish();
  expect_right(tracked, c, operands);
}

TEST_F(Cuda, ATrackedPanelThatIsNeverMadeIsNamedAndTheGpuStaysUsable) {
  const CudaCase c = to_all(1024, 264, 4);
  const OnDevice there(all_operands(c, 1));
  TrackedRows tracked(testing_cuda::plan_of(c), {.panels = 8, .deadline = std::chrono::milliseconds(300)});
  PanelGemms gemms(c, tracked);
  start_run(&tracked, &gemms, there.operands);
  start_run(&tracked, &gemms, there.operands, Turns::listed, {2, 4});
  expect_deadline([&] { tracked.finish(); },
                  R"(rank 2 waited 0\.3 s to send its panel 4 of 7, rows 128 to 255, to rank 0: nobody has made it)");
  EXPECT_THROW(start_run(&tracked, &gemms, there.operands), Error);
  run_tracked(c, {.panels = 8});
}

TEST_F(Cuda, TrackedRowsRefuseSumsAndRecordings) {
  CudaCase sums = to_all(512, 264, 2);
  sums.space = SpaceKind::reduce_scatter;
  EXPECT_NE(refusal([&] { TrackedRows tracked(testing_cuda::plan_of(sums)); }).find("a window takes a product"),
            std::string::npos);
  TrackedRows tracked(testing_cuda::plan_of(to_all(512, 264, 2)));
  for (const bool joins : {false, true})
    EXPECT_EQ(refusal([&] {
                DeviceGraph graph([&] { joins ? tracked.join(device_queue()) : tracked.made(0, 0, device_queue()); });
              }),
              "a run over pcie cannot be recorded in a graph; start it, or use another link");
}

}  // namespace
}  // namespace weft
