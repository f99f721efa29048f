#include "weft/reshard/bound/assign.h"

#include <algorithm>
#include <utility>

#include "weft/base/index.h"

namespace weft {
namespace {

constexpr double kRounding = 1e-11;  // of an item: what rounding may lack

class Assigning {
 public:
  Assigning(const std::vector<Demand>& demands, const Division& division, const std::vector<double>& rates)
      : demands_(demands), left_(division.share), spare_(rates.size()) {
    for (std::size_t b = 0; b < rates.size(); ++b) spare_[b] = division.time * rates[b];
    for (std::size_t d = 0; d < demands.size(); ++d)
      for (std::size_t i = 0; i < demands[d].bins.size(); ++i) spare_[at(demands[d].bins[i])] -= left_[d][i];
  }

  // The whole of it in one bin: the one with the most of its demand's share left, else one with enough to spare.
  bool put_whole(const Item& item, std::vector<Span>& spans) {
    std::vector<double>& left = left_[at(item.demand)];
    const std::vector<int>& bins = demands_[at(item.demand)].bins;
    std::size_t best = num(std::max_element(left.begin(), left.end()) - left.begin());
    if (left[best] < item.size * (1 - kRounding)) {
      const auto room = [&](std::size_t i) { return left[i] + std::max(0.0, spare_[at(bins[i])]); };
      for (std::size_t i = 0; i < bins.size(); ++i)
        if (room(i) > room(best)) best = i;
      if (room(best) < item.size * (1 - kRounding)) return false;
      spare_[at(bins[best])] -= std::max(0.0, item.size - left[best]);
    }
    left[best] = std::max(0.0, left[best] - item.size);
    spans = {{bins[best], item.size}};
    return true;
  }

  // Bin after bin, the fullest share first.
  void put_divided(const Item& item, std::vector<Span>& spans) {
    std::vector<double>& left = left_[at(item.demand)];
    const std::vector<int>& bins = demands_[at(item.demand)].bins;
    double needed = item.size;
    while (needed > 0) {
      const auto best = std::max_element(left.begin(), left.end()) - left.begin();
      double& share = left[at(best)];
      double size = std::min(needed, share);
      if (share <= item.size * kRounding || needed - size <= item.size * kRounding) size = needed;  // rounding
      share = std::max(0.0, share - size);
      needed -= size;
      spans.push_back({bins[at(best)], size});
    }
  }

  void give_back(int demand) {
    for (std::size_t i = 0; i < left_[at(demand)].size(); ++i)
      spare_[at(demands_[at(demand)].bins[i])] += std::exchange(left_[at(demand)][i], 0.0);
  }

 private:
  const std::vector<Demand>& demands_;
  std::vector<std::vector<double>> left_;  // of the shares
  std::vector<double> spare_;              // by bin
};

}  // namespace

std::vector<std::vector<Span>> assign(const std::vector<Item>& items, const std::vector<Demand>& demands,
                                      const Division& division, const std::vector<double>& rates) {
  std::vector<std::vector<int>> of_demand(demands.size());
  for (int i = 0; i < int_size(items); ++i) of_demand[at(items[at(i)].demand)].push_back(i);
  std::vector<std::vector<Span>> result(items.size());
  Assigning assigning(demands, division, rates);
  for (int d = 0; d < int_size(demands); ++d) {
    std::vector<int>& mine = of_demand[at(d)];
    std::stable_sort(mine.begin(), mine.end(), [&](int a, int b) { return items[at(a)].size > items[at(b)].size; });
    std::vector<int> divided;
    for (const int i : mine)
      if (!assigning.put_whole(items[at(i)], result[at(i)])) divided.push_back(i);
    for (const int i : divided) assigning.put_divided(items[at(i)], result[at(i)]);
    assigning.give_back(d);
  }
  return result;
}

}  // namespace weft
