// What a producer and a reshard must have in common for the producer to write straight into the next stage's mesh.
#pragma once

#include "weft/plan/producer.h"
#include "weft/reshard/reshard.h"

namespace weft::resharding {

// Throws bad_input unless the producer's output on every source rank is that rank's shard of the one f32 tensor.
void check_stream(const Producer& producer, const Reshard& reshard);

}  // namespace weft::resharding
