#include "tests/mutants/bases.h"

#include <algorithm>

#include "weft/collective/draft.h"
#include "weft/collective/two_level.h"
#include "weft/plan/program.h"

namespace weft::mutants {
namespace {

constexpr int kFlatBuilders = 12;

Space space_of(SpaceKind kind, int num_ranks) {
  Space space;
  space.kind = kind;
  space.mesh = Mesh({{"tp", num_ranks}});
  space.axis = "tp";
  return space;
}

// At most about a dozen tiles on a rank: rows up to twice the ranks, at most two columns of tiles.
Producer random_producer(Random& random, int num_ranks, bool gemm_only, bool may_have_residual) {
  const std::int64_t m = between(random, 1, std::max(4, 2 * num_ranks)), n = between(random, 1, 4);
  const std::array<std::int64_t, 2> tile{between(random, m > 6 ? 2 : 1, 3), between(random, (n + 1) / 2, n)};
  if (!gemm_only && one_in(random, 2)) return validated(copy({.rows = m, .cols = n, .tile = tile}), num_ranks);
  GemmOptions options{.m = m, .n = n, .k = between(random, 1, 3), .tile = tile};
  options.bias = one_in(random, 3);
  options.residual = may_have_residual && one_in(random, 4);
  if (one_in(random, 4)) options.activation = Activation::relu;
  return validated(gemm(options), num_ranks);
}

// The same plan with two copies of every buffer that is not an output, and credits of the run before last.
void deepen(Plan* plan) {
  for (Buffer& buffer : plan->buffers)
    if (buffer.role == Role::internal) buffer.depth = 2;
  for (Rule& rule : plan->rules)
    for (WaitRule& wait : rule.waits)
      if (wait.lag > 0) wait.lag = 2;
}

Plan exchange_plan(Random& random, int num_ranks, Stack stack) {
  Producer producer = random_producer(random, num_ranks, false, false);
  Space space = space_of(SpaceKind::all_to_all, num_ranks);
  space.options.stack = stack;
  if (stack == Stack::columns && producer.kind == ProducerKind::copy && one_in(random, 2)) {
    for (int rank = 0; rank < num_ranks; ++rank) producer.n_of.push_back(between(random, 1, producer.n));
    producer = validated(producer, num_ranks);
  }
  if (stack == Stack::rows && one_in(random, 2)) {
    std::vector<std::int64_t> left(num_ranks, producer.m);
    for (int cell = 0; cell < num_ranks * num_ranks; ++cell) {
      std::int64_t& rest = left[cell / num_ranks];
      space.options.rows.push_back(between(random, 0, std::min<std::int64_t>(rest, 3)));
      rest -= space.options.rows.back();
    }
  }
  return build_all_to_all(producer, space);
}

// On two hosts of two ranks, or, now and then, on two of three or three of two.
Plan built_on_hosts(Random& random, int which) {
  const bool many = one_in(random, 4);
  const int num_ranks = many ? 6 : 4, ranks_per_host = many && one_in(random, 2) ? 3 : 2;
  Space space = space_of(SpaceKind::all_reduce, num_ranks);
  if (one_in(random, 4)) space.options.wire = Dtype::bf16;
  space.options.slices = static_cast<int>(between(random, 0, 2));
  space.options.root = static_cast<int>(between(random, 0, num_ranks - 1));
  const Producer producer = random_producer(random, num_ranks, which == 4, which < 2);
  switch (which) {
    case 0:
      return build_two_level_reduce_scatter(producer, space, ranks_per_host);
    case 1:
      return build_two_level_all_reduce(producer, space, ranks_per_host);
    case 2:
      return build_two_level_all_gather(producer, space, ranks_per_host);
    case 3:
      return build_two_level_broadcast(producer, space, ranks_per_host);
    default:
      return build_two_level_gather_gemm(producer, space, ranks_per_host);
  }
}

Plan built(Random& random, int which) {
  if (which >= kFlatBuilders) return built_on_hosts(random, which - kFlatBuilders);
  const int num_ranks = static_cast<int>(between(random, 2, which == 4 ? 3 : 5));
  const auto reduced = [&](SpaceKind kind) {
    Space space = space_of(kind, num_ranks);
    if (one_in(random, 4)) space.options.wire = Dtype::bf16;
    space.options.slices = static_cast<int>(between(random, 0, 2));
    return space;
  };
  const auto producer = [&](bool residual) { return random_producer(random, num_ranks, false, residual); };
  const Space gather = space_of(SpaceKind::all_gather, num_ranks);
  switch (which) {
    case 0:
      return build_reduce_scatter(producer(true), reduced(SpaceKind::reduce_scatter), Route::ring);
    case 1:
      return build_reduce_scatter(producer(true), reduced(SpaceKind::reduce_scatter), Route::direct);
    case 2:
      return build_all_reduce(producer(true), reduced(SpaceKind::all_reduce), Route::ring);
    case 3:
      return build_all_reduce(producer(true), reduced(SpaceKind::all_reduce), Route::two_shot);
    case 4:
      return build_all_reduce(producer(true), reduced(SpaceKind::all_reduce), Route::one_shot);
    case 5:
      return build_all_gather(producer(false), gather, Route::ring);
    case 6:
      return build_all_gather(producer(false), gather, Route::direct);
    case 7: {
      Space space = space_of(SpaceKind::broadcast, num_ranks);
      space.options.root = static_cast<int>(between(random, 0, num_ranks - 1));
      return build_broadcast(producer(false), space);
    }
    case 8:
      return exchange_plan(random, num_ranks, Stack::rows);
    case 9:
      return exchange_plan(random, num_ranks, Stack::columns);
    case 10:
      return build_gather_gemm(random_producer(random, num_ranks, true, false), gather, Route::ring);
    default:
      return build_gather_gemm(random_producer(random, num_ranks, true, false), gather, Route::direct);
  }
}

}  // namespace

Plan random_plan(Random& random, int which) {
  Plan plan = built(random, which);
  if (one_in(random, 4)) deepen(&plan);
  switch (between(random, 0, 2)) {
    case 0:
      return plan;
    case 1:
      return written_out(plan, false);
    default:
      return written_out(plan, true);
  }
}

}  // namespace weft::mutants
