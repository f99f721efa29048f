// Randomised greedy: in steps, each a set of tasks of which no two use the same NIC in the same direction. Of many
// random sets the largest is taken, and among equals the one whose senders have least to send already.
#include <algorithm>
#include <numeric>
#include <random>

#include "weft/base/index.h"
#include "weft/reshard/schedule/candidates.h"
#include "weft/reshard/schedule/choose.h"

namespace weft {
namespace {

constexpr std::int64_t kMostRounds = 100, kLeastRounds = 4;

struct Pick {
  int task, nic, rank;
};

class Greedy {
 public:
  Greedy(const TaskSet& set, std::int64_t rounds, std::uint64_t seed)
      : set_(set),
        rounds_(rounds),
        random_(seed),
        entries_(balanced_entries(set)),
        busy_(set.network().nics.size() * 2, 0),
        load_(set.network().nics.size(), 0.0) {
    for (int i = 0; i < set.size(); ++i)
      if (!set.sites(i).wanting.empty()) left_.push_back(i);
  }

  std::vector<Slice> run() {
    std::vector<Slice> slices;
    while (!left_.empty()) {
      for (const Pick& pick : best_set()) {
        load_[at(pick.nic)] += set_.task(pick.task).bytes / rate(pick.nic);
        slices.push_back(set_.whole(pick.task, pick.rank, entries_[at(pick.task)]));
        is_taken_.resize(set_.tasks.size());
        is_taken_[at(pick.task)] = 1;
      }
      std::erase_if(left_, [&](int i) { return is_taken_[at(i)] != 0; });
    }
    return with_local(set_, std::move(slices));
  }

 private:
  double rate(int nic) const { return set_.network().nics[at(nic)].bytes_per_s; }

  std::vector<Pick> best_set() {
    std::vector<Pick> best;
    double best_load = 0;
    for (std::int64_t round = 0; round < rounds_; ++round) {
      std::vector<Pick> set = random_set();
      double load = 0;
      for (const Pick& pick : set) load = std::max(load, load_[at(pick.nic)]);
      if (set.size() > best.size() || (set.size() == best.size() && load < best_load)) {
        best = std::move(set);
        best_load = load;
      }
      if (left_.size() == 1 && set_.sites(left_[0]).exits.size() == 1) break;
    }
    return best;
  }

  std::vector<Pick> random_set() {
    std::shuffle(left_.begin(), left_.end(), random_);
    ++stamp_;
    std::vector<Pick> set;
    for (const int i : left_) {
      if (!is_free(i)) continue;
      const Pick pick = free_sender(i);
      if (pick.task < 0) continue;
      busy_[at(pick.nic)] = stamp_;
      for (const int rank : entries_[at(i)]) busy_[busy_.size() / 2 + at(set_.network().nic_of[at(rank)])] = stamp_;
      set.push_back(pick);
    }
    return set;
  }

  bool is_free(int task) const {
    for (const int rank : entries_[at(task)])
      if (busy_[busy_.size() / 2 + at(set_.network().nic_of[at(rank)])] == stamp_) return false;
    return true;
  }

  // One of the senders with an idle NIC, at random.
  Pick free_sender(int task) {
    Pick pick{-1, 0, 0};
    int seen = 0;
    for (const Door& door : set_.sites(task).senders) {
      if (busy_[at(door.nic)] == stamp_) continue;
      if (std::uniform_int_distribution<int>(0, seen++)(random_) == 0) pick = {task, door.nic, door.rank};
    }
    return pick;
  }

  const TaskSet& set_;
  std::int64_t rounds_;
  std::mt19937_64 random_;
  std::vector<std::vector<int>> entries_;
  std::vector<int> left_;
  std::vector<char> is_taken_;
  std::vector<std::int64_t> busy_;  // by NIC, out and then in: the set that uses it
  std::vector<double> load_;
  std::int64_t stamp_ = 0;
};

}  // namespace

std::vector<Slice> choose_greedy(const TaskSet& set, std::int64_t node_budget, std::uint64_t seed) {
  // 100 rounds a step up to about 300 tasks of the usual budget, then as many as keep the work about level.
  const std::int64_t n = std::max(set.size(), 1);
  const std::int64_t rounds = std::clamp(node_budget * 50 / (n * n), kLeastRounds, kMostRounds);
  return Greedy(set, rounds, seed).run();
}

}  // namespace weft
