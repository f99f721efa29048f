// Nodes of a step: what is ready, who computes, what comes. instances.cc has the collectives' inside.
#include "weft/sim/step/machine.h"

#include <algorithm>

#include "weft/base/error.h"

namespace weft::netsim {
namespace {

constexpr std::int32_t kBegun = -1, kDone = -2;

}  // namespace

StepMachine::StepMachine(const StepStage& stage, const Topology& topology)
    : stage_(stage),
      topology_(topology),
      wires_(topology, stage.canonical, stage.rank_of, stage.keep_slices),
      free_instances_(stage.shapes.size()),
      uses_(stage.graph->names.size()) {
  index_programs();
  seat_ranks();
}

void StepMachine::index_programs() {
  for (const StepProgram& program : stage_.graph->programs) {
    std::vector<std::int32_t> first(program.nodes.size() + 1, 0), after(program.needs.size());
    for (const StepNode& node : program.nodes)
      for (std::int32_t n = node.needs.begin; n < node.needs.end; ++n) ++first[at(program.needs[at(n)]) + 1];
    for (std::size_t i = 1; i < first.size(); ++i) first[i] += first[i - 1];
    std::vector<std::int32_t> next(first.begin(), first.end());
    for (std::int32_t i = 0; i < int_size(program.nodes); ++i) {
      const Part needs = program.nodes[at(i)].needs;
      for (std::int32_t n = needs.begin; n < needs.end; ++n) after[at(next[at(program.needs[at(n)])]++)] = i;
    }
    first_after_.push_back(std::move(first));
    after_.push_back(std::move(after));
  }
  std::int32_t groups = 0;
  for (const Communicator& one : stage_.graph->communicators) {
    first_group_.push_back(groups);
    groups += int_size(one.groups);
  }
}

void StepMachine::seat_ranks() {
  std::size_t nodes = 0;
  for (const std::int32_t rank : stage_.rank_of) {
    Seat seat;
    seat.rank = rank, seat.seat_class = stage_.class_of[at(rank)];
    seat.program = stage_.graph->program_of[at(rank)];
    if (!topology_.slower.empty()) seat.slower = topology_.slower[at(rank)];
    seat.first_node = nodes;
    const StepProgram& program = stage_.graph->programs[at(seat.program)];
    seat.left = int_size(program.nodes);
    for (const StepNode& node : program.nodes) missing_.push_back(node.needs.size());
    nodes += program.nodes.size();
    left_ += seat.left;
    seats_.push_back(std::move(seat));
  }
  chains_.assign(nodes, 0);
  begins_.assign(nodes, 0);
}

Time StepMachine::busiest() const {
  Time most = 0;
  for (const Seat& seat : seats_) most = std::max(most, seat.computed);
  return most;
}

void StepMachine::run() {
  for (std::int32_t s = 0; s < int_size(seats_); ++s)
    heap_.push({0, event_key(0, kStepSend, num(seats_[at(s)].seat_class)), -1, s});
  Message arrived;
  while (!heap_.empty()) {
    const Event event = heap_.top();
    heap_.pop();
    ++events_;
    now_ = event.at;
    wires_.begin_instant(now_, event.key >> kRoundShift);
    if (event.message < 0)
      seat_event(event.seat);
    else if (wires_.step(event.message, &heap_, &arrived))
      arrive(arrived);
    settle();
  }
  if (left_ > 0) report_stuck();
  for (Seat& seat : seats_)  // what a rank waited for after its last computing
    if (seat.last_end > seat.idle_since) uses_[at(seat.last_name)].exposed += seat.last_end - seat.idle_since;
}

void StepMachine::seat_event(std::int32_t s) {
  Seat& seat = seats_[at(s)];
  if (!seat.has_begun) {
    seat.has_begun = true;
    for (std::int32_t n = 0; n < int_size(stage_.graph->programs[at(seat.program)].nodes); ++n)
      if (missing_[place_of(seat, n)] == 0) todo_.push_back({s, {n, 0}});
    return;
  }
  if (seat.instance >= 0) {
    const std::int32_t instance = seat.instance, burst = seat.burst;
    const int player = seat.player;
    seat.steps = false;
    ++instances_[at(instance)].players[at(player)].next_step;
    finish_burst(instance, player, burst, instances_[at(instance)].players[at(player)].step_chain);
    play(instance, player);
    return;
  }
  const std::int32_t node = seat.node;
  uses_[at(node_of(seat, node).name)].compute += now_ - seat.node_begin;
  free_computing(&seat);
  finish_node(s, node, chains_[place_of(seat, node)] + (now_ - seat.node_begin));
}

void StepMachine::free_computing(Seat* seat) {
  seat->node = seat->instance = seat->player = -1;
  seat->idle_since = now_;
  if (seat->is_touched) return;
  seat->is_touched = true;
  touched_.push_back(static_cast<std::int32_t>(seat - seats_.data()));
}

void StepMachine::settle() {
  while (!todo_.empty() || !touched_.empty()) {
    for (std::size_t i = 0; i < todo_.size(); ++i) {
      const auto [seat, ready] = todo_[i];
      start(seat, ready);
    }
    todo_.clear();
    for (std::size_t i = 0; i < touched_.size(); ++i) {
      seats_[at(touched_[i])].is_touched = false;
      compute_next(touched_[i]);
    }
    touched_.clear();
  }
}

void StepMachine::start(std::int32_t s, const Waiting& ready) {
  Seat& seat = seats_[at(s)];
  const StepNode& node = node_of(seat, ready.node);
  const bool computes =
      node.kind == NodeKind::compute || (node.kind == NodeKind::collective && stage_.shapes[at(node.shape)].computes);
  if (computes) {
    seat.queue.push_back(ready);
    std::push_heap(seat.queue.begin(), seat.queue.end(),
                   [](const Waiting& a, const Waiting& b) { return a.node > b.node; });
    if (!seat.is_touched) seat.is_touched = true, touched_.push_back(s);
    return;
  }
  missing_[place_of(seat, ready.node)] = kBegun;
  begins_[place_of(seat, ready.node)] = now_;
  if (node.kind == NodeKind::send)
    send(s, ready.node);
  else if (node.kind == NodeKind::receive)
    receive(s, ready.node);
  else
    enter(s, ready.node);
}

// Takes the first node of the queue, if nothing else computes. What the rank idled before is what the node waited for.
void StepMachine::compute_next(std::int32_t s) {
  Seat& seat = seats_[at(s)];
  if (seat.node >= 0 || seat.queue.empty()) return;
  std::pop_heap(seat.queue.begin(), seat.queue.end(),
                [](const Waiting& a, const Waiting& b) { return a.node > b.node; });
  const Waiting next = seat.queue.back();
  seat.queue.pop_back();
  uses_[at(next.blame)].exposed += now_ - seat.idle_since;
  seat.node = next.node;
  seat.node_begin = now_;
  missing_[place_of(seat, next.node)] = kBegun;
  begins_[place_of(seat, next.node)] = now_;
  const StepNode& node = node_of(seat, next.node);
  if (node.kind == NodeKind::collective) {
    seat.computed_before = seat.computed;
    return enter(s, next.node);
  }
  const Time takes = seat.slower == 1 ? node.takes : static_cast<Time>(static_cast<double>(node.takes) * seat.slower);
  seat.computed += takes;
  if (takes > 0) return heap_.push({now_ + takes, event_key(0, kStepSend, num(seat.seat_class)), -1, s});
  free_computing(&seat);
  finish_node(s, next.node, chains_[place_of(seat, next.node)]);
}

void StepMachine::finish_node(std::int32_t s, std::int32_t n, Time chain) {
  Seat& seat = seats_[at(s)];
  const StepNode& node = node_of(seat, n);
  if (chain > now_) fail(Code::internal, "a node ended {} ps before the chain that leads to it", chain - now_);
  missing_[place_of(seat, n)] = kDone;
  --seat.left, --left_;
  seat.last_end = now_, seat.last_name = node.name;
  end_ = std::max(end_, now_);
  chain_ = std::max(chain_, chain);
  NameUse& use = uses_[at(node.name)];
  ++use.count;
  const Time begun = begins_[place_of(seat, n)];
  if (node.kind == NodeKind::send) use.comm += now_ - begun;
  if (stage_.keep_slices) slices_.push_back({seat.rank, n, begun, now_});
  const auto& first = first_after_[at(seat.program)];
  for (std::int32_t a = first[at(n)]; a < first[at(n) + 1]; ++a) {
    const std::int32_t next = after_[at(seat.program)][at(a)];
    chains_[place_of(seat, next)] = std::max(chains_[place_of(seat, next)], chain);
    if (--missing_[place_of(seat, next)] == 0) todo_.push_back({s, {next, node.name}});
  }
}

std::int32_t StepMachine::parcel_of(std::uint64_t key) {
  const auto [found, is_new] = parcel_at_.try_emplace(key, 0);
  if (!is_new) return found->second;
  if (free_parcels_.empty()) {
    free_parcels_.push_back(int_size(parcels_));
    parcels_.emplace_back();
  }
  found->second = free_parcels_.back();
  free_parcels_.pop_back();
  parcels_[at(found->second)] = {};
  parcels_[at(found->second)].key = key;
  return found->second;
}

namespace {

// Tags tell apart what one rank sends to another, in whatever group.
std::uint64_t parcel_key(std::int32_t from, std::int32_t to, std::int32_t tag) {
  return num(from) << 48 | num(to) << 32 | static_cast<std::uint32_t>(tag);
}

}  // namespace

void StepMachine::send(std::int32_t s, std::int32_t n) {
  Seat& seat = seats_[at(s)];
  const StepNode& node = node_of(seat, n);
  const Communicator& where = stage_.graph->communicators[at(node.communicator)];
  const std::int32_t to = where.groups[at(where.group_of[at(seat.rank)])][at(node.peer)];
  const std::int32_t to_seat = stage_.seat_of[at(to)];
  const std::int32_t p = parcel_of(parcel_key(s, to_seat, node.tag));
  parcels_[at(p)].from_seat = s, parcels_[at(p)].from_node = n;
  Message message;
  message.head = message.tail = now_;
  message.chain = chains_[place_of(seat, n)];
  message.bytes = node.bytes;
  message.key = event_key(0, (seat.entered++ % 4096) << 20, num(seat.seat_class));
  message.to = static_cast<std::uint16_t>(to);
  message.from_seat = static_cast<std::uint16_t>(s), message.to_seat = static_cast<std::uint16_t>(to_seat);
  message.instance = -1 - p;
  outbox_.send_data(message);
}

void StepMachine::receive(std::int32_t s, std::int32_t n) {
  const Seat& seat = seats_[at(s)];
  const StepNode& node = node_of(seat, n);
  const Communicator& where = stage_.graph->communicators[at(node.communicator)];
  const std::int32_t from = where.groups[at(where.group_of[at(seat.rank)])][at(node.peer)];
  const std::int32_t p = parcel_of(parcel_key(stage_.seat_of[at(from)], s, node.tag));
  parcels_[at(p)].to_seat = s, parcels_[at(p)].to_node = n;
  close_parcel(p);
}

void StepMachine::close_parcel(std::int32_t p) {
  const Parcel parcel = parcels_[at(p)];
  if (!parcel.has_come || parcel.to_node < 0) return;
  parcel_at_.erase(parcel.key);
  free_parcels_.push_back(p);
  finish_node(parcel.to_seat, parcel.to_node,
              std::max(parcel.chain, chains_[place_of(seats_[at(parcel.to_seat)], parcel.to_node)]));
}

void StepMachine::arrive(const Message& message) {
  if (message.chain > now_)
    fail(Code::internal, "a message came {} ps before the chain that leads to it", message.chain - now_);
  if (message.instance < 0) {
    Parcel& parcel = parcels_[at(-1 - message.instance)];
    parcel.has_come = true;
    parcel.chain = message.chain;
    finish_node(parcel.from_seat, parcel.from_node, message.chain);
    return close_parcel(-1 - message.instance);
  }
  Instance& instance = instances_[at(message.instance)];
  --instance.flying;
  const int from = player_of(instance, message.from_seat), to = player_of(instance, message.to_seat);
  const Script& sender = *instance.players[at(from)].script;
  if (message.bytes > 0) --instance.players[at(to)].comes;
  raise(&instance, to, sender.sends[num(message.send() & 0xfffff)], sender, message.chain);
  // A rank that is there before its node waits with what has come.
  if (instance.players[at(to)].node >= 0) play(message.instance, to);
  close_instance(message.instance);
}

}  // namespace weft::netsim
