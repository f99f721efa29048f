#include <utility>

#include "weft/base/error.h"
#include "weft/exec/cuda/device_lane.h"
#include "weft/exec/cuda/small/bag_table.h"
#include "weft/exec/cuda/small/gemv_table.h"
#include "weft/study/device/device_study.h"

namespace weft {

namespace {

// A gemv of few rows, and its all_reduce, are a kernel of their own: tiles of all rows, words that say of themselves
// when they have come.
OpSpec gemv_spec(OpSpec spec) {
  Producer& p = spec.producer;
  SpaceOptions& o = spec.space.options;
  if (p.m > kGemvMaxRows) bad_input("--m is {}; a gemv on a GPU has at most {} rows: use a gemm", p.m, kGemvMaxRows);
  if (p.n % kGemvCols != 0 || p.k % kGemvDepth != 0)
    bad_input("n is {} and k is {}; a gemv on a GPU takes multiples of {} and {}", p.n, p.k, kGemvCols, kGemvDepth);
  const bool kept = spec.space.kind == SpaceKind::keep;
  if (!kept &&
      (spec.space.kind != SpaceKind::all_reduce || (o.route != Route::automatic && o.route != Route::one_shot)))
    bad_input("{} has no GPU version; a gemv there is kept, or all_reduced by one_shot", spec.name);
  p.kind = ProducerKind::gemm;
  p.input = p.output = p.weight = Dtype::bf16;
  p.weights = WeightLayout::nk;
  p.tile = {p.m, kGemvCols};
  o.wire = Dtype::bf16;
  o.wire_sums.reset();
  if (!kept) o.route = Route::one_shot;
  return spec;
}

// Tables, sums and outputs are f32, as on CPUs.
OpSpec bag_spec(OpSpec spec) {
  const Route route = spec.space.options.route;
  const bool sent = spec.space.kind == SpaceKind::all_to_all && spec.space.options.stack == Stack::columns &&
                    (route == Route::automatic || route == Route::direct);
  if (spec.space.kind != SpaceKind::keep && !sent)
    bad_input("{} has no GPU version; bags there are kept, or go by all_to_all, direct and side by side", spec.name);
  if (spec.producer.dim % 4 != 0) bad_input("--dim is {}; a GPU takes multiples of 4", spec.producer.dim);
  if (spec.zipf > 0) bad_input("--zipf has no GPU version yet; leave it out");
  if (sent) spec.space.options.route = Route::direct;
  spec.producer.tile[0] = kBagRows;
  return spec;
}

}  // namespace

bool is_device_gemv(const OpSpec& spec) {
  return spec.producer.kind == ProducerKind::gemm && spec.producer.tile[1] == kGemvCols;
}

OpSpec device_spec(OpSpec spec) {
  Producer& p = spec.producer;
  if (spec.ranks > kMaxCudaRanks) bad_input("--ranks is {}; at most {} share one GPU", spec.ranks, kMaxCudaRanks);
  if (p.addend) bad_input("an addend has no GPU version yet; leave out --addend or --device");
  if (p.kind == ProducerKind::gemv) return gemv_spec(std::move(spec));
  if (p.kind == ProducerKind::embedding_bag) return bag_spec(std::move(spec));
  if (p.kind != ProducerKind::gemm && p.kind != ProducerKind::copy)
    bad_input("{} has no GPU version yet; use a gemm or a collective alone, or leave out --device", spec.name);
  if (spec.routing && spec.space.options.route != Route::automatic && spec.space.options.route != Route::direct)
    bad_input("--route is {}; rows that are drawn at run time go direct", to_string(spec.space.options.route));
  if (spec.routing) spec.space.options.route = Route::direct;  // staged makes all that there is room for
  p.input = p.output = p.weight = Dtype::bf16;
  if (p.kind == ProducerKind::gemm) p.weights = WeightLayout::nk;
  p.tile = {kCudaTileRows, kCudaTileCols};
  if (p.n % 8 != 0 || p.k % 8 != 0)
    bad_input("n is {} and k is {}; a GPU reads 16 bytes at a time: give multiples of 8", p.n, p.k);
  SpaceOptions& o = spec.space.options;
  const bool sums = spec.space.kind == SpaceKind::reduce_scatter || spec.space.kind == SpaceKind::all_reduce;
  o.wire = sums ? Dtype::bf16 : Dtype::f32;  // what is no sum travels as it is
  o.wire_sums.reset();
  return spec;
}

}  // namespace weft
