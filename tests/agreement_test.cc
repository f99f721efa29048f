// The one table: producers x spaces x routes x ranks 1-8 x shapes x transports x fabrics, against the reference
// executor; and bit for bit between runs, transports, fabrics and flat routes.
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>

#include <fmt/core.h>
#include <gtest/gtest.h>

#include "weft/base/index.h"
#include "weft/transport/join/launch.h"
#include "weft/weft.h"

#include "tests/cases.h"
#include "tests/child_main.h"

namespace weft::testing {
namespace {

// Digest of every case's output on every rank: "case name|rank" -> hash of the bits.
using Digests = std::map<std::string, std::uint64_t>;

std::uint64_t digest(const Matrix& y) {
  std::uint64_t hash = 1469598103934665603ULL;
  for (const float value : y.values()) {
    std::uint32_t bits;
    std::memcpy(&bits, &value, 4);
    hash = (hash ^ bits) * 1099511628211ULL;
  }
  return hash;
}

// The reference's results, made once by whichever rank comes first.
class References {
 public:
  const std::vector<std::vector<float>>& of(const Case& c, const Plan& plan, std::uint64_t seed) {
    const std::lock_guard lock(mutex_);
    auto& known = known_[fmt::format("{}|{}", c.name, seed)];
    if (known.empty()) {
      std::vector<Data> data;
      for (int r = 0; r < plan.num_ranks; ++r) data.push_back(make_data(c.producer, r, seed));
      known = reference(plan, data);
    }
    return known;
  }

