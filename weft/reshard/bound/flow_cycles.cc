#include "weft/reshard/bound/flow_cycles.h"

#include <algorithm>

#include "weft/base/index.h"

namespace weft {
namespace {

constexpr std::size_t kMostSteps = 20'000'000;  // edges looked at

struct Edge {
  std::size_t demand, position, other;  // other: the node at the far end
};

// A forest of positive shares that edges join one by one. Nodes: demands, then bins.
class Forest {
 public:
  Forest(const std::vector<Demand>& demands, std::size_t num_bins, std::vector<std::vector<double>>& share)
      : share_(share), edges_(demands.size() + num_bins), from_(edges_.size()), num_demands_(demands.size()) {}

  void add(std::size_t d, std::size_t i, std::size_t bin) {
    const std::size_t b = num_demands_ + bin;
    if (find_path(b, d)) cancel(d, i, b);
    if (share_[d][i] > 0) {
      edges_[d].push_back({d, i, b});
      edges_[b].push_back({d, i, d});
    }
  }
  std::size_t steps() const { return steps_; }

 private:
  // The path begin .. end in the forest, as the edge by which each node is reached.
  bool find_path(std::size_t begin, std::size_t end) {
    std::vector<std::size_t> stack{begin};
    seen_.assign(edges_.size(), 0);
    seen_[begin] = 1;
    while (!stack.empty()) {
      const std::size_t node = stack.back();
      stack.pop_back();
      if (node == end) return true;
      for (const Edge& edge : edges_[node]) {
        ++steps_;
        if (seen_[edge.other]) continue;
        seen_[edge.other] = 1;
        from_[edge.other] = {edge.demand, edge.position, node};
        stack.push_back(edge.other);
      }
    }
    return false;
  }

  // The new edge (d, bin b) and the path b .. d make a cycle: shares on it rise and fall in turn until one is 0.
  void cancel(std::size_t d, std::size_t i, std::size_t b) {
    std::vector<double*> turn[2];
    turn[0].push_back(&share_[d][i]);
    std::size_t node = d;
    for (int which = 1; node != b; which ^= 1) {
      const Edge& edge = from_[node];
      turn[which].push_back(&share_[edge.demand][edge.position]);
      node = edge.other;
    }
    const auto least = [](const std::vector<double*>& values) {
      return **std::min_element(values.begin(), values.end(), [](double* a, double* b) { return *a < *b; });
    };
    const int falls = least(turn[0]) <= least(turn[1]) ? 0 : 1;
    const double by = least(turn[falls]);
    for (double* value : turn[falls]) *value -= by;
    for (double* value : turn[1 - falls]) *value += by;
    drop_empty(d, b);
  }

  void drop_empty(std::size_t d, std::size_t b) {
    std::size_t node = d;
    while (node != b) {
      const Edge edge = from_[node];
      if (share_[edge.demand][edge.position] <= 0) {
        const auto is_it = [&](const Edge& e) { return e.demand == edge.demand && e.position == edge.position; };
        std::erase_if(edges_[node], is_it);
        std::erase_if(edges_[edge.other], is_it);
      }
      node = edge.other;
    }
  }

  std::vector<std::vector<double>>& share_;
  std::vector<std::vector<Edge>> edges_;
  std::vector<Edge> from_;  // the edge that reached a node, `other` the node before it
  std::vector<char> seen_;
  std::size_t num_demands_, steps_ = 0;
};

}  // namespace

void cancel_cycles(const std::vector<Demand>& demands, std::size_t num_bins, std::vector<std::vector<double>>& share) {
  Forest forest(demands, num_bins, share);
  for (std::size_t d = 0; d < demands.size(); ++d)
    for (std::size_t i = 0; i < demands[d].bins.size(); ++i) {
      if (demands[d].bins.size() == 1 || share[d][i] <= 0) continue;
      if (forest.steps() > kMostSteps) return;
      forest.add(d, i, num(demands[d].bins[i]));
    }
}

}  // namespace weft
