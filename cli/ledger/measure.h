// The rounds of the ledger, run by every rank: the styles take turns on the same inputs, each from a common start until
// the slowest rank has its block's output, and every output is compared. Parts of Weft that come later append rows.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "weft/cluster/cluster.h"
#include "weft/cluster/workload.h"

#include "cli/ledger/part.h"
#include "cli/ledger/weights.h"

namespace weft {
class World;
}

namespace weft::cli {

// Times in microseconds.
struct LedgerRow {
  std::string name;  // "sequential", ...
  std::optional<double> measured_us, predicted_us;
  std::optional<double> exposed_us;  // measured beyond the floor
  std::optional<double> cpu_us;      // of all ranks
  std::string note;
};

struct SubLayerRow {
  std::string name, collective, comm_route, route;  // empty where nothing is exchanged
  double comm_us = 0;                               // the collective alone
  int panels = 0;                                   // of the decomposed version
  std::array<double, 4> us{}, predicted_us{};       // by style, mean of the ranks
  double of(Style style) const { return us[static_cast<std::size_t>(style)]; }
};

// Of one rank in one style; times from the common start.
struct RankSpans {
  int rank = 0;
  std::vector<Span> spans;
};

struct Ledger {
  Workload workload;  // as it was run
  bool scaled = false;
  int ranks = 1, cores = 1, rounds = 0;
  std::string transport;
  std::optional<Link> link;  // none: shared memory
  std::string link_name;     // as asked for
  Cluster cluster;           // what predictions were made on
  std::vector<LedgerRow> rows;
  std::vector<SubLayerRow> sub_layers;
  std::vector<PlanFacts> plans;
  std::optional<WeightLoad> weights;                 // none: made on the ranks that use them
  double aa_band = 0, max_rel_err = 0, comm_us = 0;  // comm_us: all collectives alone
  bool same_bits = false;                            // fused and sequential
  std::string note;
  // A round near the median of each style, for the timeline.
  std::array<std::vector<RankSpans>, 4> spans;

  const LedgerRow& row(Style style) const { return rows[static_cast<std::size_t>(style)]; }
  double measured(Style style) const { return row(style).measured_us.value_or(0); }
  double exposed(Style style) const { return row(style).exposed_us.value_or(0); }
  // Of the sub-layers that communicate: their products to their collectives alone.
  double compute_to_comm() const;
  bool crowded() const { return ranks > cores; }
};

struct LedgerOptions {
  int rounds = 9;
  bool scaled = false;
  std::optional<Link> link;
  std::string link_name;
  std::function<void(const std::string&)> progress = [](const std::string&) {};
};

// Collective; all ranks get the same rows, and rank 0 the spans of all. Throws internal, naming style and rank, where
// outputs differ.
Ledger measure_ledger(World& world, const Workload& workload, const LedgerOptions& options);

}  // namespace weft::cli
