// Why a step goes no further: who waits for whom, as far as that leads.
#include <algorithm>

#include "weft/base/error.h"
#include "weft/sim/step/machine.h"

namespace weft::netsim {

std::string StepMachine::waits_for(const Seat& seat, std::int32_t n) const {
  const StepNode& node = node_of(seat, n);
  return fmt::format("rank {} waits in {} \"{}\"", seat.rank, to_string(node.kind), stage_.graph->name_of(node));
}

void StepMachine::report_stuck() const {
  std::string text = fmt::format("{} gets stuck after {} ps", stage_.graph->name, now_);
  std::int32_t s = 0;
  while (seats_[at(s)].left == 0) ++s;
  std::vector<bool> seen(seats_.size(), false);
  while (s >= 0 && !seen[at(s)]) {
    seen[at(s)] = true;
    const Seat& seat = seats_[at(s)];
    s = -1;
    const auto& nodes = stage_.graph->programs[at(seat.program)].nodes;
    std::int32_t n = 0;  // one that has begun; else one that cannot
    while (n < int_size(nodes) && missing_[place_of(seat, n)] != -1) ++n;
    if (n == int_size(nodes)) {
      text += fmt::format("; rank {} has begun nothing more", seat.rank);
      break;
    }
    text += "; " + waits_for(seat, n);
    const StepNode& node = nodes[at(n)];
    const Communicator& where = stage_.graph->communicators[at(node.communicator)];
    const std::int32_t group = where.group_of[at(seat.rank)];
    if (node.kind == NodeKind::receive || node.kind == NodeKind::send) {
      const std::int32_t peer = where.groups[at(group)][at(node.peer)];
      text += fmt::format(" for rank {}", peer);
      s = stage_.seat_of[at(peer)];
      continue;
    }
    const auto found = instance_at_.find(num(first_group_[at(node.communicator)] + group) << 32 |
                                         static_cast<std::uint32_t>(node.tag));
    for (const Player& player : instances_[at(found->second)].players)
      if (player.node < 0 && s < 0) {
        s = player.seat;
        text += fmt::format(" for rank {}, which has not come to it", seats_[at(s)].rank);
      }
    if (s < 0) text += ": its plan gets stuck";
  }
  bad_input("{}; mend what the last one waits for", text);
}

}  // namespace weft::netsim
