// A timed schedule in characters: a row per stage, as wide as the terminal.
#pragma once

#include <string>

#include "weft/schedule/compare.h"

namespace weft::pipeline {

// a, b, c, .. are the forwards of micro-batches 0, 1, 2, ..; A, B, C, .. their backwards (whole or the input part), '='
// the weights' part, '+' a recomputation, '~' a transfer that a stage waits in, '.' idle. `end_s` is the right edge.
std::string drawing(const Compared& one, double end_s, int width);
std::string drawing_key(const Compared& one);

}  // namespace weft::pipeline
