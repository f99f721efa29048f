// How long a rank takes to read the rows that its embedding bags pool. Rows come from the rank's part of the last-level
// cache or from memory, at a rate of their own each. Which do is reckoned as for a cache that drops what was not used
// for longest (Che's approximation): a row is there if it was looked up within the time T that it takes to fill the
// cache, and T is where the rows looked up within it, and what else the runs touch, are as large as the cache.
#pragma once

#include <vector>

#include "weft/cluster/cluster.h"
#include "weft/mesh/box.h"
#include "weft/plan/price/estimate.h"
#include "weft/plan/producer.h"

namespace weft::estimating {

class TableReads {
 public:
  // `touched`: bytes of a run beside tables.
  TableReads(const Producer& producer, int rank, double touched, const Cluster& cluster, const EstimateHint& hint);

  double seconds(const Box& box) const;  // for the bags of a box of the output

 private:
  double dim_;
  std::vector<double> a_bag_;  // seconds for the rows of a bag, of each table
};

}  // namespace weft::estimating
