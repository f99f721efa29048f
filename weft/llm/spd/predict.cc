#include "weft/llm/spd/predict.h"

#include <algorithm>
#include <cmath>

#include "weft/base/error.h"

namespace weft {

double DropPrediction::share_of(double whole) const {
  return whole > 0 ? std::max(0.0, whole - time.compute) / whole : 0;
}

std::vector<DropPrediction> predict_drops(FirstTokenSpec spec, std::span<const Link> links,
                                          std::span<const double> percentages) {
  for (const double share : percentages)
    if (!(share >= 0 && share <= 100)) bad_input("--dropped is {}; use percentages from 0 to 100", share);
  const double latency_s = spec.cluster.network.latency_s;
  std::vector<DropPrediction> rows;
  for (const Link& link : links) {
    spec.cluster.network.bytes_per_s = link.bytes_per_s;
    spec.cluster.network.latency_s = link.latency_s > 0 ? link.latency_s : latency_s;
    const FirstToken predicted = first_token(spec);
    double sync_s = 0;
    for (const double share : percentages) {
      DropPrediction& row = rows.emplace_back();
      row.link_bytes_per_s = link.bytes_per_s;
      row.dropped = std::llround(share / 100 * predicted.blocks);
      row.time = predicted.total(row.dropped);
      row.route = predicted.route;
      if (sync_s == 0) sync_s = row.time.sequential;
      row.against_sync = row.time.fused / sync_s;
    }
  }
  return rows;
}

}  // namespace weft
