// The families: which model_type fills in the description how. One row per family; nothing beyond this table and the
// names of tensors (tensor_names.cc) knows them apart. Of the library; config.cc calls it.
#pragma once

#include <span>
#include <string_view>

#include "weft/llm/model/config.h"
#include "weft/llm/model/config_reader.h"
#include "weft/llm/model/config_rope.h"

namespace weft {

struct Family {
  std::string_view model_type;
  void (*read)(ConfigReader* reader, ModelConfig* config);  // all but vocab and eos, which parse_config reads
};
std::span<const Family> families();

// families_plain.cc
void read_gpt2(ConfigReader* reader, ModelConfig* config);
void read_gpt_neox(ConfigReader* reader, ModelConfig* config);
void read_opt(ConfigReader* reader, ModelConfig* config);

// What several families read alike.
void read_sizes(ConfigReader* reader, ModelConfig* config);
void own_head_dim(const ConfigReader& reader, ModelConfig* config);                           // hidden / heads
void one_rope(ConfigReader* reader, ModelConfig* config, const RopeDefaults& defaults = {});  // of all blocks

}  // namespace weft
