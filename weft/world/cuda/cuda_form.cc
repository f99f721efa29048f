#include "weft/world/cuda/cuda_form.h"

#include <utility>

#include "weft/base/error.h"
#include "weft/exec/cuda/device_lane.h"
#include "weft/exec/cuda/device_layout.h"
#include "weft/exec/cuda/small/bag_table.h"
#include "weft/exec/cuda/small/gemv_table.h"

namespace weft {
namespace {

// A gemv of few rows, and its all_reduce, are a kernel of their own: tiles of all rows, words that say of themselves
// when they have come.
CudaForm gemv_form(Producer p, Space space) {
  SpaceOptions& o = space.options;
  if (p.m > kGemvMaxRows) bad_input("m is {}; a gemv on a GPU has at most {} rows: use a gemm", p.m, kGemvMaxRows);
  if (p.n % kGemvCols != 0 || p.k % kGemvDepth != 0)
    bad_input("n is {} and k is {}; a gemv on a GPU takes multiples of {} and {}", p.n, p.k, kGemvCols, kGemvDepth);
  const bool kept = space.kind == SpaceKind::keep;
  if (!kept && (space.kind != SpaceKind::all_reduce || (o.route != Route::automatic && o.route != Route::one_shot)))
    bad_input("a gemv with {} by {} has no GPU version; it is kept there, or all_reduced by one_shot",
              to_string(space.kind), to_string(o.route));
  p.kind = ProducerKind::gemm;
  p.input = p.output = p.weight = Dtype::bf16;
  p.weights = WeightLayout::nk;
  p.tile = {p.m, kGemvCols};
  o.wire = Dtype::bf16;
  o.wire_sums.reset();
  if (!kept) o.route = Route::one_shot;
  return {std::move(p), std::move(space)};
}

// Tables, sums and outputs are f32, as on CPUs.
CudaForm bag_form(Producer p, Space space) {
  SpaceOptions& o = space.options;
  const bool sent = space.kind == SpaceKind::all_to_all && o.stack == Stack::columns &&
                    (o.route == Route::automatic || o.route == Route::direct);
  if (space.kind != SpaceKind::keep && !sent)
    bad_input(
        "embedding bags with {} have no GPU version; they are kept there, or go by all_to_all, direct and side "
        "by side",
        to_string(space.kind));
  if (p.dim % 4 != 0) bad_input("rows of tables have {} values; a GPU takes multiples of 4", p.dim);
  if (sent) o.route = Route::direct;
  p.tile[0] = kBagRows;
  return {std::move(p), std::move(space)};
}

}  // namespace

std::optional<CudaForm> few_rows_form(const Producer& p, const Space& space, Dtype type) {
  const bool product = p.is_product() && p.layout() == WeightLayout::nk && p.k % kGemvDepth == 0;
  const bool rows = p.kind == ProducerKind::copy && space.kind == SpaceKind::all_reduce;
  const Route route = space.options.route;
  const bool sums = space.kind == SpaceKind::all_reduce && (route == Route::automatic || route == Route::one_shot);
  if ((!product && !rows) || (!sums && space.kind != SpaceKind::keep) || p.has_epilogue() || p.addend ||
      type != Dtype::bf16 || p.m > kGemvMaxRows || p.n % kGemvCols != 0)
    return {};
  CudaForm form = gemv_form(p, space);
  if (rows) form.producer.kind = ProducerKind::copy, form.producer.weights = WeightLayout::kn;
  return form;
}

bool is_cuda_gemv(const Producer& p) {
  const bool product = p.kind == ProducerKind::gemm && p.layout() == WeightLayout::nk && p.k % kGemvDepth == 0;
  return (product || p.kind == ProducerKind::copy) && p.y() == Dtype::bf16 && !p.has_epilogue() &&
         p.m <= kGemvMaxRows && p.tile == std::array<std::int64_t, 2>{p.m, kGemvCols};
}

bool is_cuda_gemv(const Plan& plan) {
  const bool kept = plan.num_ranks == 1 && plan.producers[0].kind == ProducerKind::gemm;
  return is_cuda_gemv(plan.producers[0]) && (kept || plan.route == Route::one_shot);
}

CudaForm cuda_form(Producer p, Space space, Dtype type) {
  if (type != Dtype::bf16 && type != Dtype::f32) bad_input("sums on a GPU are bf16 or f32, not {}", to_string(type));
  if (p.addend) bad_input("an addend has no GPU version yet; leave it out, or run on the CPU");
  if (p.kind == ProducerKind::gemv && type == Dtype::bf16) return gemv_form(std::move(p), std::move(space));
  if (p.kind == ProducerKind::gemv) p.kind = ProducerKind::gemm, p.weights = WeightLayout::nk;
  if (p.kind == ProducerKind::embedding_bag) return bag_form(std::move(p), std::move(space));
  if (p.kind != ProducerKind::gemm && p.kind != ProducerKind::copy)
    bad_input("a {} has no GPU version; use a gemm, a gemv, embedding bags or a collective alone", to_string(p.kind));
  p.weight = Dtype::bf16;
  p.input = p.kind == ProducerKind::copy ? type : Dtype::bf16;
  p.output = type;
  check_device_rows(p);
  p.tile = {kCudaTileRows, kCudaTileCols / halves_of(type)};
  const bool sums = space.kind == SpaceKind::reduce_scatter || space.kind == SpaceKind::all_reduce;
  space.options.wire = sums ? type : Dtype::f32;  // what is no sum travels as it is
  space.options.wire_sums.reset();
  return {std::move(p), std::move(space)};
}

Space with_cuda_route(Space space, const Producer& producer) {
  Route& route = space.options.route;
  if (route != Route::automatic) return space;
  const bool makes = producer.kind != ProducerKind::copy;
  switch (space.kind) {
    case SpaceKind::reduce_scatter:
      route = makes ? Route::ring : Route::direct;
      break;
    case SpaceKind::all_reduce:
      route = makes ? Route::ring_shot : Route::two_shot;
      break;
    case SpaceKind::all_gather:
    case SpaceKind::all_to_all:
      route = Route::direct;
      break;
    default:
      break;  // one route
  }
  return space;
}

}  // namespace weft
