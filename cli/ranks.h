// Commands that measure start themselves again as local ranks; the same words on the command line, another role.
#pragma once

#include <string>

#include "weft/base/error.h"

namespace weft::cli {

// Launches this very command line as `num_ranks` processes and waits for them. Rank 0 owns standard output.
// Says on standard error what no rank could say itself. Returns the exit code.
int relaunch(int num_ranks);

// Whether this process should print the error: a rank speaks of its own failures, rank 0 of those that are nobody's, and
// the launcher of ranks that died or hung.
bool speaks_of(const Error& error);

}  // namespace weft::cli
