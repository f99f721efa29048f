#include "weft/collective/draft.h"
#include "weft/plan/program.h"

#include "tests/value_mutants/kinds.h"

namespace weft::mutants {
namespace {

Space random_space(Random& random, SpaceKind kind, int num_ranks) {
  Space space;
  space.kind = kind;
  space.mesh = Mesh({{"tp", num_ranks}});
  space.axis = "tp";
  constexpr Dtype kWires[] = {Dtype::f32, Dtype::f32, Dtype::bf16, Dtype::int8};
  if (kind == SpaceKind::reduce_scatter || kind == SpaceKind::all_reduce) space.options.wire = kWires[random() % 4];
  if (kind == SpaceKind::all_reduce) space.options.slices = static_cast<int>(between(random, 0, 2));
  if (kind == SpaceKind::all_to_all && one_in(random, 2)) space.options.stack = Stack::columns;
  return space;
}

// int8 travels in tiles of whole blocks of 32 columns.
GemmOptions gemm_options(Random& random, int num_ranks, bool whole_blocks) {
  GemmOptions o{
      .m = between(random, 1, std::max(4, 2 * num_ranks)), .n = between(random, 1, 6), .k = between(random, 1, 5)};
  o.tile = {between(random, 1, 3), between(random, (o.n + 1) / 2, o.n)};
  if (whole_blocks) o.n = between(random, 20, 70), o.tile = {between(random, 1, 3), 32};
  if (one_in(random, 4)) o.weight = Dtype::bf16;
  o.addend = one_in(random, 5);
  o.bias = one_in(random, 3);
  o.residual = one_in(random, 4);
  if (one_in(random, 4)) o.activation = Activation::relu;
  return o;
}

Plan reducing(Random& random, int num_ranks) {
  const bool all = one_in(random, 2);
  const Space space = random_space(random, all ? SpaceKind::all_reduce : SpaceKind::reduce_scatter, num_ranks);
  const GemmOptions o = gemm_options(random, num_ranks, space.options.wire == Dtype::int8);
  Producer p = one_in(random, 3) ? gemv(o) : gemm(o);
  if (one_in(random, 3)) p = copy({.rows = o.m, .cols = o.n, .tile = o.tile, .addend = o.addend});
  p = validated(p, num_ranks);
  constexpr Route kRoutes[] = {Route::ring, Route::two_shot, Route::one_shot};
  if (all) return build_all_reduce(p, space, kRoutes[random() % 3]);
  return build_reduce_scatter(p, space, one_in(random, 2) ? Route::ring : Route::direct);
}

Plan exchanging(Random& random, int num_ranks) {
  Space space = random_space(random, SpaceKind::all_to_all, num_ranks);
  if (one_in(random, 2)) {
    space.options.stack = Stack::columns;
    const EmbeddingOptions o{.tables = between(random, 1, 3),
                             .rows = between(random, 3, 9),
                             .dim = between(random, 1, 4),
                             .batch = between(random, num_ranks, 3 * num_ranks),
                             .tile_rows = between(random, 1, 3)};
    return build_all_to_all(validated(embedding_bag(o), num_ranks), space);
  }
  GemmOptions o = gemm_options(random, num_ranks, false);
  o.bias = o.residual = o.addend = false, o.activation = Activation::none;
  return build_all_to_all(validated(gemm(o), num_ranks), space);
}

}  // namespace

Plan value_base(Random& random) {
  const int num_ranks = static_cast<int>(between(random, 1, 3)) + 1;
  switch (between(random, 0, 7)) {
    case 0:
      return exchanging(random, num_ranks);
    case 1:
    case 2: {
      GemmOptions o = gemm_options(random, num_ranks, false);
      o.residual = o.addend = false;
      return build_gather_gemm(validated(gemm(o), num_ranks), random_space(random, SpaceKind::all_gather, num_ranks),
                               one_in(random, 2) ? Route::ring : Route::direct);
    }
    case 3:
      return random_plan(random, static_cast<int>(random() % kBuilders));
    default:
      return reducing(random, num_ranks);
  }
}

}  // namespace weft::mutants
