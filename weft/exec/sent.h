// What an op reports of its traffic: all that this rank has sent to other ranks since the op was made.
#pragma once

#include <cstdint>

namespace weft {

struct Sent {
  std::int64_t bytes = 0;    // stored to other ranks, counted as they travel (plan/price/traffic.h)
  std::int64_t signals = 0;  // raised on other ranks
};

}  // namespace weft
