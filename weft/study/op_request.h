// An op as somebody asks for it, in words and sizes: `weft plan`, `weft bench` and the walks over shapes (walk/) make
// an OpSpec of it, checked. Refusals call its fields as the command line does: --m, --tables-of.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "weft/study/op_spec.h"

namespace weft {

// Unchecked.
struct OpRequest {
  std::string op;
  int ranks = 2;
  std::optional<std::int64_t> m, n, k;  // none: the op's default
  std::array<std::int64_t, 2> tile{0, 0};
  std::vector<int> torus;
  std::string weight = "f32", wire = "f32", wire_sums, route = "auto", stack, pool = "sum";
  int slices = 0, root = 0;
  bool addend = false;
  int ranks_per_host = 0;                                         // 0: as the command has them
  std::optional<std::int64_t> tables, rows, dim, batch, pooling;  // none: 8, 10000, 64, 1024, 32; or the workload's
  double zipf = 0;
  std::string workload, tables_of = "all";
  std::optional<std::int64_t> tokens;  // gemm-a2a of a workload: of a rank; none: the workload's sequence
  double skew = 0;
  std::vector<std::pair<std::string, std::string>> given;  // flags that were written, and their values
};

// Throws bad_input naming the value and the remedy: an unknown name, a field that this op does not take, a size out of
// range, a route there is not. `max_ranks` is what the caller can serve.
OpSpec parse_op(const OpRequest& request, int max_ranks);

}  // namespace weft
