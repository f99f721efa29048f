// What a plan that only moves rows costs beside plain copies of the same rows: resharding is made of such plans.
//
//   moves_floor [MB] [tls|ucx]   GB/s, medians of 9 rounds, ranks as threads; over a wire on the loopback device
//
//   memcpy, stream   one thread, tile by tile, through the caches and past them
//   pair             rank 0 to rank 1, one trigger of many lanes
//   chain            rank 0 to 1 to 2, each tile handed on as it comes; the rate is that of one hop
//   many triggers    the pair's rows in triggers of one lane, with as many on the receiver that wait for them
#include <algorithm>
#include <cstring>
#include <string_view>
#include <vector>

#include <fmt/core.h>

#include "weft/base/clock.h"
#include "weft/base/index.h"
#include "weft/base/statistics.h"
#include "weft/kernel/rows/sum.h"
#include "weft/weft.h"

#include "tests/moves.h"

namespace {

using namespace weft;

constexpr int kRounds = 9;
constexpr std::int64_t kCols = 1024;

template <class Copy>
double floor_of(std::int64_t rows, std::int64_t tile_rows, Copy&& copy) {
  std::vector<float> from(num(rows * kCols), 1.0f), to(from.size());
  std::vector<double> seconds;
  for (int round = 0; round < kRounds; ++round) {
    const std::int64_t start = now_ns();
    for (std::int64_t row = 0; row < rows; row += tile_rows)
      copy(tile_rows, ConstStrip{from.data() + row * kCols, kCols, Dtype::f32},
           Strip{to.data() + row * kCols, kCols, Dtype::f32});
    seconds.push_back(static_cast<double>(now_ns() - start) * 1e-9);
  }
  return static_cast<double>(rows * kCols * 4) / median(seconds) * 1e-9;
}

double rate_of(const testing::Moves& moves, std::optional<WireKind> wire) {
  double rate = 0;
  WorldOptions options;
  options.wire = wire;
  World::local(
      moves.num_ranks,
      [&](World& world) {
        Op op = world.compile(testing::plan_of(moves), world.mesh({{"all", world.size()}}), "all");
        const std::vector<float> x(num(moves.rows * moves.cols), 1.0f);
        std::vector<double> seconds;
        for (int round = 0; round <= kRounds; ++round) {
          world.barrier();
          const std::int64_t start = now_ns();
          testing::run(op, x.data());
          op.output();
          world.barrier();
          if (round > 0) seconds.push_back(static_cast<double>(now_ns() - start) * 1e-9);
        }
        if (world.rank() == 0) rate = static_cast<double>(moves.rows * moves.cols * 4) / median(seconds) * 1e-9;
      },
      options);
  return rate;
}

void report(std::int64_t rows, std::int64_t tile_rows, std::optional<WireKind> wire) {
  testing::Moves pair{.num_ranks = 2, .rows = rows, .cols = kCols, .tile_rows = tile_rows};
  testing::Moves chain = pair, many = pair;
  pair.list = {{0, 1, 0, rows}};
  chain.num_ranks = 3;
  chain.list = {{0, 1, 0, rows}, {1, 2, 0, rows, 0}};
  for (std::int64_t row = 0; row < rows; row += tile_rows) many.list.push_back({0, 1, row, tile_rows});
  const double through = floor_of(rows, tile_rows, [](auto m, auto a, auto b) { copy(m, kCols, a, b); });
  const double past = floor_of(rows, tile_rows, [](auto m, auto a, auto b) { copy_past_caches(m, kCols, a, b); });
  fmt::print("tile {:5} KB  memcpy {:5.2f}  stream {:5.2f}  pair {:5.2f}  chain {:5.2f}  ",
             tile_rows * kCols * 4 / 1024, through, past, rate_of(pair, wire), rate_of(chain, wire));
  fmt::print("{:5} triggers {:5.2f} GB/s\n", many.list.size(), rate_of(many, wire));
}

}  // namespace

int main(int argc, char** argv) {
  const std::int64_t megabytes = argc > 1 ? std::atoll(argv[1]) : 64;
  const std::optional<WireKind> wire = argc > 2 ? parse_wire(argv[2]) : std::nullopt;
  const std::int64_t rows = (megabytes << 20) / (kCols * 4);
  for (const std::int64_t tile_rows : {16, 32, 64, 128})
    if (rows % tile_rows == 0) report(rows, tile_rows, wire);
}
