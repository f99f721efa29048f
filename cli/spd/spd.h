// The commands under `weft spd`, one file each: from a model folder to a faster one.
#pragma once

#include "cli/command.h"

namespace weft::cli::spd {

void add_analyze(CLI::App& group, Run* run);
void add_ablate(CLI::App& group, Run* run);
void add_centre(CLI::App& group, Run* run);
void add_distill(CLI::App& group, Run* run);
void add_predict(CLI::App& group, Run* run);

}  // namespace weft::cli::spd
