// Where weights are while they are multiplied with: one spelling for the commands that make texts.
#pragma once

#include "weft/llm/model/model.h"

namespace CLI {
class App;
}

namespace weft::cli {

void add_weights_flag(CLI::App& app, WeightPlace* place);  // *place holds where the flag is not given

}  // namespace weft::cli
