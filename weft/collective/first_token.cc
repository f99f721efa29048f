#include "weft/collective/first_token.h"

#include <algorithm>

#include "weft/base/error.h"
#include "weft/collective/build.h"
#include "weft/plan/price/estimate.h"
#include "weft/plan/price/traffic.h"

namespace weft {
namespace {

constexpr double kShrink = 2;  // values of 2 bytes where plans count 4
constexpr std::int64_t kTile = 128;

// One device per host; memory and links at the rate of values that are half as large.
Cluster modelled(const FirstTokenSpec& spec) {
  Cluster c = spec.cluster;
  c.num_hosts = spec.ranks;
  c.ranks_per_host = 1;
  for (double* rate : {&c.local.bytes_per_s, &c.read_bytes_per_s, &c.write_bytes_per_s, &c.tile_bytes_per_s,
                       &c.gather_bytes_per_s, &c.gather_cached_bytes_per_s, &c.cache_bytes_per_s})
    *rate *= kShrink;
  c.cache_bytes *= kShrink;
  c.shared_cache_bytes *= kShrink;
  if (spec.wire != Dtype::int8) c.network.bytes_per_s *= kShrink;
  return c;
}

class Block {
 public:
  explicit Block(const FirstTokenSpec& spec) : spec_(spec), cluster_(modelled(spec)), mesh_({{"tp", spec.ranks}}) {
    if (spec.wire == Dtype::int8) options_.wire = Dtype::int8;
  }

  void add(const SubLayer& layer) {
    const double alone = layer.work == WorkKind::gemm ? kept(layer, false) : compute_seconds(layer, cluster_);
    for (BlockTime* block : {&out_.sync, &out_.drop}) block->compute += alone;
    if (layer.after == Collective::none) return add_both(alone);
    const bool last = layer.name == "fc2";
    add_summed(layer, false, &out_.sync);
    if (last)
      add_summed(layer, true, &out_.drop);
    else
      out_.drop.sequential += alone, out_.drop.fused += alone;
  }

  // Passes over rows of the width that every rank has, and of its part of the inner one.
  void add_passes(const Workload& w) {
    const double rows = spec_.tokens;
    const double wide = 2 * 2 * rows * w.hidden;  // two norms: read, write
    const double inner = (w.gated ? 3 : 2) * rows * w.ffn / spec_.ranks;
    const double seconds = (wide + inner) * 4 / cluster_.read_bytes_per_s;
    for (BlockTime* block : {&out_.sync, &out_.drop}) block->compute += seconds;
    add_both(seconds);
  }

  FirstToken out_;

 private:
  static Producer product(const SubLayer& layer, bool addend) {
    return gemm({.m = layer.m, .n = layer.n, .k = layer.k, .tile = {kTile, kTile}, .addend = addend});
  }

  double kept(const SubLayer& layer, bool addend) const {
    return layer.count * estimate(build(product(layer, addend), keep(), cluster_), cluster_).seconds;
  }

  void add_both(double seconds) {
    for (BlockTime* block : {&out_.sync, &out_.drop}) {
      block->sequential += seconds;
      block->fused += seconds;
    }
  }

  void add_summed(const SubLayer& layer, bool addend, BlockTime* block) {
    const Space space = all_reduce(mesh_, "tp", options_);
    const Plan fused = build(product(layer, addend), space, cluster_);
    const Plan alone = build(copy({.rows = layer.m, .cols = layer.n, .tile = {kTile, kTile}}), space, cluster_);
    const double sequential = kept(layer, addend) + estimate(alone, cluster_).seconds;
    block->sequential += sequential;
    block->fused += std::min(estimate(fused, cluster_).seconds, sequential);  // nobody fuses what gains nothing
    const double sent = traffic(fused).ranks[0].bytes_to_peers;
    block->bytes += static_cast<std::int64_t>(spec_.wire == Dtype::int8 ? sent : sent / kShrink);
    out_.route = to_string(fused.route.value());
  }

  const FirstTokenSpec& spec_;
  Cluster cluster_;
  Mesh mesh_;
  SpaceOptions options_;
};

}  // namespace

BlockTime FirstToken::total(std::int64_t dropped) const {
  const double kept = blocks - dropped, gone = dropped;
  return {sync.compute * kept + drop.compute * gone, sync.sequential * kept + drop.sequential * gone,
          sync.fused * kept + drop.fused * gone, sync.bytes * (blocks - dropped) + drop.bytes * dropped};
}

FirstToken first_token(const FirstTokenSpec& spec) {
  Workload w = spec.workload;
  if (w.kind != WorkloadKind::transformer)
    bad_input("workload \"{}\" is no transformer; use llama-2-70b, gpt-3 or another of workloads/", w.name);
  if (spec.wire != Dtype::bf16 && spec.wire != Dtype::int8)
    bad_input("a model of bf16 values is not summed as {}; use bf16 or int8", to_string(spec.wire));
  if (spec.tokens < 1) bad_input("a prompt of {} tokens has no first token to wait for; give 1 or more", spec.tokens);
  if (spec.ranks < 2) bad_input("{} ranks synchronise nothing; use 2 or more", spec.ranks);
  w.sequence = spec.tokens;
  w.batch = 1;
  Block block(spec);
  for (const SubLayer& layer : sub_layers(w, {.ranks = spec.ranks}, Phase::forward)) block.add(layer);
  block.add_passes(w);
  block.out_.blocks = w.layers;
  return block.out_;
}

}  // namespace weft
