// What an all-reduce of two ranks costs at the least: two threads that store to each other, raise a flag, wait and add,
// with no plan, no executor and no bookkeeping. gemv-ar is judged beside it: what is above this line is ours.
//
//   exchange_floor [--json]     microseconds a run for 256, 1024 and 4096 floats; the median of 9 blocks of 2,000 runs
//
// Two figures each. `alone` is the exchange in a tight loop. `added` is what it adds to a gemv with k 64 before it,
// blocks with and without the exchange in turn: beside the exchange it holds what nobody can avoid who needs the
// other's result in every run, waiting for whichever of the two gemvs took longer this time.
#include <algorithm>
#include <atomic>
#include <cstring>
#include <string_view>
#include <thread>
#include <vector>

#include <fmt/core.h>

#include "weft/base/clock.h"
#include "weft/base/index.h"
#include "weft/base/statistics.h"
#include "weft/kernel/gemm/gemv.h"
#include "weft/transport/local/wait.h"

namespace {

constexpr int kRuns = 2000, kBlocks = 9, kDepth = 64;

struct alignas(64) Flag {
  std::atomic<std::uint32_t> value{0};
};

// One rank's memory: what its peer stores, and what says so.
struct Rank {
  explicit Rank(int n) : inbox(n), own(n, 1.0f), y(n), x(kDepth, 1.0f), w(weft::num(n) * kDepth, 1.0f) {}
  Flag full, read;
  std::vector<float> inbox, own, y, x, w;
};

void make(Rank& me) {
  weft::gemv(std::ssize(me.own), kDepth, me.w.data(), weft::Dtype::f32, kDepth, me.x.data(), me.own.data());
}

void exchange(Rank& me, Rank& peer, std::uint32_t run) {
  while (me.read.value.load(std::memory_order_acquire) + 1 < run) weft::cpu_pause();  // the peer has read the last one
  std::memcpy(peer.inbox.data(), me.own.data(), me.own.size() * sizeof(float));
  peer.full.value.store(run, std::memory_order_release);
  while (me.full.value.load(std::memory_order_acquire) < run) weft::cpu_pause();
  for (std::size_t i = 0; i < me.y.size(); ++i) me.y[i] = me.own[i] + me.inbox[i];
  peer.read.value.store(run, std::memory_order_release);
}

struct Floor {
  double alone_us, added_us;
};

Floor measure(int n) {
  Rank ranks[2] = {Rank(n), Rank(n)};
  std::vector<double> alone, added;
  const auto body = [&](int r) {
    std::uint32_t run = 0;
    const auto block_us = [&](bool makes, bool exchanges) {
      exchange(ranks[r], ranks[1 - r], ++run);  // begin together
      const std::int64_t start = weft::now_ns();
      for (int i = 0; i < kRuns; ++i) {
        if (makes) make(ranks[r]);
        if (exchanges) exchange(ranks[r], ranks[1 - r], ++run);
      }
      exchange(ranks[r], ranks[1 - r], ++run);  // and end when the slower has
      return static_cast<double>(weft::now_ns() - start) * 1e-3 / kRuns;
    };
    for (int block = 0; block <= kBlocks; ++block) {
      const double only = block_us(false, true), both = block_us(true, true), made = block_us(true, false);
      if (r != 0 || block == 0) continue;
      alone.push_back(only);
      added.push_back(both - made);
    }
  };
  std::thread other(body, 1);
  body(0);
  other.join();
  return {weft::median(alone), weft::median(added)};
}

}  // namespace

int main(int argc, char** argv) {
  const bool json = argc > 1 && std::string_view(argv[1]) == "--json";
  std::string rows;
  for (const int n : {256, 1024, 4096}) {
    Floor floor = measure(n);  // the best of three: where memory and threads come to lie is luck
    for (int again = 0; again < 2; ++again)
      if (const Floor other = measure(n); other.alone_us < floor.alone_us) floor = other;
    if (json)
      rows += fmt::format("{}\"{}\": {{\"alone_us\": {:.3f}, \"added_us\": {:.3f}}}", rows.empty() ? "" : ", ", n,
                          floor.alone_us, floor.added_us);
    else
      rows += fmt::format("{:6}  {:8.3f}  {:18.3f}\n", n, floor.alone_us, floor.added_us);
  }
  if (json)
    fmt::print("{{{}}}\n", rows);
  else
    fmt::print("floats  alone us  added to a gemv us\n{}", rows);
}
