// The judge of a contest must itself be right: it agrees with the reference executor and notices a single bad element.
#include "weft/study/input/check.h"

#include <chrono>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <thread>

#include <gtest/gtest.h>

#include "weft/base/error.h"
#include "weft/base/index.h"
#include "weft/cluster/cluster.h"
#include "weft/exec/ref/ref.h"
#include "weft/mesh/box.h"
#include "weft/study/input/inputs.h"
#include "weft/study/input/values.h"
#include "weft/study/panels.h"
#include "weft/world/world.h"

namespace weft {
namespace {

constexpr std::int64_t kAll = std::int64_t{1} << 40;

Producer producer_of(ProducerKind kind, bool addend) {
  const GemmOptions product{.m = 11, .n = 6, .k = 5, .tile = {4, 0}, .addend = addend};
  switch (kind) {
    case ProducerKind::gemm:
      return gemm(product);
    case ProducerKind::gemv:
      return gemv(product);
    case ProducerKind::embedding_bag:
      return embedding_bag({.tables = 2, .rows = 9, .dim = 3, .batch = 11, .tile_rows = 4});
    default:
      return copy({.rows = 11, .cols = 6, .tile = {4, 0}});
  }
}

OpSpec spec_of(std::string_view words, int ranks) {
  OpSpec spec;
  spec.name = words.substr(0, words.find(' '));
  const OpName name = parse_op_name(spec.name);
  spec.producer = producer_of(name.producer, words.ends_with(" addend"));
  spec.gathers = name.gathers;
  spec.ranks = ranks;
  spec.space.kind = name.space;
  spec.space.mesh = Mesh({{"tp", ranks}});
  spec.space.axis = "tp";
  if (name.producer == ProducerKind::embedding_bag) {
    spec.bags.assign(num(ranks), std::vector<BagTable>(2, {.rows = 9, .pooling = 2}));
    spec.pooling = 2;
    spec.space.options.stack = Stack::columns;
  }
  return spec;
}

std::vector<std::vector<float>> outputs(const OpSpec& spec, std::uint64_t round) {
  const Plan plan = build(spec, default_cluster(spec.ranks));
  std::vector<RankInputs> inputs;
  std::vector<Bindings> bindings;
  for (int r = 0; r < plan.num_ranks; ++r) {
    inputs.emplace_back(spec, r).refresh(round);
    const Inputs in = inputs.back().next();
    bindings.push_back({{in}, std::vector<const void*>(plan.buffers.size(), in.x)});
  }
  RefExecutor ref(plan);
  ref.run(bindings);
  std::vector<std::vector<float>> out;
  for (int r = 0; r < plan.num_ranks; ++r) out.push_back(ref.output(r));
  return out;
}

class BenchReference : public ::testing::TestWithParam<const char*> {};

TEST_P(BenchReference, AgreesWithTheReferenceExecutorAndSeesOneBadElement) {
  const OpSpec spec = spec_of(GetParam(), 3);
  const Reference reference(spec);
  auto all = outputs(spec, 7);
  for (int rank = 0; rank < int_size(all); ++rank) {
    auto& y = all[rank];
    const std::int64_t cols = spec.space.kind == SpaceKind::all_to_all && spec.space.options.stack == Stack::columns
                                  ? spec.producer.n * 3
                                  : spec.producer.n;
    const Matrix matrix{y.data(), std::ssize(y) / cols, cols};
    const auto error = [&](std::uint64_t round) { return reference.error_of(matrix, Expect::op, round, rank, kAll); };
    EXPECT_LT(error(7), reference.tolerance());
    EXPECT_GT(error(8), 0.01) << "inputs of another round";
    y[y.size() / 2] += 0.01f;
    EXPECT_GT(error(7), reference.tolerance());
    y[y.size() / 2] = std::numeric_limits<float>::quiet_NaN();
    EXPECT_GT(error(7), 1);
    EXPECT_GT(reference.error_of({y.data(), matrix.rows - 1, cols}, Expect::op, 7, rank, kAll), 1) << "a row too few";
  }
}
INSTANTIATE_TEST_SUITE_P(Ops, BenchReference,
                         ::testing::Values("gemm-rs", "gemm-ar", "gemv-ar", "gemm-a2a", "embedding-a2a", "ag-gemm",
                                           "rs", "ag", "a2a", "bcast", "gemm-ag", "gemm-rs addend", "gemv-ar addend"));

class PanelsOf : public ::testing::TestWithParam<const char*> {};

TEST_P(PanelsOf, CoverEveryRowOnceAndLeaveEachOwnerOneBlock) {
  for (const int ranks : {1, 2, 3, 4})
    for (const int panels : {2, 4, 8})
      for (const std::int64_t m : {8, 13, 64, 101}) {
        OpSpec spec = spec_of(GetParam(), ranks);
        (panel_by(spec) == PanelBy::columns ? spec.producer.n : spec.producer.m) = m;
        if (!panels_fit(spec, panels)) continue;
        std::vector<int> seen(num(m));
        for (int p = 0; p < panels; ++p) {
          const auto stretches = panel_stretches(spec, panels, p);
          std::int64_t size = 0, begin = 0;
          for (const Stretch& stretch : stretches) {
            EXPECT_GT(stretch.size(), 0);
            size += stretch.size();
            for (std::int64_t i = stretch.begin; i < stretch.end; ++i) ++seen[at(i)];
          }
          // The collective of a panel cuts it by the same rule as the whole is cut.
          for (std::int64_t owner = 0; owner < std::ssize(stretches); ++owner) {
            EXPECT_EQ(begin, cut(size, std::ssize(stretches), owner));
            begin += stretches[at(owner)].size();
          }
        }
        EXPECT_EQ(seen, std::vector<int>(num(m), 1)) << ranks << " ranks, " << panels << " panels";
      }
}
INSTANTIATE_TEST_SUITE_P(Ops, PanelsOf, ::testing::Values("gemm-rs", "gemm-ar", "gemm-a2a", "ag-gemm", "gemv-ar"));

// Rank 0's NIC is busy for 80 ms with an op of before, so its blocks come late to rank 1, while those of rank 1 come
// early to rank 0. Signals without bytes pass both. A gather that begins when its blocks are there then begins before
// the next exchange on rank 0 and after it on rank 1.
TEST(Panels, ABusyNicChangesNoOrder) {
  setenv("WEFT_WAIT_S", "5", 1);
  WorldOptions options;
  options.link = Link{.bytes_per_s = 50e6, .latency_s = 10e-6, .fabric = Fabric::nic};
  OpSpec spec = spec_of("gemm-ar", 2);
  spec.producer = gemm({.m = 64, .n = 32, .k = 64});
  World::local(
      2,
      [&](World& world) {
        Op before =
            world.compile(copy({.rows = 1000, .cols = 1000}), broadcast(world.mesh({{"tp", 2}}), "tp", {.root = 0}));
        const std::vector<float> much(1000 * 1000);
        const MakerOf slow_maker = [&](const Producer& producer) -> Make {
          return [make = own_maker(world)(producer)](const Inputs& inputs) {
            std::this_thread::sleep_for(std::chrono::milliseconds(2));
            return make(inputs);
          };
        };
        Panels panels(world, spec, 8, slow_maker);
        RankInputs inputs(spec, world.rank());
        inputs.refresh(1);
        const Inputs in = inputs.next();
        panels.refresh(in);
        const Reference reference(spec);
        for (int run = 0; run < 3; ++run) {
          world.barrier();
          before.run(much.data());
          EXPECT_LT(reference.error_of(panels.run(in), Expect::op, 1, world.rank(), kAll), reference.tolerance());
        }
      },
      options);
  unsetenv("WEFT_WAIT_S");
}

TEST(BenchReference, ResultInBlocksMustCoverAllOfIt) {
  const OpSpec spec = spec_of("gemm-ar", 2);
  const Reference reference(spec);
  const auto y = outputs(spec, 3)[0];
  const std::int64_t n = spec.producer.n;
  const Placed top{{y.data(), 4, n}, 0, 0}, rest{{y.data() + 4 * n, 7, n}, 4, 0};
  EXPECT_LT(reference.error_of(Result{top, rest}, Expect::op, 3, 0, kAll), reference.tolerance());
  EXPECT_GT(reference.error_of(Result{top}, Expect::op, 3, 0, kAll), 1) << "a part is missing";
  Placed wrong = rest;
  wrong.row = 3;
  EXPECT_GT(reference.error_of(Result{top, wrong}, Expect::op, 3, 0, kAll), 0.01) << "a block in another place";
}

TEST(Zipf, PopularRowsAreReadAsOftenAsTheirRankSays) {
  constexpr std::int64_t kRows = 1000, kSamples = 200'000;
  for (const double exponent : {0.8, 1.0, 1.2}) {
    double all = 0;
    for (int i = 1; i <= kRows; ++i) all += std::pow(i, -exponent);
    std::vector<int> seen(kRows);
    for (std::int64_t i = 0; i < kSamples; ++i) ++seen[at(zipf_rank_at(42, i, kRows, exponent))];
    // The share of [i, i + 1) is below 1 / i^a for the first rows and meets it soon.
    for (const int rank : {10, 30, 100})
      EXPECT_NEAR(seen[at(rank - 1)], kSamples * std::pow(rank, -exponent) / all,
                  0.3 * kSamples * std::pow(rank, -exponent) / all)
          << exponent << " " << rank;
    EXPECT_GT(seen[0], seen[1]);
  }
  for (std::int64_t i = 0; i < 1000; ++i) {
    const std::int64_t index = zipf_index_at(7, i, 3, 1.1);
    EXPECT_TRUE(index >= 0 && index < 3);
  }
}

}  // namespace
}  // namespace weft
