// The flags that describe an op, of `weft plan` and `weft bench`.
#pragma once

#include "weft/study/op_request.h"

namespace CLI {
class App;
}

namespace weft::cli {

// `max_ranks` is what the command can serve; it goes into the help, and parse_op checks it.
void add_op_flags(CLI::App& app, OpRequest* request, int max_ranks);

}  // namespace weft::cli
