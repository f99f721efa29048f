// What a plan does not know of an op and a command does: hints for the estimate.
#pragma once

#include "weft/plan/price/estimate.h"

#include "cli/ops.h"

namespace weft::cli {

EstimateHint hint_of(const OpSpec& spec);     // what bags pool, from which tables
EstimateHint bench_hint(const OpSpec& spec);  // and the weights that a benchmark's runs take in turn

}  // namespace weft::cli
