// Collectives of a step: a plan's scripts on the seats of a group. The same rules as in net/machine.cc; here instances
// come and go, and a rank's part begins when it enters.
#include <algorithm>

#include "weft/base/error.h"
#include "weft/sim/step/machine.h"

namespace weft::netsim {

std::int32_t StepMachine::new_instance(std::int32_t shape, std::int32_t communicator, std::int32_t group) {
  std::int32_t index = 0;
  if (free_instances_[at(shape)].empty()) {
    index = int_size(instances_);
    instances_.emplace_back();
  } else {
    index = free_instances_[at(shape)].back();
    free_instances_[at(shape)].pop_back();
  }
  Instance& out = instances_[at(index)];
  out.shape = shape, out.communicator = communicator, out.group = group;
  out.done = out.flying = 0;
  reset(&out);
  return index;
}

void StepMachine::reset(Instance* instance) {
  const Compiled& compiled = stage_.shapes[at(instance->shape)];
  const auto& ranks = stage_.graph->communicators[at(instance->communicator)].groups[at(instance->group)];
  instance->players.clear();
  instance->missing.clear();
  std::size_t cells = 0;
  for (int place = 0; place < int_size(ranks); ++place) {
    const std::int32_t rank = ranks[at(place)], seat = stage_.seat_of[at(rank)];
    if (stage_.rank_of[at(seat)] != rank) continue;  // another acts for it
    Player& player = instance->players.emplace_back();
    player.seat = seat, player.place = place;
    player.script = &compiled.script(place);
    player.first_cell = cells, player.first_burst = instance->missing.size();
    player.left = int_size(player.script->bursts);
    player.comes = compiled.comes[compiled.scripts.shared ? 0 : at(place)];
    cells += num(player.script->num_cells());
    for (const Burst& burst : player.script->bursts) instance->missing.push_back(burst.missing);
  }
  instance->cells.assign(cells, {});
}

int StepMachine::player_of(const Instance& instance, std::int32_t seat) const {
  int player = 0;
  while (instance.players[at(player)].seat != seat) ++player;
  return player;
}

std::int32_t StepMachine::instance_of(const Seat& seat, const StepNode& node) {
  const std::int32_t group = stage_.graph->communicators[at(node.communicator)].group_of[at(seat.rank)];
  const std::uint64_t key =
      num(first_group_[at(node.communicator)] + group) << 32 | static_cast<std::uint32_t>(node.tag);
  const auto [found, is_new] = instance_at_.try_emplace(key, 0);
  if (is_new) {
    found->second = new_instance(node.shape, node.communicator, group);
    instances_[at(found->second)].key = key;
  }
  return found->second;
}

void StepMachine::enter(std::int32_t s, std::int32_t n) {
  Seat& seat = seats_[at(s)];
  const std::int32_t index = instance_of(seat, node_of(seat, n));
  Instance& instance = instances_[at(index)];
  const int p = player_of(instance, s);
  Player& player = instance.players[at(p)];
  player.node = n;
  player.ordinal = seat.entered++ % 4096;
  player.entry_chain = player.step_chain = chains_[place_of(seat, n)];
  if (stage_.shapes[at(instance.shape)].computes) seat.instance = index, seat.player = p;
  for (int b = 0; b < int_size(player.script->bursts); ++b)
    if (!player.script->bursts[at(b)].is_step && instance.missing[player.first_burst + at(b)] == 0)
      ready_.push(*player.script, b);
  play(index, p);
  close_instance(index);
}

void StepMachine::raise(Instance* instance, int p, const Send& send, const Script& sender, Time chain) {
  const Player& player = instance->players[at(p)];
  const Script& script = *player.script;
  for (std::int32_t r = send.raises.begin; r < send.raises.end; ++r) {
    const Raise& raised = sender.raises[at(r)];
    for (std::int32_t c = raised.cells.begin; c < raised.cells.end; ++c) {
      Cell& cell = instance->cells[player.first_cell + at(c)];
      const std::uint32_t before = cell.value;
      cell.value += raised.add;
      cell.chain = std::max(cell.chain, chain);
      for (std::int32_t w = script.first_watch[at(c)]; w < script.first_watch[at(c + 1)]; ++w) {
        const Watch& watch = script.watches[at(w)];
        if (before >= watch.at || cell.value < watch.at) continue;
        if (--instance->missing[player.first_burst + at(watch.burst)] == 0 && player.node >= 0 &&
            !script.bursts[at(watch.burst)].is_step)
          ready_.push(script, watch.burst);
      }
    }
  }
}

Time StepMachine::chain_of(const Instance& instance, const Player& player, const Burst& burst) const {
  Time chain = player.entry_chain;
  for (std::int32_t n = burst.needs.begin; n < burst.needs.end; ++n) {
    const Part cells = player.script->needs[at(n)].cells;
    for (std::int32_t c = cells.begin; c < cells.end; ++c)
      chain = std::max(chain, instance.cells[player.first_cell + at(c)].chain);
  }
  return chain;
}

void StepMachine::play(std::int32_t index, int p) {
  Instance& instance = instances_[at(index)];
  Player& player = instance.players[at(p)];
  do {
    while (!ready_.empty()) {
      const std::int32_t burst = ready_.pop(*player.script);
      finish_burst(index, p, burst, chain_of(instance, player, player.script->bursts[at(burst)]));
    }
  } while (start_step(index, p));
  close_player(index, p);
}

bool StepMachine::start_step(std::int32_t index, int p) {
  Instance& instance = instances_[at(index)];
  Player& player = instance.players[at(p)];
  Seat& seat = seats_[at(player.seat)];
  const bool computes = stage_.shapes[at(instance.shape)].computes;
  if (computes && seat.steps && seat.instance == index) return false;
  const auto& steps = player.script->steps;
  if (at(player.next_step) == steps.size()) return false;
  const std::int32_t b = steps[at(player.next_step)];
  const Burst& burst = player.script->bursts[at(b)];
  if (instance.missing[player.first_burst + at(b)] > 0) return false;
  const Time made_in =
      seat.slower == 1 ? burst.made_in : static_cast<Time>(static_cast<double>(burst.made_in) * seat.slower);
  player.step_chain = std::max(player.step_chain, chain_of(instance, player, burst)) + made_in;
  seat.computed += made_in;
  if (made_in == 0) {
    ++player.next_step;
    finish_burst(index, p, b, player.step_chain);
    return true;
  }
  seat.steps = true;
  seat.burst = b;
  heap_.push({now_ + made_in, event_key(0, kStepSend, num(seat.seat_class)), -1, player.seat});
  return false;
}

void StepMachine::finish_burst(std::int32_t index, int p, std::int32_t b, Time chain) {
  Instance& instance = instances_[at(index)];
  Player& player = instance.players[at(p)];
  const Seat& seat = seats_[at(player.seat)];
  const Script& script = *player.script;
  const Compiled& compiled = stage_.shapes[at(instance.shape)];
  const auto& ranks = stage_.graph->communicators[at(instance.communicator)].groups[at(instance.group)];
  --player.left;
  const Part sends = script.bursts[at(b)].sends;
  for (std::int32_t i = sends.begin; i < sends.end; ++i) {
    const Send& send = script.sends[at(i)];
    const std::int32_t place = compiled.scripts.shared ? compiled.digits.add(player.place, send.to) : send.to;
    if (place == player.place) {
      raise(&instance, p, send, script, chain);
      continue;
    }
    const std::int32_t to = ranks[at(place)];
    Message message;
    message.head = message.tail = now_;
    message.chain = chain;
    message.bytes = send.bytes;
    message.key = event_key(0, std::uint64_t{player.ordinal} << 20 | num(i), num(seat.seat_class));
    message.to = static_cast<std::uint16_t>(to);
    message.from_seat = static_cast<std::uint16_t>(player.seat);
    message.to_seat = static_cast<std::uint16_t>(stage_.seat_of[at(to)]);
    message.instance = index;
    ++instance.flying;
    outbox_.send(message);
  }
  outbox_.end_burst();
}

// Computing is free for others when the last step has been made; the node is done when all else is too.
void StepMachine::close_player(std::int32_t index, int p) {
  Instance& instance = instances_[at(index)];
  Player& player = instance.players[at(p)];
  Seat& seat = seats_[at(player.seat)];
  const StepNode& node = node_of(seat, player.node);
  if (seat.instance == index && at(player.next_step) == player.script->steps.size()) {
    const Time made = seat.computed - seat.computed_before;
    uses_[at(node.name)].compute += made;
    uses_[at(node.name)].exposed += now_ - seat.node_begin - made;
    free_computing(&seat);
  }
  if (player.left > 0 || player.comes > 0 || player.is_done) return;
  player.is_done = true;
  Time chain = player.step_chain;
  for (std::size_t c = 0; c < num(player.script->num_cells()); ++c)
    chain = std::max(chain, instance.cells[player.first_cell + c].chain);
  ++instance.done;
  finish_node(player.seat, player.node, chain);
}

void StepMachine::close_instance(std::int32_t index) {
  Instance& instance = instances_[at(index)];
  if (instance.done < int_size(instance.players) || instance.flying > 0) return;
  instance_at_.erase(instance.key);
  free_instances_[at(instance.shape)].push_back(index);
}

}  // namespace weft::netsim
