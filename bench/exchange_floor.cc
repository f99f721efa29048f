// What an all-reduce of two ranks costs at the least: two threads that store to each other, raise a flag, wait and add,
// with no plan, no executor and no bookkeeping. gemv-ar is judged beside it: what is above this line is ours.
//
//   exchange_floor [--json]     microseconds a run for 256, 1024 and 4096 floats; the median of 9 blocks of 5,000 runs
#include <algorithm>
#include <atomic>
#include <cstring>
#include <string_view>
#include <thread>
#include <vector>

#include <fmt/core.h>

#include "weft/base/clock.h"
#include "weft/transport/wait.h"

namespace {

constexpr int kRuns = 5000, kBlocks = 9;

struct alignas(64) Flag {
  std::atomic<std::uint32_t> value{0};
};

// One rank's memory: what its peer stores, and what says so.
struct Rank {
  explicit Rank(int n) : inbox(n), own(n, 1.0f), y(n) {}
  Flag full, read;
  std::vector<float> inbox, own, y;
};

void exchange(Rank& me, Rank& peer, std::uint32_t run) {
  while (me.read.value.load(std::memory_order_acquire) + 1 < run) weft::cpu_pause();  // the peer has read the last one
  std::memcpy(peer.inbox.data(), me.own.data(), me.own.size() * sizeof(float));
  peer.full.value.store(run, std::memory_order_release);
  while (me.full.value.load(std::memory_order_acquire) < run) weft::cpu_pause();
  for (std::size_t i = 0; i < me.y.size(); ++i) me.y[i] = me.own[i] + me.inbox[i];
  peer.read.value.store(run, std::memory_order_release);
}

double median_us(int n) {
  Rank ranks[2] = {Rank(n), Rank(n)};
  std::vector<double> blocks;
  const auto body = [&](int r) {
    std::uint32_t run = 0;
    for (int block = 0; block <= kBlocks; ++block) {
      const std::int64_t start = weft::now_ns();
      for (int i = 0; i < kRuns; ++i) exchange(ranks[r], ranks[1 - r], ++run);
      if (r == 0 && block > 0) blocks.push_back(static_cast<double>(weft::now_ns() - start) * 1e-3 / kRuns);
    }
  };
  std::thread other(body, 1);
  body(0);
  other.join();
  std::sort(blocks.begin(), blocks.end());
  return blocks[blocks.size() / 2];
}

}  // namespace

int main(int argc, char** argv) {
  const bool json = argc > 1 && std::string_view(argv[1]) == "--json";
  const double us[] = {median_us(256), median_us(1024), median_us(4096)};
  if (json)
    fmt::print("{{\"256\": {:.3f}, \"1024\": {:.3f}, \"4096\": {:.3f}}}\n", us[0], us[1], us[2]);
  else
    fmt::print("floats  us a run\n   256  {:8.3f}\n  1024  {:8.3f}\n  4096  {:8.3f}\n", us[0], us[1], us[2]);
}
