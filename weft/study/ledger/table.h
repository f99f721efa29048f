// What both ledgers are, that of one block and that of a whole model: rows of measured, predicted and exposed time, and
// the setting in which they were measured. Parts of Weft that come later append rows.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "weft/cluster/cluster.h"
#include "weft/llm/eval/statistics.h"

namespace weft {

class World;

// Times in microseconds.
struct LedgerRow {
  std::string name;  // "sequential", "panels", "fused", ...; the floor is "compute"
  std::optional<double> measured_us, predicted_us;
  std::optional<double> exposed_us;  // measured beyond the floor
  std::optional<double> cpu_us;      // of all ranks
  // Of a whole model:
  std::optional<double> sent_bytes;  // by all ranks, for the blocks
  std::optional<PairedLoss> loss;    // growth of perplexity on held-out text
  int dropped = 0, syncs = 0;        // synchronisations
  std::string note = {};             // in place of a bar
};

struct AskedLink {
  std::optional<Link> paced;  // none: shared memory, or the network between hosts
  std::string name;           // as asked for
};

struct LedgerTable {
  int ranks = 1, cores = 1, rounds = 0;
  std::string transport;
  AskedLink link;
  Cluster cluster;  // what predictions are made on
  std::vector<LedgerRow> rows;
  double aa_band = 0;  // fused against itself in the same rounds

  const LedgerRow* find(std::string_view name) const;  // null: no such row
  LedgerRow* find(std::string_view name);
  double measured_us(std::string_view name) const;  // 0 where there is none
  double exposed_us(std::string_view name) const;
  bool crowded() const { return ranks > cores; }
};

inline constexpr const char* kFloor = "compute";

LedgerTable table_of(World& world, const AskedLink& link, int rounds);  // without rows
void set_exposed(LedgerTable* table);                                   // from what was measured, and the floor

}  // namespace weft
