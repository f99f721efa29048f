// Ops that have run for long: counters pass 2^32 and run numbers 2^31 and 2^32. Ops begin shortly before that, as if so
// many runs had been, and go across; every run gives the bits that it gives in a young op. On threads, on processes, by
// paced links, under a scheduler that permutes every store and signal, and with one, two and three copies of buffers.
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>

#include <fmt/core.h>
#include <gtest/gtest.h>

#include "weft/base/index.h"
#include "weft/transport/join/launch.h"
#include "weft/weft.h"

#include "tests/cases.h"
#include "tests/child_main.h"
#include "tests/seeded_scheduler.h"

namespace weft::testing {
namespace {

constexpr int kRanks = 3, kRuns = 8;
constexpr std::uint64_t kFirsts[] = {(std::uint64_t{1} << 31) - 4, (std::uint64_t{1} << 32) - 4};

struct Subject {
  std::string name;
  Producer producer;
  Plan plan;
};

// The same plan with `depth` copies of every inbox, and credits of so many runs before.
Plan deepened(Plan plan, int depth) {
  for (Buffer& buffer : plan.buffers)
    if (buffer.role == Role::internal) buffer.depth = depth;
  for (Rule& rule : plan.rules)
    for (WaitRule& wait : rule.waits)
      if (wait.lag > 0) wait.lag = depth;
  return plan;
}

// A small case of every space and route, at every depth.
std::vector<Subject> subjects() {
  std::vector<Subject> out;
  std::map<std::string, int> seen;
  for (const Case& c : all_cases(kRanks)) {
    const bool small = c.producer.m <= 13 && c.producer.n <= 17 && c.producer.m > 3;
    if (!small || c.producer.kind != ProducerKind::gemm || c.space.kind == SpaceKind::keep) continue;
    const Plan plan = plan_of(c);
    if (seen[plan.name]++ > 0) continue;
    for (const int depth : {1, 2, 3})
      out.push_back({c.name + fmt::format(" depth {}", depth), c.producer, deepened(plan, depth)});
  }
  return out;
}

// What one rank found: the bits of its output in every run of every subject.
using Found = std::vector<std::vector<float>>;

void run_subject(World& world, const Subject& s, SeededScheduler* scheduler, Found* found) {
  Op op = world.compile(s.plan);
  if (scheduler != nullptr) scheduler->enter(world.rank());
  for (int run = 0; run < kRuns; ++run) {
    const Data data = make_data(s.producer, world.rank(), num(run + 1));
    op.run(data.inputs(s.producer));
    const Matrix y = op.output();
    found->emplace_back(y.values().begin(), y.values().end());
  }
  if (scheduler != nullptr) scheduler->leave(world.rank());
}

std::vector<Found> on_threads(const std::vector<Subject>& list, const WorldOptions& options,
                              SeededScheduler* scheduler = nullptr) {
  std::vector<Found> all(kRanks);
  World::local(
      kRanks,
      [&](World& world) {
        for (const Subject& s : list) run_subject(world, s, scheduler, &all[at(world.rank())]);
      },
      options);
  return all;
}

void expect_same(const std::vector<Found>& a, const std::vector<Found>& b, const std::string& what) {
  for (std::size_t rank = 0; rank < a.size(); ++rank) {
    ASSERT_EQ(a[rank].size(), b[rank].size()) << what;
    for (std::size_t i = 0; i < a[rank].size(); ++i)
      EXPECT_TRUE(a[rank][i].size() == b[rank][i].size() &&
                  std::memcmp(a[rank][i].data(), b[rank][i].data(), a[rank][i].size() * sizeof(float)) == 0)
          << what << ": subject " << i / kRuns << ", run " << i % kRuns << " of rank " << rank;
  }
}

TEST(Wrap, ThreadsGoAcross) {
  const std::vector<Subject> list = subjects();
  EXPECT_GE(list.size(), 15u);
  const std::vector<Found> young = on_threads(list, {.threads = 1});
  for (const std::uint64_t first : kFirsts)
    for (const int threads : {1, 2})
      expect_same(on_threads(list, {.threads = threads, .first_run = first}), young,
                  fmt::format("from run {} on {} threads", first, threads));
}

TEST(Wrap, PacedLinksGoAcross) {
  const std::vector<Subject> list = subjects();
  const std::vector<Found> young = on_threads(list, {.threads = 1});
  for (const Fabric fabric : {Fabric::pairs, Fabric::nic}) {
    WorldOptions options{.threads = 1, .first_run = kFirsts[1]};
    options.link = Link{.bytes_per_s = 200e6, .latency_s = 2e-6, .fabric = fabric};
    expect_same(on_threads(list, options), young, to_string(*options.link));
  }
}

// No wait may be taken as met because a run number has begun again at 0: some order of signals would show it.
TEST(Wrap, NoOrderOfStoresAndSignalsShowsIt) {
  const std::vector<Subject> list = subjects();
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    const Subject& s = list[seed % list.size()];
    const std::vector<Found> young = on_threads({s}, {.threads = 1});
    SeededScheduler scheduler(kRanks, seed);
    expect_same(on_threads({s}, {.threads = 1, .hooks = &scheduler, .first_run = kFirsts[1]}, &scheduler), young,
                fmt::format("{}, seed {}", s.name, seed));
  }
}

std::string bytes_of(const Found& found) {
  std::string out;
  for (const auto& values : found)
    out.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
  return out;
}

TEST(Wrap, ProcessesGoAcross) {
  const std::vector<Found> young = on_threads(subjects(), {.threads = 1});
  for (const std::uint64_t first : kFirsts) {
    const std::string folder = fmt::format("{}/weft_wrap_{}_{}", ::testing::TempDir(), getpid(), first);
    std::filesystem::create_directories(folder);
    const LaunchResult result = launch({kRanks, {"/proc/self/exe", "--child", folder, std::to_string(first)}});
    EXPECT_EQ(result.exit_code(), 0) << result.reason;
    for (int rank = 0; rank < kRanks; ++rank) {
      std::ifstream file(fmt::format("{}/{}", folder, rank), std::ios::binary);
      const std::string text{std::istreambuf_iterator<char>(file), {}};
      EXPECT_TRUE(text == bytes_of(young[at(rank)])) << "from run " << first << ", rank " << rank;
    }
    std::filesystem::remove_all(folder);
  }
}

int child(const std::string& folder, std::uint64_t first) {
  World world = World::init(0, nullptr, {.threads = 1, .first_run = first});
  Found found;
  for (const Subject& s : subjects()) run_subject(world, s, nullptr, &found);
  std::ofstream(fmt::format("{}/{}", folder, world.rank()), std::ios::binary) << bytes_of(found);
  return 0;
}

}  // namespace
}  // namespace weft::testing

int main(int argc, char** argv) {
  using namespace weft::testing;
  return test_main(argc, argv, [](const ChildWords& words) { return child(words.at(0), std::stoull(words.at(1))); });
}
