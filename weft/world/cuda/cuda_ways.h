// The ways in which a GPU can make an op whose route is open: which route, and which order of lanes suits it. Pure
// values: who has GPUs at hand tries them (trials.h, weft/study/device).
#pragma once

#include <string>
#include <vector>

#include "weft/exec/cuda/lane_order.h"
#include "weft/plan/producer.h"
#include "weft/plan/space.h"

namespace weft {

struct CudaWay {
  Route route = Route::automatic;
  LaneOrder order = {};
};

// Of a producer and a space in the form of a GPU (cuda_form.h). Where the space says its route, the orders of that one.
std::vector<CudaWay> cuda_ways(const Producer& producer, const Space& space);
// The same of rows that are gathered before they are multiplied.
std::vector<CudaWay> cuda_gather_ways(const Space& gather);

Space by_route(Space space, Route route);
std::string to_string(const CudaWay& way);  // "direct, sent_cols 2"

}  // namespace weft
