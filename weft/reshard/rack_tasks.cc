#include "weft/reshard/rack_tasks.h"

#include <map>

namespace weft {

RackTasks rack_tasks(const std::vector<Task>& tasks, const Network& network) {
  const auto rack_of = [&](int rank) { return network.rack_of[static_cast<std::size_t>(network.host_of(rank))]; };
  RackTasks result;
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    std::map<int, Task> own;  // by rack
    for (const int rank : tasks[i].senders) own[rack_of(rank)].senders.push_back(rank);
    Task rest = tasks[i];
    rest.receivers.clear();
    for (const int rank : tasks[i].receivers) {
      const auto place = own.find(rack_of(rank));
      (place == own.end() ? rest : place->second).receivers.push_back(rank);
    }
    const auto add = [&](Task task, std::vector<int> senders, std::vector<int> receivers) {
      if (receivers.empty()) return;
      task.senders = std::move(senders);
      task.receivers = std::move(receivers);
      result.tasks.push_back(std::move(task));
      result.origin.push_back(static_cast<int>(i));
    };
    for (const auto& [rack, part] : own) add(tasks[i], part.senders, part.receivers);
    add(tasks[i], tasks[i].senders, rest.receivers);
  }
  return result;
}

}  // namespace weft
