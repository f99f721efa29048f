// The checker of schedules. It shares nothing with the planners but the data: hops are walked, elements counted and
// rates added up anew.
#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include <fmt/core.h>

#include "weft/base/index.h"
#include "weft/mesh/regions.h"
#include "weft/reshard/schedule/schedule.h"

namespace weft {
namespace {

constexpr double kSlack = 1e-9;  // relative, for sums of doubles

bool has(const std::vector<int>& ranks, int rank) { return std::find(ranks.begin(), ranks.end(), rank) != ranks.end(); }

// One direction of a NIC or uplink, and how its load changes over time.
struct Line {
  std::string name;
  double rate = 0;
  std::vector<std::pair<double, double>> changes;  // (time, by how much)
};

class ScheduleChecker {
 public:
  ScheduleChecker(const Schedule& schedule, const std::vector<Task>& tasks, const Network& network)
      : schedule_(schedule), tasks_(tasks), network_(network) {}

  std::vector<std::string> run() {
    for (std::size_t i = 0; i < schedule_.chunks.size(); ++i) {
      if (!is_known(i)) continue;
      check_tree(i);
      check_times(i);
      add_load(schedule_.chunks[i]);
    }
    for (int i = 0; i < int_size(tasks_); ++i) check_arrivals(i);
    for (auto& [key, line] : lines_) check_line(line);
    if (schedule_.makespan_s < schedule_.lower_bound_s * (1 - kSlack))
      say("the makespan {} s is below the lower bound {} s", schedule_.makespan_s, schedule_.lower_bound_s);
    return std::move(problems_);
  }

 private:
  template <typename... Args>
  void say(fmt::format_string<Args...> format, Args&&... args) {
    problems_.push_back(fmt::format(format, std::forward<Args>(args)...));
  }

  bool is_known(std::size_t index) {
    const Chunk& chunk = schedule_.chunks[index];
    if (chunk.task < 0 || at(chunk.task) >= tasks_.size()) {
      say("chunk {} is of task {}, which is not there", index, chunk.task);
      return false;
    }
    const Task& task = tasks_[at(chunk.task)];
    if (chunk.box.empty() || !contains(task.box, chunk.box))
      say("chunk {} is {}, which is no part of {} of task {}", index, to_string(chunk.box), to_string(task.box),
          chunk.task);
    if (chunk.bytes != task.bytes / task.box.volume() * chunk.box.volume())
      say("chunk {} has {} bytes, but its box is {} of {} elements of {} bytes", index, chunk.bytes, chunk.box.volume(),
          task.box.volume(), task.bytes);
    return true;
  }

  void check_tree(std::size_t index) {
    const Chunk& chunk = schedule_.chunks[index];
    const Task& task = tasks_[at(chunk.task)];
    if (!has(task.senders, chunk.root)) say("chunk {} begins at rank {}, which does not hold it", index, chunk.root);
    std::set<int> reached{chunk.root};
    if (has(task.receivers, chunk.root)) arrivals_[{chunk.task, chunk.root}].push_back(chunk.box);
    for (const Hop& hop : chunk.hops) {
      if (!reached.count(hop.from)) say("chunk {} hops from rank {}, which does not have it yet", index, hop.from);
      if (!has(task.receivers, hop.to)) say("chunk {} hops to rank {}, which does not want it", index, hop.to);
      if (!reached.insert(hop.to).second) say("chunk {} reaches rank {} twice", index, hop.to);
      arrivals_[{chunk.task, hop.to}].push_back(chunk.box);
    }
  }

