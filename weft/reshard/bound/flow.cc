// The flow is Dinic's on three layers: demands, bins, time. A cut that separates demands X with bins N(X) from the end
// says that X needs amount(X) / rate(N(X)); when no cut asks for more than the present time, that time is the least.
// The time only grows, so each flow continues the one before.
#include "weft/reshard/bound/flow.h"

#include <algorithm>
#include <queue>

#include "weft/base/index.h"
#include "weft/reshard/bound/flow_cycles.h"

namespace weft {
namespace {

constexpr double kFlowSlack = 1e-13;  // of the total: what rounding may leave over

class Parametric {
 public:
  Parametric(const std::vector<Demand>& demands, const std::vector<double>& rates)
      : demands_(demands), rates_(rates), left_(demands.size()), used_(rates.size(), 0.0), users_(rates.size()) {
    for (std::size_t d = 0; d < demands.size(); ++d) {
      left_[d] = demands[d].amount;
      total_ += demands[d].amount;
      share_.emplace_back(demands[d].bins.size(), 0.0);
      for (std::size_t i = 0; i < demands[d].bins.size(); ++i) users_[bin(d, i)].push_back({d, i});
    }
  }

  Division run(double at_least) {
    time_ = at_least;
    std::vector<double> single(rates_.size(), 0.0);
    for (std::size_t d = 0; d < demands_.size(); ++d)
      if (demands_[d].bins.size() == 1) single[bin(d, 0)] += demands_[d].amount;
    Division division;
    for (int b = 0; b < int_size(rates_); ++b)
      if (single[at(b)] / rates_[at(b)] > time_) {
        time_ = single[at(b)] / rates_[at(b)];
        division.cut_amount = single[at(b)];
        division.cut_bins = {b};
      }
    while (true) {
      push();
      if (const double needed = time_of_cut(division); needed > time_ * (1 + kFlowSlack))
        time_ = needed;
      else
        break;
    }
    for (std::size_t d = 0; d < demands_.size(); ++d) share_[d].back() += std::max(0.0, left_[d]);  // rounding
    division.time = time_;
    division.share = std::move(share_);
    return division;
  }

 private:
  std::size_t bin(std::size_t d, std::size_t i) const { return num(demands_[d].bins[i]); }
  double room(std::size_t b) const { return time_ * rates_[b] - used_[b]; }

  void push() {
    while (find_levels()) {
      next_demand_.assign(demands_.size(), 0);
      next_bin_.assign(rates_.size(), 0);
      for (std::size_t d = 0; d < demands_.size(); ++d)
        while (left_[d] > eps()) {
          const double sent = from_demand(d, left_[d]);
          if (sent <= 0) break;
          left_[d] -= sent;
        }
    }
  }
  double eps() const { return total_ * kFlowSlack; }

  // Distances from demands that are not served yet; whether a bin with room is in reach.
  bool find_levels() {
    demand_level_.assign(demands_.size(), -1);
    bin_level_.assign(rates_.size(), -1);
    std::queue<std::pair<bool, std::size_t>> queue;  // (is a bin, which)
    for (std::size_t d = 0; d < demands_.size(); ++d)
      if (left_[d] > eps()) demand_level_[d] = 0, queue.push({false, d});
    bool found = false;
    while (!queue.empty()) {
      const auto [is_bin, node] = queue.front();
      queue.pop();
      if (is_bin) {
        if (room(node) > eps()) found = true;
        for (const auto& [d, i] : users_[node])
          if (share_[d][i] > eps() && demand_level_[d] < 0)
            demand_level_[d] = bin_level_[node] + 1, queue.push({false, d});
      } else {
        for (std::size_t i = 0; i < demands_[node].bins.size(); ++i)
          if (const std::size_t b = bin(node, i); bin_level_[b] < 0)
            bin_level_[b] = demand_level_[node] + 1, queue.push({true, b});
      }
    }
    return found;
  }

  double from_demand(std::size_t d, double amount) {
    for (std::size_t& i = next_demand_[d]; i < demands_[d].bins.size(); ++i) {
      const std::size_t b = bin(d, i);
      if (bin_level_[b] != demand_level_[d] + 1) continue;
      if (const double sent = from_bin(b, amount); sent > 0) {
        share_[d][i] += sent;
        return sent;
      }
    }
    return 0;
  }

  double from_bin(std::size_t b, double amount) {
    if (const double free = room(b); free > eps()) {
      const double sent = std::min(free, amount);
      used_[b] += sent;
      return sent;
    }
    for (std::size_t& k = next_bin_[b]; k < users_[b].size(); ++k) {
      const auto [d, i] = users_[b][k];
      if (demand_level_[d] != bin_level_[b] + 1 || share_[d][i] <= eps()) continue;
      if (const double sent = from_demand(d, std::min(amount, share_[d][i])); sent > 0) {
        share_[d][i] -= sent;
        return sent;
      }
    }
    return 0;
  }

  // After push(): the levels mark the side of the cut that still has demand. Notes it where it needs more time.
  double time_of_cut(Division& division) const {
    double amount = 0, rate = 0;
    std::vector<int> bins;
    for (std::size_t d = 0; d < demands_.size(); ++d)
      if (demand_level_[d] >= 0) amount += demands_[d].amount;
    for (int b = 0; b < int_size(rates_); ++b)
      if (bin_level_[at(b)] >= 0) rate += rates_[at(b)], bins.push_back(b);
    const double time = rate > 0 ? amount / rate : 0;
    if (time > time_ * (1 + kFlowSlack)) division.cut_amount = amount, division.cut_bins = std::move(bins);
    return time;
  }

  const std::vector<Demand>& demands_;
  const std::vector<double>& rates_;
  std::vector<double> left_;
  std::vector<double> used_;
  std::vector<std::vector<std::pair<std::size_t, std::size_t>>> users_;  // of a bin: demand, position in its bins
  std::vector<std::vector<double>> share_;
  std::vector<int> demand_level_, bin_level_;
  std::vector<std::size_t> next_demand_, next_bin_;
  double total_ = 0, time_ = 0;
};

}  // namespace

int DemandList::add(std::vector<int> bins, double amount, int kind) {
  std::sort(bins.begin(), bins.end());
  bins.erase(std::unique(bins.begin(), bins.end()), bins.end());
  const auto [place, is_new] = known_.emplace(std::pair(kind, bins), int_size(demands_));
  if (is_new) demands_.push_back({std::move(bins), 0});
  demands_[at(place->second)].amount += amount;
  return place->second;
}

Division divide(const std::vector<Demand>& demands, const std::vector<double>& rates, double at_least) {
  Division division = Parametric(demands, rates).run(at_least);
  cancel_cycles(demands, rates.size(), division.share);
  return division;
}

}  // namespace weft
