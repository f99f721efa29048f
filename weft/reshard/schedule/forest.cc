#include "weft/reshard/schedule/forest.h"

#include <algorithm>
#include <unordered_map>

#include "weft/base/error.h"
#include "weft/base/index.h"

namespace weft {
namespace {

bool is_door(const Site& site, int rank) {
  return std::any_of(site.doors.begin(), site.doors.end(), [&](const Door& door) { return door.rank == rank; });
}

// The hosts that no hop has reached yet, those that send on apart from those that do not, all of them and by rack.
class Unreached {
 public:
  Unreached(const Sites& sites, const std::vector<int>& copies, const Network& network) : reached_(copies.size()) {
    for (int i = 0; i < int_size(copies); ++i) {
      const int rack = network.rack_of[at(sites.wanting[at(i)].host)], kind = copies[at(i)] > 0 ? 0 : 1;
      all_[kind].members.push_back(i);
      racks_[rack][kind].members.push_back(i);
      ++left_[kind];
    }
  }

  // The host that a rank of this rack reaches next. One that sends nothing on may go first only while another outlet is
  // open for those that do.
  int take(int rack, bool is_last_outlet) {
    Queue* own = racks_[rack];
    int host = next(own[0]);
    if (host < 0 && !(is_last_outlet && left_[0] > 0)) host = next(own[1]);
    if (host < 0) host = next(all_[0]);
    if (host < 0) host = next(all_[1]);
    if (host < 0) fail(Code::internal, "a slice has more copies than hosts that lack it");
    reached_[at(host)] = 1;
    return host;
  }
  void sent_on(int kind) { --left_[kind]; }

 private:
  struct Queue {
    std::vector<int> members;
    std::size_t first = 0;
  };
  int next(Queue& queue) {
    while (queue.first < queue.members.size() && reached_[at(queue.members[queue.first])]) ++queue.first;
    return queue.first < queue.members.size() ? queue.members[queue.first] : -1;
  }

  std::vector<char> reached_;
  Queue all_[2];
  std::unordered_map<int, Queue[2]> racks_;
  int left_[2] = {0, 0};
};

// An outlet that has the slice: the chunk that brought it, and the copies it still sends.
struct Open {
  std::size_t chunk;
  int rank, copies;
};

class Growing {
 public:
  Growing(const Slice& slice, const Task& task, const Sites& sites, const Network& network)
      : slice_(slice), task_(task), sites_(sites), network_(network), copies_(sites.wanting.size()) {
    for (std::size_t i = 0; i < sites.wanting.size(); ++i)
      for (const Outlet& outlet : slice.outlets)
        if (is_door(sites.wanting[i], outlet.rank)) copies_[i] += outlet.copies;
  }

  std::vector<Chunk> run() {
    std::vector<int> roots;
    for (const Site& site : sites_.holding) plant(site, roots);
    Unreached unreached(sites_, copies_, network_);
    int slots = 0;
    for (const Open& open : open_) slots += open.copies;
    for (std::size_t i = 0; i < open_.size(); ++i)
      for (int copy = 0; copy < open_[i].copies; ++copy, --slots) {
        const int rack = network_.rack_of[at(network_.host_of(open_[i].rank))];
        const int host = unreached.take(rack, slots == 1);
        unreached.sent_on(copies_[at(host)] > 0 ? 0 : 1);
        slots += copies_[at(host)];
        reach(open_[i].chunk, open_[i].rank, at(host));
      }
    for (Chunk& chunk : inside(slice_, task_, sites_, roots)) chunks_.push_back(std::move(chunk));
    return std::move(chunks_);
  }

 private:
  // The trees that begin on a host that holds the box. The first one also serves the host itself.
  void plant(const Site& site, std::vector<int>& roots) {
    std::vector<const Outlet*> own, lent;
    for (const Outlet& outlet : slice_.outlets) {
      if (outlet.copies == 0 || !is_door(site, outlet.rank)) continue;
      (site.holds(outlet.rank) ? own : lent).push_back(&outlet);
    }
    if (own.empty() && lent.empty()) return;
    const std::size_t first = chunks_.size();
    add_root(own.empty() ? site.holders.front() : own.front()->rank, roots);
    spread(site, chunks_[first].root, chunks_[first].hops);
    for (const Outlet* outlet : lent) open_.push_back({first, outlet->rank, outlet->copies});
    for (const Outlet* outlet : own) {
      if (outlet != own.front()) add_root(outlet->rank, roots);
      open_.push_back({chunks_.size() - 1, outlet->rank, outlet->copies});
    }
  }

  void add_root(int rank, std::vector<int>& roots) {
    chunks_.push_back({slice_.task, slice_.box, bytes_of(task_, slice_.box), rank, {}, 0, 0});
    roots.push_back(rank);
  }

  void reach(std::size_t chunk, int from, std::size_t host) {
    const Site& site = sites_.wanting[host];
    const int entry = slice_.entry[host];
    chunks_[chunk].hops.push_back({from, entry});
    spread(site, entry, chunks_[chunk].hops);
    for (const Outlet& outlet : slice_.outlets)
      if (outlet.copies > 0 && is_door(site, outlet.rank)) open_.push_back({chunk, outlet.rank, outlet.copies});
  }

  const Slice& slice_;
  const Task& task_;
  const Sites& sites_;
  const Network& network_;
  std::vector<int> copies_;  // per wanting site
  std::vector<Open> open_;
  std::vector<Chunk> chunks_;
};

}  // namespace

std::vector<Chunk> forest(const Slice& slice, const Task& task, const Sites& sites, const Network& network) {
  return Growing(slice, task, sites, network).run();
}

void spread(const Site& site, int root, std::vector<Hop>& hops) {
  for (const int rank : site.receivers)
    if (rank != root && !site.holds(rank)) hops.push_back({root, rank});
}

std::vector<Chunk> inside(const Slice& slice, const Task& task, const Sites& sites, const std::vector<int>& roots) {
  std::vector<Chunk> chunks;
  const auto is_root = [&](int rank) { return std::find(roots.begin(), roots.end(), rank) != roots.end(); };
  for (const Site& site : sites.holding) {
    if (site.receivers.empty()) continue;
    std::vector<int> own;  // ranks that hold it, want it, and root no tree
    for (const int rank : site.receivers)
      if (site.holds(rank) && !is_root(rank)) own.push_back(rank);
    bool is_served = std::any_of(site.holders.begin(), site.holders.end(), is_root);
    std::vector<Hop> hops;
    const int root = own.empty() ? site.holders.front() : own.front();
    if (!is_served) spread(site, root, hops);
    if (own.empty() && !hops.empty()) own.push_back(root);
    for (const int rank : own) {
      chunks.push_back({slice.task, slice.box, bytes_of(task, slice.box), rank, {}, 0, 0});
      if (rank == root) chunks.back().hops = std::move(hops);
    }
  }
  return chunks;
}

}  // namespace weft
