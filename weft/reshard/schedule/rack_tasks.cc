#include "weft/reshard/schedule/rack_tasks.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "weft/base/index.h"
#include "weft/reshard/bound/assign.h"
#include "weft/reshard/schedule/choose_divided.h"

namespace weft {
namespace {

// What a rack can send to others: its uplink, or all its NICs where that is less or the uplink is never in the way.
std::vector<double> rack_rates(const Network& network) {
  std::vector<double> rates(network.uplink.size(), 0.0);
  for (const Nic& nic : network.nics) rates[at(network.rack_of[at(nic.host)])] += nic.bytes_per_s;
  for (std::size_t rack = 0; rack < rates.size(); ++rack)
    if (network.uplink[rack] > 0) rates[rack] = std::min(rates[rack], network.uplink[rack]);
  return rates;
}

class Splitter {
 public:
  Splitter(const std::vector<Task>& tasks, const Network& network) : tasks_(tasks), network_(network) {}

  RackTasks run(double share) {
    double taken = 0;  // goes up by `share` a task; each whole number it passes is a task taken apart
    for (int i = 0; i < int_size(tasks_); ++i, taken += share)
      if (std::floor(taken + share + 1e-9) > std::floor(taken + 1e-9))
        split(i);
      else
        add(i, tasks_[at(i)]);
    const std::vector<double> rates = rack_rates(network_);
    const auto spans = assign(items_, demands_.all(), divide(demands_.all(), rates), rates);
    for (std::size_t k = 0; k < items_.size(); ++k) add_parts(abroad_[k], spans[k]);
    return std::move(result_);
  }

 private:
  int rack_of(int rank) const { return network_.rack_of[at(network_.host_of(rank))]; }

  void add(int origin, Task task) {
    if (task.receivers.empty()) return;
    result_.tasks.push_back(std::move(task));
    result_.origin.push_back(origin);
  }

  // Racks that hold the box serve themselves; what others want of it is an item of the racks that can send it. A rank
  // that wants what it holds gets it as the root of its rack's tree, so trees to other racks have other roots; a task
  // that has none stays as it is.
  void split(int i) {
    const Task& task = tasks_[at(i)];
    std::map<int, Task> own;
    Task abroad = task;
    abroad.receivers.clear();
    for (const int rank : task.senders) {
      const auto [place, is_new] = own.try_emplace(rack_of(rank), task);
      if (is_new) place->second.senders.clear(), place->second.receivers.clear();
      place->second.senders.push_back(rank);
    }
    for (const int rank : task.receivers) {
      const auto place = own.find(rack_of(rank));
      (place == own.end() ? abroad : place->second).receivers.push_back(rank);
    }
    if (!abroad.receivers.empty()) {
      std::erase_if(abroad.senders,
                    [&](int rank) { return std::binary_search(task.receivers.begin(), task.receivers.end(), rank); });
      if (abroad.senders.empty()) return add(i, task);
      add_item(i, std::move(abroad));
    }
    for (auto& [rack, part] : own) add(i, std::move(part));
  }

  void add_item(int i, Task abroad) {
    std::vector<int> racks;
    for (const int rank : abroad.senders) racks.push_back(rack_of(rank));
    const double bytes = abroad.bytes;
    items_.push_back({demands_.add(racks, bytes), bytes});
    abroad_.push_back({i, std::move(abroad)});
  }

  void add_parts(const std::pair<int, Task>& abroad, const std::vector<Span>& spans) {
    std::vector<double> cuts;
    double position = 0;
    for (std::size_t s = 0; s + 1 < spans.size(); ++s)
      cuts.push_back(std::min(1.0, (position += spans[s].size) / static_cast<double>(abroad.second.bytes)));
    const std::vector<Box> boxes = cut_at(abroad.second.box, cuts);
    for (std::size_t s = 0; s < spans.size(); ++s) {
      if (boxes[s].empty()) continue;
      Task part = abroad.second;
      part.box = boxes[s];
      part.bytes = bytes_of(abroad.second, boxes[s]);
      std::erase_if(part.senders, [&](int rank) { return rack_of(rank) != spans[s].bin; });
      add(abroad.first, std::move(part));
    }
  }

  const std::vector<Task>& tasks_;
  const Network& network_;
  std::vector<Item> items_;  // one for every task that other racks want
  std::vector<std::pair<int, Task>> abroad_;
  DemandList demands_;  // bins: racks
  RackTasks result_;
};

}  // namespace

RackTasks rack_tasks(const std::vector<Task>& tasks, const Network& network, double share) {
  return Splitter(tasks, network).run(share);
}

}  // namespace weft
