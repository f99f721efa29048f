// Jobs one at a time on every NIC, none waiting while all its NICs are idle. Jobs that use the same NICs are a kind and
// wait as one, each kind on one busy NIC: it is looked at again when that NIC falls free.
#include <algorithm>
#include <map>
#include <numeric>
#include <queue>
#include <random>

#include "weft/base/index.h"
#include "weft/reshard/schedule/timing.h"
#include "weft/reshard/schedule/uplinks.h"

namespace weft {
namespace {

constexpr int kRandomOrders = 6;
constexpr std::size_t kMostJobsAtRandom = 512;
constexpr std::size_t kMostJobsInAllOrders = 8192;

struct Kind {
  std::vector<int> jobs;  // in order
  std::size_t next = 0;
};

class JobDispatcher {
 public:
  JobDispatcher(std::vector<Job>& jobs, const std::vector<int>& order, const Resources& resources)
      : jobs_(jobs),
        resources_(resources),
        uplinks_(resources),
        place_(jobs.size()),
        waiting_(at(resources.size())),
        is_busy_(at(resources.size())) {
    std::map<std::vector<int>, int> known;
    std::vector<int> key;
    for (int i = 0; i < int_size(order); ++i) {
      place_[at(order[at(i)])] = i;
      key.clear();
      for (const Use& use : jobs[at(order[at(i)])].uses) key.push_back(use.resource);
      const auto [kind, is_new] = known.emplace(key, int_size(kinds_));
      if (is_new) kinds_.emplace_back();
      kinds_[at(kind->second)].jobs.push_back(order[at(i)]);
    }
  }

  double run() {
    for (int k = 0; k < int_size(kinds_); ++k) ready_.push_back(k);
    while (true) {
      std::sort(ready_.begin(), ready_.end(), [&](int a, int b) { return place(a) < place(b); });
      start_ready();
      if (ends_.empty()) break;
      now_ = ends_.top().first;
      while (!ends_.empty() && ends_.top().first <= now_ * (1 + 1e-12)) {
        finish(ends_.top().second);
        ends_.pop();
      }
    }
    return makespan_;
  }

 private:
  int place(int kind) const { return place_[at(kinds_[at(kind)].jobs[kinds_[at(kind)].next])]; }

  void start_ready() {
    for (const int k : ready_) {
      Kind& kind = kinds_[at(k)];
      while (kind.next < kind.jobs.size()) {
        Job& job = jobs_[at(kind.jobs[kind.next])];
        const int busy = first_busy(job);
        if (busy >= 0) {
          waiting_[at(busy)].push_back(k);
          break;
        }
        if (!job.uses.empty() && uplinks_.first_room(job, now_) > now_ * (1 + 1e-12)) {
          blocked_.push_back(k);  // an uplink is full: looked at whenever anything ends
          break;
        }
        start(job, kind.jobs[kind.next++]);
      }
    }
    ready_.clear();
  }

  int first_busy(const Job& job) const {
    for (const Use& use : job.uses)
      if (is_busy_[at(use.resource)]) return use.resource;
    return -1;
  }

  void start(Job& job, int i) {
    const double begin = job.uses.empty() ? 0 : uplinks_.reserve(job, now_);
    const double end = job.uses.empty() ? 0 : begin + job.seconds;
    job.set_times(begin, end);
    if (job.uses.empty()) return;
    for (const Use& use : job.uses)
      if (resources_.is_nic(use.resource)) is_busy_[at(use.resource)] = 1;
    makespan_ = std::max(makespan_, end);
    ends_.push({end, i});
  }

  void finish(int i) {
    for (const Use& use : jobs_[at(i)].uses) {
      if (!resources_.is_nic(use.resource)) continue;
      is_busy_[at(use.resource)] = 0;
      std::vector<int>& waiting = waiting_[at(use.resource)];
      ready_.insert(ready_.end(), waiting.begin(), waiting.end());
      waiting.clear();
    }
    ready_.insert(ready_.end(), blocked_.begin(), blocked_.end());
    blocked_.clear();
  }

