#include "weft/llm/spd/ablation.h"

#include <algorithm>

#include "weft/base/error.h"
#include "weft/base/index.h"
#include "weft/llm/spd/centre.h"

namespace weft {

std::vector<AblationRow> run_orders(SimulatedRanks& ranks, std::int64_t block, std::span<const BlockOrder> orders,
                                    std::span<const TokenWindow> windows,
                                    const std::function<void(std::int64_t done, std::int64_t of)>& progress) {
  if (block != kAllBlocks && (block < 0 || block >= ranks.config().blocks))
    bad_input("block {} of a model that has {}; use 0 to {}", block, ranks.config().blocks, ranks.config().blocks - 1);
  std::vector<AblationRow> rows;
  std::int64_t done = 0;
  for (const BlockOrder order : orders) {
    std::vector<BlockOrder> all(num(ranks.config().blocks), BlockOrder::sync);
    if (block == kAllBlocks)
      std::fill(all.begin(), all.end(), order);
    else
      all[at(block)] = order;
    AblationRow& row = rows.emplace_back();
    row.order = order;
    for (const auto window : windows) {
      row.windows.push_back(ranks.score(window, all));
      if (progress) progress(++done, static_cast<std::int64_t>(orders.size() * windows.size()));
    }
  }
  return rows;
}

Ablation ablate(const ModelSource& source, std::span<const TokenWindow> windows, const AblationOptions& options,
                const EvalProgress& progress) {
  constexpr BlockOrder kPartials[] = {BlockOrder::sync, BlockOrder::dropped, BlockOrder::partial_after};
  constexpr BlockOrder kBiases[] = {BlockOrder::sync, BlockOrder::dropped, BlockOrder::bias_before};
  std::int64_t longest = 1;
  for (const TokenWindow window : windows) longest = std::max(longest, std::ssize(window) - 1);
  const auto orders = [&](SimulatedRanks& ranks, std::span<const BlockOrder> some, const char* what) {
    return run_orders(ranks, options.block, some, windows, [&](std::int64_t done, std::int64_t of) {
      if (progress) progress(what, done, of);
    });
  };
  SimulatedRanks plain(source, options.ranks, longest, options.threads);
  Ablation out{.has_biases = source.config.design.output_bias};
  out.partials = orders(plain, std::span(kPartials).first(1), "means of heads");
  const auto means = plain.take_head_means();  // of the synchronised model alone
  for (AblationRow& row : orders(plain, std::span(kPartials).subspan(1), "partial sums"))
    out.partials.push_back(std::move(row));
  if (out.has_biases) {
    out.biases = orders(plain, kBiases, "biases");
  } else {
    SimulatedRanks biased(with_biases(source, centred_biases(source, means)), options.ranks, longest, options.threads);
    out.biases = orders(biased, kBiases, "biases");
  }
  return out;
}

}  // namespace weft
