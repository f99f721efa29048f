#include "weft/reshard/build/nodes.h"

#include <algorithm>
#include <numeric>

#include "weft/base/error.h"
#include "weft/base/index.h"
#include "weft/plan/program.h"
#include "weft/reshard/build/tile.h"

namespace weft::resharding {
namespace {

// Orders are times in this many parts of the makespan. What leaves no host comes after all that does: a NIC is waited
// for.
constexpr double kParts = std::int64_t{1} << 30;
constexpr std::int64_t kInsideHosts = std::int64_t{1} << 32;

class Planter {
 public:
  Planter(const Reshard& reshard, const std::vector<Task>& tasks, const Schedule& schedule, const Network& network,
          const Tiling& tiling)
      : reshard_(reshard), tasks_(tasks), schedule_(schedule), network_(network), tiling_(tiling) {
    const auto ranks = num(reshard.num_ranks);
    out_.num_full.resize(ranks);
    out_.num_open.resize(ranks);
    out_.done.resize(ranks);
    out_.opens.resize(ranks);
    covered_.resize(tasks.size());
  }

  Nodes run() {
    for (const Chunk& chunk : schedule_.chunks) plant(chunk);
    for (std::size_t t = 0; t < tasks_.size(); ++t) keep(t);
    check_covered();
    if (makes()) merge_makers();
    std::stable_sort(out_.nodes.begin(), out_.nodes.end(), [](const Node& a, const Node& b) {
      return std::pair(a.rank, a.order) < std::pair(b.rank, b.order);
    });
    return std::move(out_);
  }

 private:
  struct Branch {
    int rank = 0, depth = 0;        // hops from the root
    std::vector<std::size_t> kids;  // branches
    std::int64_t full = -1;
  };

  bool makes() const { return tiling_.fixed[0] > 0; }
  // A plan's boxes have at least one dimension: a scalar is one element of a row.
  static Box solid(const Box& box) { return box.dims == 0 ? Box{{0, 1}} : box; }
  static bool has(const std::vector<int>& list, int rank) { return std::binary_search(list.begin(), list.end(), rank); }
  bool far(int a, int b) const { return network_.host_of(a) != network_.host_of(b); }

  // The tree of a chunk; branch 0 is the root.
  std::vector<Branch> tree_of(const Chunk& chunk) {
    if (chunk.task < 0 || num(chunk.task) >= tasks_.size())
      bad_input("the schedule has a chunk of task {}, but there are {}", chunk.task, tasks_.size());
    const Task& task = tasks_[at(chunk.task)];
    if (!contains(task.box, chunk.box) || chunk.box.empty() || !has(task.senders, chunk.root))
      bad_input("the schedule has rank {} send {} of task {}, {}, which it does not hold", chunk.root,
                to_string(chunk.box), chunk.task, to_string(task.box));
    std::vector<Branch> tree{{chunk.root, 0, {}, -1}};
    std::map<int, std::size_t> place{{chunk.root, 0}};
    for (const Hop& hop : chunk.hops) {
      const auto from = place.find(hop.from);
      if (from == place.end() || !has(task.receivers, hop.to) || !place.emplace(hop.to, tree.size()).second)
        bad_input(
            "the schedule has a hop of task {} from rank {} to rank {}; hops go from a rank that has the chunk to "
            "one that wants it, once",
            chunk.task, hop.from, hop.to);
      tree[from->second].kids.push_back(tree.size());
      tree.push_back({hop.to, tree[from->second].depth + 1, {}, -1});
      covered_[at(chunk.task)][hop.to] += chunk.box.volume();
    }
    return tree;
  }

  void plant(const Chunk& chunk) {
    std::vector<Branch> tree = tree_of(chunk);
    if (tree.size() == 1) return;  // nothing travels
    const Task& task = tasks_[at(chunk.task)];
    Node node;
    node.transfer = task.transfer;
    node.part = task.part;
    node.box = solid(chunk.box);
    node.end_s = chunk.end_s;
    node.tile = tile_of(chunk, tree, task);
    const Grid grid = grid_of(node.box, node.tile);
    const std::int64_t lanes = grid.rows * grid.cols;
    for (Branch& branch : tree)
      if (branch.depth > 0 && !branch.kids.empty()) {
        branch.full = out_.num_full[at(branch.rank)];
        out_.num_full[at(branch.rank)] += lanes;
      }
    set_order(chunk, tree, lanes, &node);
    for (const Branch& branch : tree) {
      node.kind = branch.depth == 0 ? NodeKind::root : NodeKind::relay;
      node.rank = branch.rank;
      node.full = branch.full;
      node.depth = branch.depth;
      add_node(node, branch, tree, lanes);
      if (branch.depth > 0) out_.arrivals.push_back({branch.rank, node.transfer, node.part, chunk.root, node.box});
    }
  }

