#include "cli/calibrate.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "weft/kernel/gemv.h"
#include "weft/transport/threads.h"
#include "weft/transport/wait.h"
#include "weft/weft.h"

namespace weft::cli {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

// The median time of `work`, called for a third of a second, after one call that warms up.
double median_seconds(const std::function<void()>& work) {
  work();
  std::vector<double> times;
  const auto begin = Clock::now();
  while (seconds_since(begin) < 0.33) {
    const auto start = Clock::now();
    work();
    times.push_back(seconds_since(start));
  }
  std::nth_element(times.begin(), times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2), times.end());
  return times[times.size() / 2];
}

double flops_per_s() {
  constexpr std::int64_t kSize = 768;
  double rate = 0;
  World::local(1, [&](World& world) {
    Op op = world.compile(gemm({.m = kSize, .n = kSize, .k = kSize}), keep());
    const std::vector<float> x(kSize * kSize, 0.5f), w(kSize * kSize, 0.25f);
    const double seconds = median_seconds([&] {
      op.run(x.data(), w.data());
      op.output();
    });
    rate = 2.0 * kSize * kSize * kSize / seconds;
  });
  return rate;
}

// Tiles of a cache line: what is left of their time is what a tile costs.
double step_s() {
  constexpr std::int64_t kTiles = 8192, kCols = 16;
  double each = 0;
  World::local(1, [&](World& world) {
    Op op = world.compile(copy({.rows = kTiles, .cols = kCols, .tile = {1, kCols}}), keep());
    const std::vector<float> x(kTiles * kCols, 1.0f);
    const double seconds = median_seconds([&] {
      op.run(x.data());
      op.output();
    });
    each = seconds / kTiles;
  });
  return each;
}

// Far more than the last-level cache holds.
constexpr std::size_t kFloats = std::size_t{32} << 20;

void memory_rates(Cluster* cluster) {
  constexpr std::int64_t kCols = 8192;
  constexpr double kBytes = kFloats * sizeof(float);
  std::vector<float> from(kFloats, 1.0f), to(kFloats, 0.0f);
  const std::vector<float> x(kCols, 1.0f);
  std::vector<float> y(kFloats / kCols);
  cluster->read_bytes_per_s = kBytes / median_seconds([&] {
                                gemv(kFloats / kCols, kCols, from.data(), Dtype::f32, kCols, x.data(), y.data());
                              });
  cluster->write_bytes_per_s = kBytes / median_seconds([&] { std::fill(to.begin(), to.end(), y[0]); });
  cluster->copy_bytes_per_s =
      kBytes / median_seconds([&] { std::memcpy(to.data(), from.data(), kFloats * sizeof(float)); });
}

// Half a round trip between two ranks that wait as executors do: spin, then sleep on the bell.
double signal_s() {
  constexpr std::uint32_t kTrips = 2000;
  struct alignas(64) Line {
    std::atomic<std::uint32_t> value{0};
  };
  Line lines[2];
  double each = 0;
  run_thread_ranks(2, [&](Transport& transport) {
    const int me = transport.rank(), peer = 1 - me;
    const Patience patience = patience_from_env();
    const auto trip = [&](std::uint32_t i) {
      if (me == 0) lines[1].value.fetch_add(1), ring_if_asleep(transport.bell(peer));
      wait_until(
          transport, patience, [&] { return lines[me].value.load() >= i; }, [](auto) {});
      if (me == 1) lines[0].value.fetch_add(1), ring_if_asleep(transport.bell(peer));
    };
    for (std::uint32_t i = 1; i <= kTrips; ++i) trip(i);
    const auto start = Clock::now();
    for (std::uint32_t i = kTrips + 1; i <= 10 * kTrips; ++i) trip(i);
    if (me == 0) each = seconds_since(start) / (2.0 * 9 * kTrips);
  });
  return each;
}

}  // namespace

Cluster calibrate(int ranks) {
  Cluster cluster = default_cluster(std::max(ranks, 1));
  cluster.name = "measured";
  cluster.flops_per_s = flops_per_s();
  memory_rates(&cluster);
  cluster.signal_s = signal_s();
  cluster.step_s = step_s();
  cluster.local = {.bytes_per_s = cluster.write_bytes_per_s, .latency_s = cluster.signal_s};  // a store to a peer
  return cluster;
}

}  // namespace weft::cli
