// An output space: where every tile of an output belongs and when it is complete. A pure value: what a producer is
// fused with is only the configuration of its output space.
//
//   keep            stays on the rank that made it
//   reduce_scatter  summed over the ranks; rank r keeps part r of the rows
//   all_reduce      summed over the ranks; every rank keeps all of it
//   all_gather      every rank keeps every rank's output, stacked by rows
//   all_to_all      part d of the rows goes to rank d, which stacks what it gets by rows or sets it side by side
//   broadcast       the root's output, on every rank
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "weft/base/dtype.h"
#include "weft/mesh/mesh.h"

namespace weft {

enum class SpaceKind { keep, reduce_scatter, all_reduce, all_gather, all_to_all, broadcast };
enum class Route {
  automatic,  // "auto"
  local,
  ring,
  direct,
  one_shot,
  two_shot,
  ring_shot,  // round a ring, then everybody gets the sums at once
  chain,
  staged,
  two_level,
  halving_doubling,
  torus
};
enum class Stack { rows, columns };

std::string_view to_string(SpaceKind kind);
std::string_view to_string(Route route);
Route parse_route(std::string_view name);

struct SpaceOptions {
  Route route = Route::automatic;
  int slices = 0;           // all_reduce by ring, ring_shot, two_shot or two_level: 0 chooses
  Dtype wire = Dtype::f32;  // format of partial sums between ranks: f32, bf16 or int8 (base/dtype.h)
  // all_reduce by ring, two_shot or two_level: format of the sums on their way to everybody. None: int8 where `wire` is
  // int8, else f32. A narrow one is rounded once, by the owner, who takes the rounded sum too, so that all ranks end
  // with the same bits; the epilogue comes after it, on every rank, so that no residual is rounded with it.
  std::optional<Dtype> wire_sums = {};
  int root = 0;                    // broadcast: position in the group
  Stack stack = Stack::rows;       // all_to_all
  std::vector<int> torus;          // all_reduce by torus: its dimensions; empty: two, as square as may be
  std::vector<std::int64_t> rows;  // all_to_all, uneven: most rows from position s to d at [s * N + d]; else empty
};

struct Space {
  SpaceKind kind = SpaceKind::keep;
  Mesh mesh;
  std::string axis;  // the group: the ranks along this axis
  SpaceOptions options;

  int num_ranks() const { return kind == SpaceKind::keep ? 1 : mesh.axis(axis).size; }
};

Space keep();
Space reduce_scatter(const Mesh& mesh, std::string_view axis, const SpaceOptions& options = {});
Space all_reduce(const Mesh& mesh, std::string_view axis, const SpaceOptions& options = {});
Space all_gather(const Mesh& mesh, std::string_view axis, const SpaceOptions& options = {});
Space all_to_all(const Mesh& mesh, std::string_view axis, const SpaceOptions& options = {});
Space broadcast(const Mesh& mesh, std::string_view axis, const SpaceOptions& options = {});

}  // namespace weft
