// The description of an op to measure: a producer, an output space, whether the space feeds the producer, and its
// tables. A name is a collective (rs, ar, ag, a2a, bcast), "<producer>-<space>" (gemm-rs, embedding-a2a, gemv-keep),
// or ag-gemm, the gather on the consumer's side.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "weft/plan/plan.h"
#include "weft/plan/price/estimate.h"
#include "weft/plan/producer.h"
#include "weft/plan/space.h"
#include "weft/study/device/routing.h"

namespace weft {

class Op;
class World;
struct Cluster;

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
  std::optional<Routing> routing;           // gemm-a2a: rows are those of experts, drawn at run time
  int ranks = 1;                            // that were asked for; with keep, each is a group of its own
  int ranks_per_host = 0;                   // 0: as the cluster has them

  bool alone() const { return producer.kind == ProducerKind::copy; }  // a collective without a computation
};

// The kinds that the name of an op stands for.
struct OpName {
  ProducerKind producer = ProducerKind::copy;
  SpaceKind space = SpaceKind::keep;
  bool gathers = false;
};
OpName parse_op_name(const std::string& name);  // throws bad_input, listing the names there are

OpSpec producer_alone(const OpSpec& spec, int rank = 0);  // keeps its output; gathered rows are there already
OpSpec collective_alone(const OpSpec& spec);              // a copy into the same space
bool has_collective(const OpSpec& spec);                  // beside its producer

// A rank's inbox by the route one_shot, where there is one; beyond kMaxOneShotBytes that route is not tried.
double one_shot_bytes(const OpSpec& collective);

// The cluster with its ranks on hosts as the spec says.
Cluster laid_out(Cluster cluster, const OpSpec& spec);

Plan build(const OpSpec& spec, const Cluster& cluster);
EstimateHint hint_of(const OpSpec& spec);  // what the estimate cannot see in a plan: what bags pool, from which tables
Op compile(World& world, const OpSpec& spec);

// {"m": 1024, "n": 1024, "k": 512}, or tables, rows, dim, batch, pooling.
nlohmann::ordered_json shape_json(const OpSpec& spec);
std::int64_t rows_read(const std::vector<BagTable>& bags);  // by one sample
std::string shape_text(const OpSpec& spec);                 // "1024 x 1024 x 512"

}  // namespace weft
