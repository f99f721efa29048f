// How much every block suffers without its first all-reduce, measured on calibration text with the engine.
//
// S[i] is the perplexity with blocks i.. dropped minus that with blocks i + 1.. dropped, all earlier blocks
// synchronised: one evaluation more than there are blocks. The synchronised blocks before i are the same in all of
// them, so they are computed once for each batch of windows, and an evaluation starts at its first block that differs.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "weft/llm/engine/engine.h"
#include "weft/llm/eval/eval.h"
#include "weft/llm/eval/statistics.h"

namespace weft {

// The engine of the model as it is and, where there are repaired weights, one of the model with all of them: a block
// runs on the second where it is dropped and repaired. Both have the same options.
struct BlockEngines {
  Engine& own;
  Engine* repaired = nullptr;
  std::vector<bool> is_repaired;  // one for every block; empty where `repaired` is null
};

// Scores of every configuration on the same windows, (configurations, windows). Windows are at most the engine's
// capacity.
std::vector<std::vector<WindowScore>> score_modes(BlockEngines& engines, std::span<const TokenWindow> windows,
                                                  std::span<const Modes> configurations,
                                                  const EvalProgress& progress = {});

enum class BlockClass { isb, sb, esb };     // insensitive, sensitive, extremely sensitive
std::string_view to_string(BlockClass of);  // "ISB", "SB", "ESB"

struct Thresholds {
  double tau1 = 0.05, tau2 = 10;  // the paper's
};
BlockClass class_of(double sensitivity, const Thresholds& thresholds);

struct Sensitivity {
  std::vector<std::vector<WindowScore>> dropped_from;  // [i]: blocks i.. dropped; the last has none dropped
  std::vector<double> perplexity_from;                 // of these
  std::vector<double> s;                               // one for every block
};
Sensitivity measure_sensitivity(BlockEngines& engines, std::span<const TokenWindow> windows,
                                const EvalProgress& progress = {});

std::vector<int> drop_order(std::span<const double> sensitivity);  // blocks, least sensitive first

// Every block of `order` up to a number dropped, for all numbers from 0.
std::vector<Modes> dropped_in_order(std::span<const int> order);

}  // namespace weft
