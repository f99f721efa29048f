#include "weft/study/device/routing.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "weft/base/error.h"
#include "weft/base/index.h"
#include "weft/cluster/workload.h"
#include "weft/study/input/values.h"

namespace weft {

Routing routing_of(const Workload& workload, int ranks, std::int64_t tokens, double skew) {
  if (workload.kind != WorkloadKind::moe)
    bad_input("--workload {} has no experts; use mixtral-8x7b or deepseek-v3-moe", workload.name);
  if (workload.experts % ranks != 0)
    bad_input("--ranks is {}, which cannot share {} experts; use a number that divides them", ranks, workload.experts);
  if (!(skew >= 0 && skew <= 4)) bad_input("--skew is {}; use 0 (all experts alike) to 4", skew);
  if (tokens < 1 || tokens > 1 << 20) bad_input("--tokens is {}; use 1 to {}", tokens, 1 << 20);
  return {workload.name, workload.experts, workload.top_k, tokens, skew};
}

std::int64_t capacity_of(const Routing& routing, int ranks) {
  return std::min(ceil_div(2 * routing.tokens * routing.top_k, ranks), routing.tokens * routing.top_k);
}

std::int64_t RoutedRows::of_rank(int rank, int ranks) const {
  const auto first = rows.begin() + std::ptrdiff_t{rank} * ranks;
  return std::accumulate(first, first + ranks, std::int64_t{0});
}

std::int64_t RoutedRows::busiest(int ranks) const {
  std::int64_t most = 0;
  for (int r = 0; r < ranks; ++r) most = std::max(most, of_rank(r, ranks));
  return most;
}

// Without replacement: expert e has an exponential time of rate 1 / (e + 1)^skew, and the top_k first are chosen.
RoutedRows drawn_rows(const Routing& routing, int ranks, std::uint64_t seed) {
  const std::int64_t experts = routing.experts, of_rank = experts / ranks, most = capacity_of(routing, ranks);
  std::vector<double> mean(num(experts));
  for (std::size_t e = 0; e < mean.size(); ++e) mean[e] = std::pow(static_cast<double>(e) + 1, routing.skew);
  RoutedRows out;
  out.rows.resize(num(ranks) * num(ranks));
  std::vector<std::pair<double, std::int64_t>> times(num(experts));
  for (int s = 0; s < ranks; ++s)
    for (std::int64_t token = 0; token < routing.tokens; ++token) {
      const std::uint64_t stream = mixed(mixed(mixed(seed) + num(s)) + num(token));
      for (std::int64_t e = 0; e < experts; ++e) {
        const double uniform = static_cast<double>((mixed(stream + num(e)) >> 11) + 1) * 0x1p-53;
        times[at(e)] = {-std::log(uniform) * mean[at(e)], e};
      }
      std::nth_element(times.begin(), times.begin() + routing.top_k - 1, times.end());
      for (std::int64_t i = 0; i < routing.top_k; ++i) {
        std::int64_t& rows = out.rows[num(times[at(i)].second / of_rank) * num(ranks) + num(s)];
        ++(rows < most ? rows : out.dropped);
      }
    }
  return out;
}

}  // namespace weft
