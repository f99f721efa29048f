// The families: which model_type fills in the description how. One row per family; nothing beyond this table and the
// names of tensors (tensor_names.cc) knows them apart. Of the library; config.cc calls it.
#pragma once

#include <span>
#include <string_view>

#include "weft/llm/model/config.h"
#include "weft/llm/model/config_reader.h"

namespace weft {

struct Family {
  std::string_view model_type;
  void (*read)(ConfigReader* reader, ModelConfig* config);  // all but vocab and eos, which parse_config reads
};
std::span<const Family> families();

}  // namespace weft