  void check_times(std::size_t index) {
    const Chunk& chunk = schedule_.chunks[index];
    if (chunk.begin_s < 0 || chunk.end_s < chunk.begin_s || chunk.end_s > schedule_.makespan_s * (1 + kSlack))
      say("chunk {} travels from {} s to {} s of {} s", index, chunk.begin_s, chunk.end_s, schedule_.makespan_s);
    if (index > 0 && schedule_.chunks[index - 1].begin_s > chunk.begin_s)
      say("chunk {} begins before the one listed before it", index);
    if (chunk.end_s > chunk.begin_s) return;
    for (const Hop& hop : chunk.hops)
      if (network_.host_of(hop.from) != network_.host_of(hop.to)) {
        say("chunk {} crosses from rank {} to rank {} in no time", index, hop.from, hop.to);
        return;
      }
  }

  void add_load(const Chunk& chunk) {
    if (chunk.end_s <= chunk.begin_s) return;
    const double rounding = schedule_.makespan_s * 1e-12;  // of times this far from 0
    const double rate = static_cast<double>(chunk.bytes) / (chunk.end_s - chunk.begin_s + rounding);
    for (const Hop& hop : chunk.hops) {
      const int from = network_.host_of(hop.from), to = network_.host_of(hop.to);
      if (from == to) continue;
      load_nic("out of", network_.nic_of[at(hop.from)], chunk, rate);
      load_nic("into", network_.nic_of[at(hop.to)], chunk, rate);
      const int from_rack = network_.rack_of[at(from)], to_rack = network_.rack_of[at(to)];
      if (from_rack == to_rack) continue;
      load_rack("out of", from_rack, chunk, rate);
      load_rack("into", to_rack, chunk, rate);
    }
  }

  void load_nic(const char* way, int nic, const Chunk& chunk, double rate) {
    Line& line = lines_[{way, nic}];
    line.rate = network_.nics[at(nic)].bytes_per_s;
    if (line.name.empty()) line.name = fmt::format("{} NIC {}", way, nic);
    line.changes.push_back({chunk.begin_s, rate});
    line.changes.push_back({chunk.end_s, -rate});
  }

  void load_rack(const char* way, int rack, const Chunk& chunk, double rate) {
    if (network_.uplink[at(rack)] == 0) return;
    Line& line = lines_[{way, -1 - rack}];
    line.rate = network_.uplink[at(rack)];
    if (line.name.empty()) line.name = fmt::format("{} rack {}", way, rack);
    line.changes.push_back({chunk.begin_s, rate});
    line.changes.push_back({chunk.end_s, -rate});
  }

  // Changes closer together than rounding count as one moment.
  void check_line(Line& line) {
    std::sort(line.changes.begin(), line.changes.end());
    double load = 0;
    for (std::size_t i = 0; i < line.changes.size(); ++i) {
      load += line.changes[i].second;
      const double now = line.changes[i].first;
      if (i + 1 < line.changes.size() && line.changes[i + 1].first <= now + schedule_.makespan_s * kSlack) continue;
      if (load <= line.rate * (1 + kSlack)) continue;
      say("{} bytes a second go {} at {} s, which takes {}", load, line.name, now, line.rate);
      return;
    }
  }

  void check_arrivals(int index) {
    const Task& task = tasks_[at(index)];
    for (const int rank : task.receivers) {
      const std::vector<Box>& boxes = arrivals_[{index, rank}];
      std::int64_t elements = 0;
      for (const Box& box : boxes) elements += box.volume();
      if (elements < task.box.volume())
        say("rank {} gets {} of {} elements of task {}", rank, elements, task.box.volume(), index);
      else if (elements > task.box.volume() || !disjoint(boxes))
        say("rank {} gets elements of task {} twice", rank, index);
    }
  }

  const Schedule& schedule_;
  const std::vector<Task>& tasks_;
  const Network& network_;
  std::vector<std::string> problems_;
  std::map<std::pair<int, int>, std::vector<Box>> arrivals_;  // by task and rank
  std::map<std::pair<std::string, int>, Line> lines_;         // by direction, and NIC or -1 - rack
};

}  // namespace

std::vector<std::string> problems(const Schedule& schedule, const std::vector<Task>& tasks, const Network& network) {
  return ScheduleChecker(schedule, tasks, network).run();
}

}  // namespace weft
