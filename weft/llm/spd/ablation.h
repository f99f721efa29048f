// The paper's ablation of the order of sums: one block dropped, and its partial sums or its bias put on the wrong side
// of the all-reduce. Computed by SimulatedRanks, since the engine knows the right order alone.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "weft/llm/eval/eval.h"
#include "weft/llm/eval/statistics.h"
#include "weft/llm/model/model.h"
#include "weft/llm/spd/simulated_ranks.h"

namespace weft {

struct AblationRow {
  BlockOrder order = BlockOrder::sync;  // of the one block, all others sync; or of all blocks
  std::vector<WindowScore> windows;
};

inline constexpr std::int64_t kAllBlocks = -1;

// Scores of every order of `block`, or of all blocks together.
std::vector<AblationRow> run_orders(SimulatedRanks& ranks, std::int64_t block, std::span<const BlockOrder> orders,
                                    std::span<const TokenWindow> windows,
                                    const std::function<void(std::int64_t done, std::int64_t of)>& progress = {});

// Both halves of the paper's ablation. A model without biases gets some for the second one (centre.h).
struct Ablation {
  bool has_biases = false;            // the model's own
  std::vector<AblationRow> partials;  // sync, dropped, partial_after
  std::vector<AblationRow> biases;    // sync, dropped, bias_before
};

struct AblationOptions {
  int ranks = 4, threads = 1;
  std::int64_t block = 0;  // or kAllBlocks
};
Ablation ablate(const ModelSource& source, std::span<const TokenWindow> windows, const AblationOptions& options,
                const EvalProgress& progress = {});

}  // namespace weft
