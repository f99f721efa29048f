// Rotary positions in config.json, in both spellings: rope_theta with rope_scaling {type or rope_type, factor, ...},
// and rope_parameters {rope_theta, rope_type, factor, ...}. Of the library; config.cc calls it.
#pragma once

#include <string>

#include "weft/llm/model/config.h"

namespace weft {

void read_rope(const Json& json, const std::string& where, ModelConfig* config);

}  // namespace weft
