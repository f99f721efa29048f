#include "cli/hint.h"

#include "cli/bench/inputs.h"

namespace weft::cli {

EstimateHint hint_of(const OpSpec& spec) {
  EstimateHint hint;
  for (const auto& of_rank : spec.bags) {
    auto& tables = hint.tables.emplace_back();
    for (const BagTable& bag : of_rank)
      tables.push_back({static_cast<double>(bag.pooling), static_cast<double>(bag.rows)});
  }
  hint.zipf = spec.zipf;
  return hint;
}

EstimateHint bench_hint(const OpSpec& spec) {
  EstimateHint hint = hint_of(spec);
  const Producer& p = spec.producer;
  if (p.k > 0) hint.weights_in_turn = RankInputs::bytes(spec) - static_cast<double>(p.m) * static_cast<double>(p.k) * 4;
  return hint;
}

}  // namespace weft::cli
