// Two plans as one: reduce-scatter, all-gather and the next gemm become one plan under one proof.
#pragma once

#include <string_view>

#include "weft/plan/plan.h"

namespace weft {

// Runs `second` on what `first` leaves in its buffer `output`, rank by rank as the data arrives: no barrier
// between.
//
// The joined buffer becomes internal. It takes the place of second's buffer `input` or, where second has
// none, of the x that its producer reads: steps of a copy become triggers that add the joined buffer last; a
// gemm or gemv gets it as reads[0]. One new counter per rank tells that the buffer is complete there; every
// lane of first that writes the buffer raises it, and every action of second that reads the buffer waits for
// it.
//
// Names of `second` that first uses for something else get a number ("m.2"); the joined buffer gives its own
// name to a buffer of second that needs it, so that "y" is still the output. Where second has no producer of
// its own left, none is added. Throws bad_input where ranks or shapes differ, or where second's outputs would
// be sums of sums, which have no owed form.
Plan then(const Plan& first, const Plan& second, std::string_view output = "y", std::string_view input = "x");

}  // namespace weft
