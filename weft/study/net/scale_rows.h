// A training step in several settings as rows of one table: on more and more ranks, or with what may vary varied.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "weft/sim/step/scale.h"

namespace weft::netsim {

struct ScaleRow {
  std::string what;
  Styles styles;
};

// What makes ranks and links of a network slow, once it has its size.
using Slowing = std::function<void(Topology*)>;

// Ranks doubled from `from` to `to`. Throws bad_input, as at_ranks() does.
std::vector<ScaleRow> rows_over_ranks(const Setting& setting, int from, int to, const Slowing& slow_down);

struct Varied {
  bool rates = false;     // every free parameter 20 % off
  bool unknowns = false;  // dlrm: what is not known of the experiment
};
// The setting itself, then what varies.
std::vector<ScaleRow> rows_varied(Setting setting, const Varied& varied, const Slowing& slow_down);

// For people, and one line for programs.
std::string scale_text(const std::vector<ScaleRow>& rows);
std::string scale_json(const std::string& workload, const std::string& network, const std::vector<ScaleRow>& rows);

}  // namespace weft::netsim