  // Kids on other hosts first, by a node of their own: no link waits for a copy inside a host.
  void add_node(Node node, const Branch& branch, const std::vector<Branch>& tree, std::int64_t lanes) {
    Node near = node;
    near.order += node.order_step;
    const bool once = makes() && node.kind == NodeKind::root;
    for (const std::size_t k : branch.kids)
      (once || far(branch.rank, tree[k].rank) ? node : near).kids.push_back(kid_of(branch.rank, tree[k], lanes));
    if (!node.kids.empty()) out_.nodes.push_back(std::move(node));
    if (!near.kids.empty()) out_.nodes.push_back(std::move(near));
  }

  Kid kid_of(int parent, const Branch& branch, std::int64_t lanes) {
    Kid kid{branch.rank, branch.full, 0};
    const std::size_t leaf = at(branch.rank);
    if (branch.full < 0) {
      auto& done = out_.done[leaf];
      const auto [found, fresh] = done_of_.try_emplace({branch.rank, parent}, done.size());
      if (fresh) done.push_back(0);
      done[found->second] += lanes;
      kid.arrival = -1 - static_cast<std::int64_t>(found->second);
    }
    std::int64_t& opens = out_.num_open[at(parent)];
    const auto [found, fresh] = open_of_.try_emplace({parent, branch.rank}, opens);
    if (fresh) out_.opens[leaf].emplace_back(parent, opens++);
    kid.open = found->second;
    return kid;
  }

  std::array<std::int64_t, 2> tile_of(const Chunk& chunk, const std::vector<Branch>& tree, const Task& task) {
    if (makes()) return tiling_.fixed;
    const Dtype dtype = reshard_.transfers[at(task.transfer)].destination.dtype;
    const auto bytes = chunk.box.volume() * size_of(dtype);
    std::int64_t tile_bytes = tiling_.tile_bytes;
    if (tile_bytes == 0) {
      TileQuestion question{bytes, 1, network_.local.bytes_per_s, tiling_.message_s};
      for (const Branch& branch : tree) question.hops = std::max(question.hops, branch.depth);
      for (const Hop& hop : chunk.hops)
        if (far(hop.from, hop.to))
          for (const int rank : {hop.from, hop.to})
            question.bytes_per_s = std::min(question.bytes_per_s, network_.nic(rank).bytes_per_s);
      tile_bytes = best_tile_bytes(question);
    }
    return shared_tile(task.transfer, solid(chunk.box), dtype, tile_bytes);
  }

  // A tile that an earlier chunk of the transfer has does for this one if it comes close: few tiles are few rules.
  std::array<std::int64_t, 2> shared_tile(int transfer, const Box& box, Dtype dtype, std::int64_t tile_bytes) {
    const auto best = tile_for(box, dtype, tile_bytes);
    const auto volume = [&](const std::array<std::int64_t, 2>& tile) { return lane_box(box, tile, 0).volume(); };
    auto& known = tiles_[transfer];
    for (const auto& tile : known)
      if (2 * volume(tile) >= volume(best) && 4 * volume(tile) <= 5 * volume(best)) return tile;
    known.push_back(best);
    return best;
  }

  // By deadline: lane i of K should have left at begin + (i + 1) / K of its time, so chunks that share a NIC advance
  // alike.
  void set_order(const Chunk& chunk, const std::vector<Branch>& tree, std::int64_t lanes, Node* node) const {
    const bool leaves = std::any_of(tree.begin(), tree.end(), [&](const Branch& branch) {
      return std::any_of(branch.kids.begin(), branch.kids.end(),
                         [&](std::size_t k) { return far(branch.rank, tree[k].rank); });
    });
    const double scale = schedule_.makespan_s > 0 ? kParts / schedule_.makespan_s : 0;
    node->order_step = static_cast<std::int64_t>((chunk.end_s - chunk.begin_s) * scale / lanes);
    node->order = 1 + static_cast<std::int64_t>(chunk.begin_s * scale) + node->order_step;
    if (!leaves) node->order += kInsideHosts;
  }

