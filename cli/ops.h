// The OP of `weft plan` and `weft bench`: one table from a name and a shape to a producer and an output space.
// A name is a collective (rs, ar, ag, a2a, bcast), "<producer>-<space>" (gemm-rs, embedding-a2a, gemv-keep), or
// ag-gemm, the gather on the consumer's side.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "weft/plan/plan.h"
#include "weft/plan/producer.h"
#include "weft/plan/space.h"

namespace CLI {
class App;
}

namespace weft {
class Op;
class World;
struct Cluster;
}  // namespace weft

namespace weft::cli {

// What the flags say, unchecked.
struct OpFlags {
  std::string op;
  int ranks = 2;
  std::optional<std::int64_t> m, n, k;  // none: the op's default
  std::array<std::int64_t, 2> tile{0, 0};
  std::string weight = "f32", wire = "f32", wire_sums, route = "auto", stack, pool = "sum";
  int slices = 0, root = 0;
  bool addend = false;
  int ranks_per_host = 0;                                         // 0: as the command has them
  std::optional<std::int64_t> tables, rows, dim, batch, pooling;  // none: 8, 10000, 64, 1024, 32; or the workload's
  double zipf = 0;
  std::string workload, tables_of = "all";
};

// `max_ranks` is what the command can serve; it goes into the help; parse_op checks it.
void add_op_flags(CLI::App& app, OpFlags* flags, int max_ranks);

// A table of embedding_bag: its rows, and how many of them a sample reads.
struct BagTable {
  std::int64_t rows = 0, pooling = 0;
};

struct OpSpec {
  std::string name;  // as given
  Producer producer;
  Space space;
  bool gathers = false;                     // the space feeds the producer
  std::vector<std::vector<BagTable>> bags;  // embedding_bag: the tables of every rank
  double pooling = 0;                       // embedding_bag: rows of a table a sample reads, on the busiest rank
  double zipf = 0;                          // embedding_bag: exponent of the popularity of rows; 0: all alike
  std::string workload;                     // embedding_bag: where the tables come from, as "dlrm-v2 one-hot"
  int ranks = 1;                            // that were asked for; with keep, each is a group of its own
  int ranks_per_host = 0;                   // 0: as the cluster has them

  bool alone() const { return producer.kind == ProducerKind::copy; }  // a collective without a computation
};

// Throws bad_input naming the value and the remedy: an unknown name, a size out of range, a route there is not.
OpSpec parse_op(const OpFlags& flags, int max_ranks);

// The cluster with its ranks on hosts as the spec says.
Cluster laid_out(Cluster cluster, const OpSpec& spec);

Plan build(const OpSpec& spec, const Cluster& cluster);
Op compile(World& world, const OpSpec& spec);

// {"m": 1024, "n": 1024, "k": 512}, or tables, rows, dim, batch, pooling.
nlohmann::ordered_json shape_json(const OpSpec& spec);
std::string shape_text(const OpSpec& spec);  // "1024 x 1024 x 512"

}  // namespace weft::cli
