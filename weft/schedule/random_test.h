// Random pipelines for tests of properties: sizes, kinds and whole costs.
#pragma once

#include <random>

#include "weft/schedule/build.h"
#include "weft/schedule/costs.h"

namespace weft::pipeline {

class RandomPipeline {
 public:
  explicit RandomPipeline(std::uint64_t seed) : random_(seed) {}

  int from(int low, int high) { return low + static_cast<int>(random_() % num(high - low + 1)); }

  // Any kind; micro-batches are a multiple of the stages where the kind wants that.
  BuildOptions options(int most_stages, int most_micro_batches) {
    BuildOptions o;
    o.kind = kKinds[from(0, 4)];
    o.stages = from(1, most_stages);
    o.micro_batches = from(1, most_micro_batches);
    o.chunks = from(1, 3);
    if (o.kind == Kind::interleaved_1f1b)
      o.micro_batches = o.stages * from(1, std::max(1, most_micro_batches / o.stages));
    if (o.kind != Kind::interleaved_1f1b && from(0, 1) == 1) o.memory = from(1, 2 * o.stages);
    o.backward = from(0, 1) == 0 ? Backward::whole : Backward::split;
    o.recompute = from(0, 2) == 0 ? Recompute::yes : Recompute::no;
    return o;
  }

  // Work is a multiple of six, so that two or three chunks have whole costs too.
  Costs costs(int stages, int most = 4) {
    Costs out;
    out.transfers = from(0, 1) == 0 ? Transfers::overlapped : Transfers::blocking;
    for (int i = 0; i < stages; ++i) {
      StageCost s{6.0 * from(0, most), 6.0 * from(0, most), 6.0 * from(0, most), 6.0 * from(0, most)};
      s.send_forward_s = from(0, 4 * most);
      s.send_backward_s = from(0, 4 * most);
      out.stages.push_back(s);
    }
    return out;
  }

  std::mt19937_64& engine() { return random_; }

 private:
  std::mt19937_64 random_;
};

}  // namespace weft::pipeline
