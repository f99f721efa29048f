#include "weft/reshard/build/price.h"

#include <algorithm>

#include "weft/base/index.h"
#include "weft/plan/program.h"

namespace weft::resharding {
namespace {

// CPU time of a hop at both ends together, in messages of the options: to another host there is a link to be waited
// for, in a host only a counter to be looked at. From 1 KB between 6 to 16 thread ranks on two cores, at 20 us a
// message: 16 us and 3 us.
constexpr double kFar = 0.8, kNear = 0.15;

class Pricing {
 public:
  Pricing(const Nodes& nodes, const Reshard& reshard, const Network& network, const Tiling& tiling)
      : nodes_(nodes), reshard_(reshard), network_(network), tiling_(tiling) {}

  // Parents come before their kids in `order`, and within a rank what goes first comes first.
  double run() {
    double end = 0;
    free_.resize(nodes_.num_full.size());
    busy_.resize(nodes_.num_full.size());
    ready_.resize(nodes_.num_full.size());
    for (std::size_t rank = 0; rank < ready_.size(); ++rank) ready_[rank].resize(num(nodes_.num_full[rank]));
    std::vector<const Node*> order;
    for (const Node& node : nodes_.nodes) order.push_back(&node);
    std::stable_sort(order.begin(), order.end(), [](const Node* a, const Node* b) {
      return std::pair(a->depth, a->order) < std::pair(b->depth, b->order);
    });
    for (const Node* node : order) end = std::max(end, play(*node));
    for (const double busy : busy_) end = std::max(end, busy);
    if (tiling_.cores <= 0) return end;
    return std::max(end + once_ / tiling_.cores, all_ / tiling_.cores);
  }

 private:
  struct Front {
    double first = 0, last = 0;  // when the first and the last tile are there
  };

  double rate(int from, int to) const {
    if (network_.host_of(from) == network_.host_of(to)) return network_.local.bytes_per_s;
    return std::min(network_.nic(from).bytes_per_s, network_.nic(to).bytes_per_s);
  }

  double play(const Node& node) {
    const auto size = size_of(reshard_.transfers[at(node.transfer)].destination.dtype);
    const Grid grid = grid_of(node.box, node.tile);
    const double lanes = grid.rows * grid.cols;
    const double bytes = static_cast<double>(node.box.volume()) * size;
    const double tile = static_cast<double>(lane_box(node.box, node.tile, 0).volume()) * size;
    const auto rank = num(node.rank);
    Front here;
    if (node.kind == NodeKind::relay) here = ready_[rank][at(node.full)];
    if (node.kind == NodeKind::keep) {
      busy_[rank] += bytes / network_.local.bytes_per_s;
      return bytes / network_.local.bytes_per_s;
    }
    double end = 0, now = std::max(here.first, free_[rank]);
    for (const Kid& kid : node.kids) {
      const bool near = network_.host_of(node.rank) == network_.host_of(kid.rank);
      const double latency = near ? network_.local.latency_s : network_.latency_s;
      const double step = tile / rate(node.rank, kid.rank) + latency + tiling_.message_s;
      const double copies = near ? bytes / network_.local.bytes_per_s : 0;
      const double hop = (near ? kNear : kFar) * tiling_.message_s;
      once_ += hop;
      all_ += lanes * hop + bytes / network_.local.bytes_per_s;
      now += tiling_.message_s;
      busy_[rank] += copies + lanes * tiling_.message_s;
      busy_[at(kid.rank)] += lanes * tiling_.message_s;
      const Front there{now + step, std::max({now, here.last, near ? 0 : node.end_s}) + step};
      if (kid.arrival >= 0) ready_[at(kid.rank)][at(kid.arrival)] = there;
      end = std::max(end, there.last);
    }
    free_[rank] = now;
    return end;
  }

  const Nodes& nodes_;
  const Reshard& reshard_;
  const Network& network_;
  const Tiling& tiling_;
  double once_ = 0, all_ = 0;              // CPU time of all ranks: as if each chunk were one tile; for all tiles
  std::vector<double> free_, busy_;        // of each rank: after its messages so far; all its work
  std::vector<std::vector<Front>> ready_;  // of each rank, by the first `full` counter of a chunk
};

}  // namespace

double price(const Schedule& schedule, const std::vector<Task>& tasks, const Reshard& reshard, const Network& network,
             const Tiling& tiling) {
  const Nodes nodes = nodes_of(reshard, tasks, schedule, network, tiling);
  return Pricing(nodes, reshard, network, tiling).run();
}

}  // namespace weft::resharding
