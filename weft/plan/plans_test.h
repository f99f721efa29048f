// Plans of every kind for tests, small and ragged: what the builders make, and two of them composed.
#pragma once

#include <string>
#include <vector>

#include "weft/collective/draft.h"
#include "weft/collective/two_level.h"
#include "weft/plan/compose.h"

namespace weft::testing_plans {

inline Space space_of(int num_ranks, SpaceKind kind) {
  Space space;
  space.kind = kind;
  space.mesh = Mesh({{"tp", num_ranks}});
  space.axis = "tp";
  return space;
}

inline Producer small_gemm(std::int64_t m, std::int64_t n, std::int64_t k, int num_ranks, bool bias = false) {
  return validated(gemm({.m = m, .n = n, .k = k, .tile = {4, 8}, .bias = bias}), num_ranks);
}
inline Producer small_copy(std::int64_t rows, std::int64_t cols, int num_ranks) {
  return validated(copy({.rows = rows, .cols = cols, .tile = {4, 8}}), num_ranks);
}

// One rank has nobody to talk to: its plan keeps the output.
inline Plan reduce_scatter_plan(const Producer& p, int ranks, Route route) {
  return ranks == 1 ? build_keep(p, 1) : build_reduce_scatter(p, space_of(ranks, SpaceKind::reduce_scatter), route);
}
inline Plan all_reduce_plan(const Producer& p, int ranks, Route route) {
  return ranks == 1 ? build_keep(p, 1) : build_all_reduce(p, space_of(ranks, SpaceKind::all_reduce), route);
}
inline Plan all_gather_plan(const Producer& p, int ranks, Route route) {
  return ranks == 1 ? build_keep(p, 1) : build_all_gather(p, space_of(ranks, SpaceKind::all_gather), route);
}
inline Plan gather_gemm_plan(const Producer& p, int ranks, Route route) {
  return ranks == 1 ? build_keep(p, 1) : build_gather_gemm(p, space_of(ranks, SpaceKind::all_gather), route);
}

// Every builder and route for a gemm of m x n, and one composed plan. At least two ranks.
inline std::vector<Plan> all_plans(int ranks, std::int64_t m = 37, std::int64_t n = 29) {
  const Producer p = small_gemm(m, n, 5, ranks, true);
  Space columns = space_of(ranks, SpaceKind::all_to_all), uneven = columns;
  columns.options.stack = Stack::columns;
  for (int i = 0; i < ranks * ranks; ++i) uneven.options.rows.push_back(i % 3);
  const Producer tables =
      validated(embedding_bag({.tables = 3, .rows = 10, .dim = 6, .batch = m, .tile_rows = 4}), ranks);
  std::vector<Plan> out;
  for (const Route route : {Route::ring, Route::direct}) {
    out.push_back(reduce_scatter_plan(p, ranks, route));
    out.push_back(all_gather_plan(p, ranks, route));
    out.push_back(gather_gemm_plan(p, ranks, route));
  }
  for (const Route route : {Route::ring, Route::one_shot, Route::two_shot})
    out.push_back(all_reduce_plan(p, ranks, route));
  out.push_back(build_broadcast(p, space_of(ranks, SpaceKind::broadcast)));
  out.push_back(build_all_to_all(p, space_of(ranks, SpaceKind::all_to_all)));
  out.push_back(build_all_to_all(tables, columns));
  out.push_back(build_all_to_all(p, uneven));
  out.push_back(build_keep(p, ranks));
  if (ranks > 2 && ranks % 2 == 0) {  // hosts of 2
    out.push_back(build_two_level_reduce_scatter(p, space_of(ranks, SpaceKind::reduce_scatter), 2));
    out.push_back(build_two_level_all_reduce(p, space_of(ranks, SpaceKind::all_reduce), 2));
    out.push_back(build_two_level_all_gather(p, space_of(ranks, SpaceKind::all_gather), 2));
    out.push_back(build_two_level_gather_gemm(p, space_of(ranks, SpaceKind::all_gather), 2));
    out.push_back(build_two_level_broadcast(p, space_of(ranks, SpaceKind::broadcast), 2));
    out.push_back(then(build_two_level_reduce_scatter(small_gemm(6 * ranks, 20, 5, ranks), columns, 2),
                       build_two_level_gather_gemm(small_gemm(6, 11, 20, ranks, true), columns, 2)));
  }
  out.push_back(then(reduce_scatter_plan(small_gemm(6 * ranks, 20, 5, ranks), ranks, Route::ring),
                     gather_gemm_plan(small_gemm(6, 11, 20, ranks, true), ranks, Route::direct)));
  return out;
}

}  // namespace weft::testing_plans
