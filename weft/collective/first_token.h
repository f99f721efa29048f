// Time to the first token of a prompt under tensor parallelism, from plans and the cost model: what dropping
// synchronisations would buy on hardware that is not here. One transformer block is its products (sub_layers), its
// attention and its passes over activations; the two products that are summed over the ranks are plans, priced by
// estimate(). A dropped block keeps the output of its first one where it is made, and brings it along as the addend of
// its second. Embedding and head are left out: a prompt needs the logits of its last token alone.
//
// Plans count values of 4 bytes, models keep theirs in 2: memory is taken at twice its rate, and so is a link, unless
// the wire is narrower than the model's own values.
#pragma once

#include <cstdint>
#include <string>

#include "weft/base/dtype.h"
#include "weft/cluster/cluster.h"
#include "weft/cluster/workload.h"

namespace weft {

struct FirstTokenSpec {
  Workload workload;           // transformer
  int ranks = 8;               // each a host of its own: the network is the link between devices
  std::int64_t tokens = 2048;  // of the prompt
  Cluster cluster;             // rates of a device; its network's latency
  Dtype wire = Dtype::bf16;    // bf16, or int8 for what is summed between ranks and for the sums
};

// Of one block, seconds.
struct BlockTime {
  double compute = 0;      // nothing summed over ranks
  double sequential = 0;   // each product, then its all_reduce
  double fused = 0;        // tiles leave as they are made, where that is priced no higher than sequential
  std::int64_t bytes = 0;  // that one rank sends
};

struct FirstToken {
  std::int64_t blocks = 0;
  BlockTime sync, drop;
  std::string route;  // of the all_reduce after the block's last product

  // All blocks, `dropped` of which are.
  BlockTime total(std::int64_t dropped) const;
};

// Throws bad_input where the workload is no transformer or the ranks cannot share its widths.
FirstToken first_token(const FirstTokenSpec& spec);

}  // namespace weft
