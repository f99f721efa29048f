// The commands under `weft spd`, one file each: from a model folder to a faster one.
#pragma once

#include "cli/command.h"

namespace weft::cli {

void add_spd_analyze(CLI::App& spd, Run* run);  // cli/spd/analyze.cc
void add_spd_ablate(CLI::App& spd, Run* run);   // cli/spd/ablate.cc
void add_spd_distill(CLI::App& spd, Run* run);  // cli/spd/distill.cc
void add_spd_predict(CLI::App& spd, Run* run);  // cli/spd/predict.cc

}  // namespace weft::cli