  using End = std::pair<double, int>;
  std::vector<Job>& jobs_;
  const Resources& resources_;
  Uplinks uplinks_;
  std::vector<Kind> kinds_;
  std::vector<int> place_;                 // of a job in the order
  std::vector<std::vector<int>> waiting_;  // kinds, by NIC direction
  std::vector<char> is_busy_;
  std::vector<int> ready_, blocked_;  // kinds
  std::priority_queue<End, std::vector<End>, std::greater<End>> ends_;
  double now_ = 0, makespan_ = 0;
};

// What is left to do on the busiest NIC of each job, at the beginning.
std::vector<double> busiest_of(const std::vector<Job>& jobs, const Resources& resources) {
  std::vector<double> load(at(resources.size()), 0.0), busiest(jobs.size(), 0.0);
  for (const Job& job : jobs)
    for (const Use& use : job.uses) load[at(use.resource)] += use.bytes / resources.rate(use.resource);
  for (std::size_t i = 0; i < jobs.size(); ++i)
    for (const Use& use : jobs[i].uses) busiest[i] = std::max(busiest[i], load[at(use.resource)]);
  return busiest;
}

// Senders and receivers numbered by themselves: job (s, r) comes at turn r - s, so that in every turn each sender has a
// receiver of its own. Senders that all begin with the same receiver stand in each other's way.
std::vector<int> staggered(const std::vector<Job>& jobs, const Resources& resources) {
  std::map<int, int> senders, receivers;
  const auto ends = [&](const Job& job) {
    std::pair<int, int> result{0, 0};
    if (job.uses.empty()) return result;
    result.first = job.uses.front().resource;
    for (const Use& use : job.uses)
      if (resources.is_nic(use.resource)) result.second = use.resource;
    return result;
  };
  for (const Job& job : jobs) {
    senders.emplace(ends(job).first, 0);
    receivers.emplace(ends(job).second, 0);
  }
  int number = 0;
  for (auto& [nic, place] : senders) place = number++;
  number = 0;
  for (auto& [nic, place] : receivers) place = number++;
  std::vector<std::pair<int, int>> turns;
  for (int i = 0; i < int_size(jobs); ++i) {
    const auto [out, in] = ends(jobs[at(i)]);
    const int turn = (receivers[in] - senders[out] + int_size(senders) * number) % number;
    turns.push_back({turn, i});
  }
  std::sort(turns.begin(), turns.end());
  std::vector<int> order;
  for (const auto& [turn, job] : turns) order.push_back(job);
  return order;
}

// Longest first; busiest NIC first; and, where jobs are not too many, some at random.
void add_orders(const std::vector<Job>& jobs, const Resources& resources, std::uint64_t seed,
                std::vector<std::vector<int>>& orders) {
  const std::vector<int> listed = orders[0];
  orders.push_back(listed);
  std::stable_sort(orders.back().begin(), orders.back().end(),
                   [&](int a, int b) { return jobs[at(a)].seconds > jobs[at(b)].seconds; });
  const std::vector<double> busiest = busiest_of(jobs, resources);
  orders.push_back(listed);
  std::stable_sort(orders.back().begin(), orders.back().end(), [&](int a, int b) {
    return std::pair(busiest[at(a)], jobs[at(a)].seconds) > std::pair(busiest[at(b)], jobs[at(b)].seconds);
  });
  std::mt19937_64 random(seed);
  for (int i = 0; i < kRandomOrders && jobs.size() <= kMostJobsAtRandom; ++i) {
    orders.push_back(listed);
    std::shuffle(orders.back().begin(), orders.back().end(), random);
  }
}

}  // namespace

double run_when_free(std::vector<Job>& jobs, const std::vector<int>& order, const Resources& resources) {
  return JobDispatcher(jobs, order, resources).run();
}

double run_one_at_a_time(std::vector<Job>& jobs, const Resources& resources, double enough, std::uint64_t seed) {
  std::vector<int> listed(jobs.size());
  std::iota(listed.begin(), listed.end(), 0);
  std::vector<std::vector<int>> orders{listed, staggered(jobs, resources)};
  if (jobs.size() <= kMostJobsInAllOrders) add_orders(jobs, resources, seed, orders);
  std::size_t best = 0, last = 0;
  double shortest = 0;
  for (std::size_t i = 0; i < orders.size() && (i == 0 || shortest > enough * (1 + 1e-9)); ++i) {
    const double makespan = run_when_free(jobs, orders[i], resources);
    if (i == 0 || makespan < shortest) shortest = makespan, best = i;
    last = i;
  }
  if (best != last) run_when_free(jobs, orders[best], resources);
  return shortest;
}

}  // namespace weft
