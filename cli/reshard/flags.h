// What both halves of `weft reshard` are asked for.
#pragma once

#include <string>

#include "weft/study/reshard/request.h"

namespace CLI {
class App;
}

namespace weft::cli::reshard {

using Spec = ReshardSpec;

struct Flags : ReshardRequest {
  bool compare = false, json = false;
  std::string svg, save;
};

void add_flags(CLI::App& command, Flags* flags);

}  // namespace weft::cli::reshard
