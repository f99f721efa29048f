#include <utility>

#include "weft/base/error.h"
#include "weft/exec/cuda/device_lane.h"
#include "weft/study/device/device_study.h"
#include "weft/world/cuda/cuda_form.h"

namespace weft {

bool is_device_gemv(const OpSpec& spec) { return is_cuda_gemv(spec.producer); }

void check_device_trace(const OpSpec& spec) {
  if (is_device_gemv(spec) || spec.producer.kind == ProducerKind::embedding_bag)
    bad_input("--trace shows tiles of a GPU's gemm, and {} has a kernel of its own without a timeline; leave it out",
              spec.name);
}

OpSpec device_spec(OpSpec spec) {
  if (spec.ranks > kMaxCudaRanks) bad_input("--ranks is {}; at most {} share one GPU", spec.ranks, kMaxCudaRanks);
  if (spec.zipf > 0) bad_input("--zipf has no GPU version yet; leave it out");
  if (spec.routing && spec.space.options.route != Route::automatic && spec.space.options.route != Route::direct)
    bad_input("--route is {}; rows that are drawn at run time go direct", to_string(spec.space.options.route));
  if (spec.routing) spec.space.options.route = Route::direct;  // staged makes all that there is room for
  if (spec.producer.kind == ProducerKind::gemm) spec.producer.weights = WeightLayout::nk;
  CudaForm form = cuda_form(std::move(spec.producer), std::move(spec.space));
  spec.producer = std::move(form.producer), spec.space = std::move(form.space);
  return spec;
}

}  // namespace weft
