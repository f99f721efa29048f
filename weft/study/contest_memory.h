// What a contest takes of memory, known before anything is touched: asking the kernel for too much brings its killer,
// not an error.
#pragma once

#include "weft/study/op_spec.h"

namespace weft {

double contest_bytes(const OpSpec& spec);  // of one rank: inputs and the ops of every style, tried routes included
void check_memory(const OpSpec& spec);     // throws no_memory where all ranks together need more than is free

}  // namespace weft
