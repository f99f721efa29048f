// A thousand runs of every space and route in one world, with no barrier between them and each rank late now and then,
// in shared memory between processes and over both wires: bits as on threads that share memory and are never late.
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <random>
#include <thread>

#include <fmt/core.h>
#include <gtest/gtest.h>

#include "weft/base/index.h"
#include "weft/transport/join/launch.h"
#include "weft/weft.h"

#include "tests/cases.h"
#include "tests/child_main.h"

namespace weft::testing {
namespace {

constexpr int kRuns = 1000, kInputs = 2;  // runs take turns between so many inputs

using Outputs = std::map<std::string, std::vector<float>>;  // "case|rank": of all inputs, one after another

class Lateness {
 public:
  explicit Lateness(int rank) : random_(num(rank) + 1) {}
  void maybe() {
    if (random_() % 64 == 0) std::this_thread::sleep_for(std::chrono::microseconds(random_() % 1000));
  }
  bool looks() { return random_() % 2 == 0; }

 private:
  std::mt19937 random_;
};

// Outputs are looked at after every second run or so: what nobody waited for runs into the next.
std::string run_case(World& world, const Case& c, int runs, Lateness* late, Outputs* outputs) {
  Op op = compile(world, c);
  const int rank = c.space.kind == SpaceKind::keep ? 0 : world.rank();
  std::vector<Data> data;
  for (int i = 0; i < kInputs; ++i) data.push_back(make_data(c.producer, rank, num(i) + 1));
  std::vector<std::vector<float>> first(kInputs);
  for (int run = 0; run < runs; ++run) {
    if (late != nullptr) late->maybe();
    op.run(data[at(run % kInputs)].inputs(c.producer));
    if (run >= kInputs && late != nullptr && !late->looks()) continue;
    const auto y = op.output().values();
    std::vector<float>& known = first[at(run % kInputs)];
    if (run < kInputs) known.assign(y.begin(), y.end());
    if (y.size() != known.size() || std::memcmp(y.data(), known.data(), y.size_bytes()) != 0)
      return fmt::format("{}: other bits in run {} of rank {}", c.name, run, world.rank());
  }
  op.output();
  std::vector<float>& mine = (*outputs)[fmt::format("{}|{}", c.name, world.rank())];
  for (const auto& of_one : first) mine.insert(mine.end(), of_one.begin(), of_one.end());
  return {};
}

std::vector<std::string> run_all(World& world, int runs, Lateness* late, Outputs* outputs) {
  std::vector<std::string> problems;
  for (const Case& c : route_cases(world.size()))
    if (std::string problem = run_case(world, c, runs, late, outputs); !problem.empty()) problems.push_back(problem);
  return problems;
}

Outputs on_threads(int num_ranks, const WorldOptions& options, int runs, bool are_late) {
  Outputs all;
  std::mutex mutex;
  World::local(
      num_ranks,
      [&](World& world) {
        Outputs mine;
        Lateness late(world.rank());
        const auto problems = run_all(world, runs, are_late ? &late : nullptr, &mine);
        const std::lock_guard lock(mutex);
        for (const std::string& problem : problems) ADD_FAILURE() << problem;
        all.merge(mine);
      },
      options);
  return all;
}

void expect_same(const Outputs& got, const Outputs& expected) {
  ASSERT_EQ(got.size(), expected.size());
  for (const auto& [name, values] : expected) {
    const auto found = got.find(name);
    ASSERT_NE(found, got.end()) << name;
    ASSERT_EQ(found->second.size(), values.size()) << name;
    EXPECT_EQ(std::memcmp(found->second.data(), values.data(), values.size() * sizeof(float)), 0) << name;
  }
}

class BackToBack : public ::testing::TestWithParam<int> {
 protected:
  Outputs plain() const { return on_threads(GetParam(), {.threads = 1}, kInputs, false); }

  void over(WireKind kind) {
    if (!available(kind)) GTEST_SKIP() << "not in this build (libssl-dev, libucx-dev)";
    WorldOptions options{.threads = 1};
    options.wire = kind;
    options.ranks_per_host = GetParam() == 8 ? 2 : 1;
    expect_same(on_threads(GetParam(), options, kRuns, true), plain());
  }
};
INSTANTIATE_TEST_SUITE_P(Ranks, BackToBack, ::testing::Values(2, 3, 4, 8));

TEST_P(BackToBack, OverTls) { over(WireKind::tls); }
TEST_P(BackToBack, OverUcx) { over(WireKind::ucx); }

TEST_P(BackToBack, InSharedMemory) {
  const std::string folder = fmt::format("{}/weft_back_to_back_{}_{}", ::testing::TempDir(), getpid(), GetParam());
  std::filesystem::create_directories(folder);
  const LaunchResult result = launch({GetParam(), {"/proc/self/exe", "--child", folder}});
  EXPECT_EQ(result.exit_code(), 0) << result.reason;
  Outputs all;
  for (int r = 0; r < GetParam(); ++r) {
    std::ifstream file(fmt::format("{}/{}", folder, r), std::ios::binary);
    std::string name;
    while (std::getline(file, name)) {
      std::size_t count = 0;
      file.read(reinterpret_cast<char*>(&count), sizeof count);
      all[name].resize(count);
      file.read(reinterpret_cast<char*>(all[name].data()), static_cast<std::streamsize>(count * sizeof(float)));
    }
  }
  std::filesystem::remove_all(folder);
  expect_same(all, plain());
}

int child(const std::string& folder) {
  World world = World::init();
  Outputs outputs;
  Lateness late(world.rank());
  const auto problems = run_all(world, kRuns, &late, &outputs);
  for (const std::string& problem : problems) fmt::print(stderr, "{}\n", problem);
  std::ofstream file(fmt::format("{}/{}", folder, world.rank()), std::ios::binary);
  for (const auto& [name, values] : outputs) {
    const std::size_t count = values.size();
    file << name << "\n";
    file.write(reinterpret_cast<const char*>(&count), sizeof count);
    file.write(reinterpret_cast<const char*>(values.data()), static_cast<std::streamsize>(count * sizeof(float)));
  }
  return problems.empty() ? 0 : 1;
}

}  // namespace
}  // namespace weft::testing

int main(int argc, char** argv) {
  using namespace weft::testing;
  return test_main(argc, argv, [](const ChildWords& words) { return child(words.at(0)); });
}
