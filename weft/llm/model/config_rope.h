// Rotary positions in config.json, in both spellings: rope_theta with rope_scaling {type or rope_type, factor, ...},
// and rope_parameters {rope_theta, rope_type, factor, ...}; Gemma 3 has one set of them per kind of block. Of the
// library; families.cc calls it.
#pragma once

#include <string>

#include "weft/llm/model/config.h"
#include "weft/llm/model/config_reader.h"

namespace weft {

struct RopeDefaults {
  double theta = 10000, turned = 1;  // turned: part of a head's columns
  const char* theta_key = "rope_theta";
  const char* turned_key = "partial_rotary_factor";
};

// The one set that all blocks share; config has its sizes already.
RotaryDesign read_rope(ConfigReader* reader, const ModelConfig& config, const RopeDefaults& defaults = {});
// Two sets: of blocks that see all positions, and of blocks with a window.
std::vector<RotaryDesign> read_rope_pair(ConfigReader* reader, const ModelConfig& config);

}  // namespace weft
