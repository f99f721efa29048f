// A sharding says which dimensions of a tensor are split over which axes of a mesh, and along which axes
// the ranks hold partial sums. Pure index algebra: from a shape, a sharding and a mesh follow the box of
// every rank and, the other way round, the ranks that hold every box.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "weft/mesh/box.h"

namespace weft {

class Mesh;

using Shape = std::vector<std::int64_t>;

// How one dimension is split: over the product of the axes, row-major, the first named slowest.
struct Split {
  std::vector<std::string> axes;  // none: every rank holds the whole dimension (R)
  friend bool operator==(const Split&, const Split&) = default;
};

struct Sharding {
  std::vector<Split> dims;           // one per tensor dimension
  std::vector<std::string> partial;  // along these axes the ranks' values are still to be added up
  friend bool operator==(const Sharding&, const Sharding&) = default;
};

// One distinct tile and the ranks that hold the same values of it. Where the sharding is partial, each
// contribution is a shard of its own: the same box with part = 0, 1, ..., row-major over the partial axes.
struct Shard {
  Box box;
  std::vector<int> ranks;  // ascending, at least one
  int part = 0;
};

// Reads "R,S0,S01", axes by number (S01: over axes 0 and 1), or "R,S(tp),S(tp,dp)", axes by name;
// "+P1" or "+P(dp)" at the end adds partial axes. An empty text is the sharding of a scalar.
Sharding parse_sharding(std::string_view text, const Mesh& mesh);
std::string to_string(const Sharding& sharding);  // by name

struct ShardingRules {
  std::string_view name = "tensor";  // for the message
  bool uneven = false;               // may the parts of a dimension differ by one?
};

// Throws bad_input unless the sharding fits shape and mesh: as many dims, known axes, each used once,
// and, unless rules.uneven, every dimension a multiple of the ranks it is split over.
void check_sharding(const Shape& shape, const Sharding& sharding, const Mesh& mesh, const ShardingRules& rules = {});

Box whole(const Shape& shape);

// What `rank` holds. Parts of a dimension differ by at most one, larger ones first; where there are fewer
// elements than ranks the last ranks hold an empty box.
Box shard_box(const Shape& shape, const Sharding& sharding, const Mesh& mesh, int rank);

// Every distinct tile with the ranks that hold it, in row-major order of tiles, then of parts. Tiles
// without elements have no owners and are left out.
std::vector<Shard> owners(const Shape& shape, const Sharding& sharding, const Mesh& mesh);

// The same for the tiles that meet `within`, cut down to it.
std::vector<Shard> owners(const Shape& shape, const Sharding& sharding, const Mesh& mesh, const Box& within);

}  // namespace weft
