#include "cli/weights_flag.h"

#include <string>

#include <CLI/CLI.hpp>

namespace weft::cli {

void add_weights_flag(CLI::App& app, WeightPlace* place) {
  app.add_option_function<std::string>(
         "--weights", [place](const std::string& name) { *place = parse_weight_place(name); },
         "mapped: read where the files have them; copied: into memory of its own first, tokens take less time")
      ->type_name("WHERE")
      ->default_str("mapped");
}

}  // namespace weft::cli