 private:
  std::mutex mutex_;
  std::map<std::string, std::vector<std::vector<float>>> known_;
};

// Runs a case twice with different inputs and once more with the first: a stale buffer or counter would show.
std::string run_case(World& world, const Case& c, References* references, Digests* digests) {
  Op op = compile(world, c);
  const int rank = c.space.kind == SpaceKind::keep ? 0 : world.rank();
  std::uint64_t first = 0;
  for (const std::uint64_t seed : {1, 2, 1}) {
    const Data mine = make_data(c.producer, rank, seed);
    op.run(mine.inputs(c.producer));
    const Matrix y = op.output();
    if (references != nullptr) {
      const auto& expected = references->of(c, op.plan(), seed)[rank];
      const double bound = bound_of(c);
      if (num(y.rows * y.cols) != expected.size()) return c.name + ": wrong shape";
      if (const double e = error(y.data, expected); !(e <= bound))
        return fmt::format("{}: error {} on rank {}", c.name, e, rank);
    }
    if (seed == 2) continue;
    if (first != 0 && first != digest(y)) return c.name + ": another result for the same inputs";
    first = digest(y);
  }
  (*digests)[fmt::format("{}|{}", c.name, world.rank())] = first;
  return {};
}

using CasesOf = std::vector<Case> (*)(int num_ranks);

std::vector<std::string> run_all(World& world, References* references, Digests* digests, CasesOf cases = all_cases) {
  std::vector<std::string> problems;
  for (const Case& c : cases(world.size()))
    if (std::string problem = run_case(world, c, references, digests); !problem.empty())
      problems.push_back(std::move(problem));
  return problems;
}

Digests on_threads(int num_ranks, const WorldOptions& options, References* references, CasesOf cases = all_cases) {
  Digests all;
  std::mutex mutex;
  World::local(
      num_ranks,
      [&](World& world) {
        Digests mine;
        const auto problems = run_all(world, references, &mine, cases);
        const std::lock_guard lock(mutex);
        for (const std::string& problem : problems) ADD_FAILURE() << problem;
        all.merge(mine);
      },
      options);
  return all;
}

Digests on_processes(int num_ranks) {
  const std::string folder = fmt::format("{}/weft_agreement_{}_{}", ::testing::TempDir(), getpid(), num_ranks);
  std::filesystem::create_directories(folder);
  const LaunchResult result = launch({num_ranks, {"/proc/self/exe", "--child", folder}});
  EXPECT_EQ(result.exit_code(), 0) << result.reason;
  Digests all;
  for (int r = 0; r < num_ranks; ++r) {
    std::ifstream file(fmt::format("{}/{}", folder, r));
    std::string line;
    while (std::getline(file, line)) {
      const auto tab = line.find('\t');
      if (line.rfind("problem", 0) == 0)
        ADD_FAILURE() << line;
      else
        all[line.substr(tab + 1)] = std::stoull(line.substr(0, tab));
    }
  }
  std::filesystem::remove_all(folder);
  return all;
}

int compare_routes(const Digests& digests) {
  std::map<std::string, std::uint64_t> by_collective;
  int compared = 0;
  for (const auto& [name, hash] : digests) {
    if (name.find("wire bf16") != std::string::npos) continue;
    const bool sums = name.find("reduce") != std::string::npos;
    if (sums && name.find(" two_level ") != std::string::npos) continue;  // it has its own order
    if (name.find(" halving_doubling ") != std::string::npos || name.find(" torus ") != std::string::npos)
      continue;  // and so have these
    std::string without_route = name;
    for (const char* route : {" ring ", " direct ", " one_shot ", " two_shot ", " staged ", " auto ", " two_level "})
      if (const auto at = without_route.find(route); at != std::string::npos)
        without_route.replace(at, std::strlen(route), " ");
    const auto [it, fresh] = by_collective.emplace(without_route, hash);
    EXPECT_EQ(it->second, hash) << name << " differs from another route";
    compared += !fresh;
  }
  return compared;
}

class Agreement : public ::testing::TestWithParam<int> {};

TEST_P(Agreement, WithTheReferenceAndBetweenTransportsRoutesAndThreads) {
  const int num_ranks = GetParam();
  References references;
  const Digests threads = on_threads(num_ranks, {.threads = 1}, &references);
  EXPECT_EQ(threads.size(), all_cases(num_ranks).size() * num(num_ranks));
  EXPECT_GT(compare_routes(threads), 100);
  EXPECT_EQ(on_processes(num_ranks), threads);
  // Two threads per rank make tiles in another order and must not change a bit.
  if (num_ranks <= 3) {
    EXPECT_EQ(on_threads(num_ranks, {.threads = 2}, nullptr), threads);
  }
}

// Links change when a signal comes, and on fabric nic in which order signals of different senders and sizes do, never a
// bit. The rate is low enough that triggers wait for room on their link, and every wait has an end. The whole table
// takes minutes where ranks outnumber cores: from six on every space and route is run once, on slow links too.
TEST_P(Agreement, BetweenFabrics) {
  const int num_ranks = GetParam();
  const CasesOf cases = num_ranks > 5 ? route_cases : all_cases;
  const Digests plain = on_threads(num_ranks, {.threads = 1}, nullptr, cases);
  for (const Fabric fabric : {Fabric::pairs, Fabric::nic}) {
    WorldOptions options{.threads = num_ranks <= 3 ? 2 : 1};
    options.link = Link{.bytes_per_s = num_ranks > 5 ? 5e6 : 200e6, .latency_s = 2e-6, .fabric = fabric};
    EXPECT_EQ(on_threads(num_ranks, options, nullptr, cases), plain) << to_string(*options.link);
    if (num_ranks % 2 != 0) continue;
    options.ranks_per_host = 2;
    EXPECT_EQ(on_threads(num_ranks, options, nullptr, cases), plain)
        << to_string(*options.link) << ", two ranks per host";
  }
}

#ifdef WEFT_SANITIZED
constexpr int kMostRanks = 4;
#else
constexpr int kMostRanks = 8;
#endif
INSTANTIATE_TEST_SUITE_P(Ranks, Agreement, ::testing::Range(1, kMostRanks + 1));

int child(const std::string& folder) {
  World world = World::init();
  Digests digests;
  const auto problems = run_all(world, nullptr, &digests);
  std::ofstream file(fmt::format("{}/{}", folder, world.rank()));
  for (const std::string& problem : problems) file << "problem " << problem << "\n";
  for (const auto& [name, hash] : digests) file << hash << "\t" << name << "\n";
  return 0;
}

}  // namespace
}  // namespace weft::testing

int main(int argc, char** argv) {
  using namespace weft::testing;
  return test_main(argc, argv, [](const ChildWords& words) { return child(words.at(0)); });
}