  // A receiver that holds the box itself copies what no hop brings it: all of it, or the chunks of which it is the
  // root.
  void keep(std::size_t t) {
    const Task& task = tasks_[t];
    for (const int rank : task.receivers) {
      if (!has(task.senders, rank)) continue;
      const std::int64_t there = covered_[t].count(rank) > 0 ? covered_[t][rank] : 0;
      if (there == 0) keep(t, rank, task.box);
      if (there == 0 || there == task.box.volume()) continue;
      std::vector<Box> kept;
      for (const Chunk& chunk : schedule_.chunks) {
        if (chunk.task != static_cast<int>(t) || chunk.root != rank) continue;
        if (std::find(kept.begin(), kept.end(), chunk.box) != kept.end()) continue;
        kept.push_back(chunk.box);
        keep(t, rank, chunk.box);
      }
    }
  }
  void keep(std::size_t t, int rank, const Box& held) {
    const Task& task = tasks_[t];
    const Box box = solid(held);
    const Dtype dtype = reshard_.transfers[at(task.transfer)].destination.dtype;
    Node node{NodeKind::keep, rank, task.transfer, task.part, box, {}, -1, {}, 2 * kInsideHosts, 0};
    const TileQuestion question{task.bytes, 1, network_.local.bytes_per_s, tiling_.message_s};
    const std::int64_t tile_bytes = tiling_.tile_bytes > 0 ? tiling_.tile_bytes : best_tile_bytes(question);
    node.tile = makes() ? tiling_.fixed : shared_tile(task.transfer, box, dtype, tile_bytes);
    out_.nodes.push_back(std::move(node));
    out_.arrivals.push_back({rank, task.transfer, task.part, rank, box});
    covered_[t][rank] += box.volume();
  }

  // A tile is made once: what a root makes of one box goes to the kids of all its chunks, and to its own shard.
  void merge_makers() {
    std::vector<Node> out;
    for (Node& node : out_.nodes) {
      const auto same = std::find_if(out.begin(), out.end(), [&](const Node& other) {
        return node.kind != NodeKind::relay && other.kind != NodeKind::relay && other.rank == node.rank &&
               other.box == node.box;
      });
      if (same == out.end()) {
        out.push_back(std::move(node));
        continue;
      }
      if (same->kind == NodeKind::keep || node.kind == NodeKind::keep) same->full = 0;
      same->kind = NodeKind::root;
      same->order = std::min(same->order, node.order);
      same->kids.insert(same->kids.end(), node.kids.begin(), node.kids.end());
    }
    out_.nodes = std::move(out);
  }

  void check_covered() const {
    for (std::size_t t = 0; t < tasks_.size(); ++t)
      for (const int rank : tasks_[t].receivers) {
        const auto found = covered_[t].find(rank);
        const std::int64_t there = found == covered_[t].end() ? 0 : found->second;
        if (there != tasks_[t].box.volume())
          bad_input("the schedule brings {} of the {} elements of task {}, {}, to rank {}", there,
                    tasks_[t].box.volume(), t, to_string(tasks_[t].box), rank);
      }
  }

  const Reshard& reshard_;
  const std::vector<Task>& tasks_;
  const Schedule& schedule_;
  const Network& network_;
  const Tiling tiling_;
  std::map<std::pair<int, int>, std::size_t> done_of_;   // by leaf and parent
  std::map<std::pair<int, int>, std::int64_t> open_of_;  // by parent and kid
  std::map<int, std::vector<std::array<std::int64_t, 2>>> tiles_;
  std::vector<std::map<int, std::int64_t>> covered_;  // of each task: elements that reach a rank
  Nodes out_;
};

}  // namespace

Nodes nodes_of(const Reshard& reshard, const std::vector<Task>& tasks, const Schedule& schedule, const Network& network,
               const Tiling& tiling) {
  return Planter(reshard, tasks, schedule, network, tiling).run();
}

}  // namespace weft::resharding
