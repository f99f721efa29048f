#include "weft/base/error.h"
#include "weft/exec/cuda/device_lane.h"
#include "weft/study/device/device_study.h"

namespace weft {

OpSpec device_spec(OpSpec spec) {
  Producer& p = spec.producer;
  if (p.kind != ProducerKind::gemm && p.kind != ProducerKind::copy)
    bad_input("{} has no GPU version yet; use a gemm or a collective alone, or leave out --device", spec.name);
  if (spec.ranks > kMaxCudaRanks) bad_input("--ranks is {}; at most {} share one GPU", spec.ranks, kMaxCudaRanks);
  if (p.addend) bad_input("an addend has no GPU version yet; leave out --addend or --device");
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
