// The ledger of one block of a workload, run by every rank: the styles take turns on the same inputs, each from a
// common start until the slowest rank has its block's output, and every output is compared.
#pragma once

#include <array>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "weft/base/index.h"
#include "weft/cluster/workload.h"
#include "weft/study/ledger/part.h"
#include "weft/study/ledger/table.h"
#include "weft/study/ledger/weights.h"

namespace weft {

struct SubLayerRow {
  std::string name, collective, comm_route, route;          // empty where nothing is exchanged
  double comm_us = 0;                                       // the collective alone
  int panels = 0;                                           // in the style of that name
  std::string floor_gemm;                                   // what made its products in the style compute
  std::array<double, kStyles.size()> us{}, predicted_us{};  // by style, mean of the ranks
  double of(Style style) const { return us[at(style)]; }
};

using RankSpans = std::vector<StageSpan>;  // of one rank in one style; times from the common start

struct BlockLedger {
  Workload workload;  // as it was run
  bool scaled = false;
  LedgerTable table;
  std::vector<SubLayerRow> sub_layers;
  std::vector<PlanFacts> plans;
  std::optional<WeightLoad> weights;    // none: made on the ranks that use them
  double max_rel_err = 0, comm_us = 0;  // comm_us: all collectives alone
  bool same_bits = false;               // fused and sequential
  std::string note;
  // By style and rank: a round near the median, for the timeline.
  std::array<std::vector<RankSpans>, kStyles.size()> spans;

  double measured_us(Style style) const { return table.measured_us(to_string(style)); }
  double exposed_us(Style style) const { return table.exposed_us(to_string(style)); }
  // Of the sub-layers that communicate: their products to their collectives alone.
  double compute_to_comm() const;
};

struct BlockLedgerOptions {
  int rounds = 9;
  bool scaled = false;
  AskedLink link;
  std::function<void(const std::string&)> progress = [](const std::string&) {};
};

// Collective; all ranks get the same rows, and rank 0 the spans of all. Throws internal, naming style and rank, where
// outputs differ.
BlockLedger measure_block_ledger(World& world, const Workload& workload, const BlockLedgerOptions& options);

}  // namespace weft
