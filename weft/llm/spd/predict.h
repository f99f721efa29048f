// What dropping synchronisations would buy on devices that are not here: time to the first token of a prompt, from
// plans and the cost model (weft/collective/first_token.h), for several links and shares of blocks dropped.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "weft/collective/first_token.h"

namespace weft {

struct DropPrediction {
  double link_bytes_per_s = 0;
  std::int64_t dropped = 0;  // blocks
  BlockTime time;            // of all blocks
  std::string route;
  double against_sync = 0;  // fused, over the sequential time of the same link's first row

  double comm_share() const { return share_of(time.fused); }  // of the fused time: communication that nothing hides
  double sequential_comm_share() const { return share_of(time.sequential); }

 private:
  double share_of(double whole) const;
};

// One row per link and share of blocks dropped, in percent. A link without a latency keeps the cluster's. Throws
// bad_input.
std::vector<DropPrediction> predict_drops(FirstTokenSpec spec, std::span<const Link> links,
                                          std::span<const double> percentages);

}  // namespace weft
