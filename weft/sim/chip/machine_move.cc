// What is not arithmetic: counters and gates, the tracker and its DMA engines, the kernel of a collective, the link.
#include <algorithm>
#include <cmath>

#include "weft/sim/chip/machine.h"

namespace weft::sim {

void Machine::raise(int d, std::int32_t counter) {
  Device& device = at(d);
  const std::uint32_t value = ++device.counters[static_cast<std::size_t>(counter)];
  const std::int32_t begin = device.work.first_watch[static_cast<std::size_t>(counter)];
  const std::int32_t end = device.work.first_watch[static_cast<std::size_t>(counter) + 1];
  for (std::int32_t w = begin; w < end; ++w) {
    const Watch& watch = device.work.watches[static_cast<std::size_t>(w)];
    if (tracks() && options_.waits == Waits::tile && action(d, watch.gate).kind == ActionKind::step &&
        action(d, watch.gate).sources > 0 && device.tracker.update(watch.gate))
      spill(d);
    if (watch.at == value && --device.pending[static_cast<std::size_t>(watch.gate)] == 0) gate_opened(d, watch.gate);
  }
}

void Machine::raise_all(int d, Part signals, std::int32_t lane_index) {
  for (std::int32_t i = signals.begin; i < signals.end; ++i) {
    const WorkSignal& signal = work_.signals[static_cast<std::size_t>(i)];
    raise(d, signal.counter + (signal.per > 0 ? lane_index / signal.per : 0));
  }
}

void Machine::gate_opened(int d, std::int32_t gate) {
  if (options_.waits == Waits::tile) return lane_opened(d, gate);
  const Part lanes = at(d).work.actions[static_cast<std::size_t>(gate)].lanes;
  for (std::int32_t l = lanes.begin; l < lanes.end; ++l) lane_opened(d, l);
}

void Machine::lane_opened(int d, std::int32_t l) {
  if (action(d, l).kind == ActionKind::trigger) return fire(d, l);
  if (tracks() && (action(d, l).sources > 0 || is_copy_)) return maybe_complete(d, l);
  if (is_copy_) return pump_kernel(d);
  const std::int32_t s = at(d).parked[static_cast<std::size_t>(l)];
  if (s < 0) return;
  at(d).parked[static_cast<std::size_t>(l)] = -1;
  if (at(d).slots[static_cast<std::size_t>(s)].state == Slot::State::starts)
    begin_lane(d, s);
  else
    end_lane(d, s);
}

// A trigger without data only signals, and signals alone take no time: they were raised in a run before or are small.
void Machine::fire(int d, std::int32_t l) {
  const WorkAction& fired = action(d, l);
  if (fired.sources > 0) {
    if (tracks()) {
      at(d).dma_queue.push_back(l);
      pump_dma(d);
    } else {
      at(d).kernel_queue.push_back(l);
      pump_kernel(d);
    }
    return;
  }
  for (std::int32_t t = fired.targets.begin; t < fired.targets.end; ++t) {
    const WorkTarget& target = work_.targets[static_cast<std::size_t>(t)];
    raise_all(target.device, target.signals, lane(d, l).index);
  }
  raise_all(d, fired.own_signals, lane(d, l).index);
}

// This device's own contribution to the tile is in memory.
void Machine::own_stored(int d, std::int32_t l) {
  const WorkAction& made = action(d, l);
  at(d).stored[static_cast<std::size_t>(l)] = 1;
  if (tracks() && made.sources > 0 && !is_copy_ && at(d).tracker.update(l)) spill(d);
  if (is_copy_) --at(d).steps_left;
  if (tracks() && (made.sources > 0 || is_copy_)) return maybe_complete(d, l);
  raise_all(d, made.own_signals, lane(d, l).index);
}

void Machine::maybe_complete(int d, std::int32_t l) {
  if (!at(d).stored[static_cast<std::size_t>(l)] || !is_open(d, l)) return;
  at(d).tracker.release(l);
  const Part targets = action(d, l).targets;
  for (std::int32_t t = targets.begin; t < targets.end; ++t)
    if (work_.targets[static_cast<std::size_t>(t)].remote) {
      at(d).dma_queue.push_back(l);
      return pump_dma(d);
    }
  raise_all(d, action(d, l).own_signals, lane(d, l).index);
}

void Machine::spill(int d) {
  const std::int64_t bytes = 2 * chip_.spill_bytes * chip_.wavefronts;
  if (bytes > 0) at(d).memory.submit({bytes, Stream::communication, Access::write, Cause::tracker, nothing});
}

// The tile that a collective's kernel moves next: triggers as they fire, then steps in listed order. Sends wait for
// room before the link; what stays here does not.
std::int32_t Machine::next_for_kernel(int d, bool has_room) {
  Device& device = at(d);
  if (has_room && !device.kernel_queue.empty()) {
    const std::int32_t l = device.kernel_queue.front();
    device.kernel_queue.pop_front();
    return l;
  }
  if (has_room && device.next_send < device.sends.size() && is_open(d, device.sends[device.next_send]))
    return device.sends[device.next_send++];
  if (device.next_stay < device.stays.size() && is_open(d, device.stays[device.next_stay]))
    return device.stays[device.next_stay++];
  return -1;
}

void Machine::pump_kernel(int d) {
  Device& device = at(d);
  if (device.kernel_turn_due) return;
  const Time room_at = link_has_room(d);
  Time turn = device.kernel_free;
  if (turn <= engine_.now()) {
    const std::int32_t l = next_for_kernel(d, room_at <= engine_.now());
    if (l >= 0) {
      const WorkAction& moved = action(d, l);
      const std::int64_t reads = bytes_of(d, l) * (moved.sources + (moved.kind == ActionKind::step ? 1 : 0));
      const double all = static_cast<double>(reads + bytes_of(d, l));
      turn = device.kernel_free = engine_.now() + picoseconds(all / chip_.kernel_bytes_per_s);
      device.memory.submit({reads, Stream::communication, Access::read, Cause::collective_read, kernel_read, l});
    } else if (room_at > engine_.now()) {
      turn = room_at;
    } else {
      return;
    }
  }
  device.kernel_turn_due = true;
  engine_.schedule(turn, kernel_turn, d);
}

// A copy that stays where it is needs no move: the output of one collective is the input of the next.
void Machine::kernel_moved(int d, std::int32_t l) {
  const WorkAction& moved = action(d, l);
  const bool is_step = moved.kind == ActionKind::step;
  for (std::int32_t t = moved.targets.begin; t < moved.targets.end; ++t) {
    if (work_.targets[static_cast<std::size_t>(t)].remote)
      send(d, t, l, engine_.now() + dram_latency_);
    else if (moved.sources > 0)
      at(d).memory.submit({bytes_of(d, l), Stream::communication, Access::write, Cause::collective_write, nothing});
  }
  if (is_step) --at(d).steps_left;
  raise_all(d, moved.own_signals, lane(d, l).index);
}

void Machine::pump_dma(int d) {
  Device& device = at(d);
  while (!device.dma_queue.empty()) {
    const std::int32_t l = device.dma_queue.front();
    const std::int64_t bytes = bytes_of(d, l);
    if (device.dma_bytes > 0 && device.dma_bytes + bytes > chip_.dma_bytes) return;
    device.dma_queue.pop_front();
    device.dma_bytes += bytes;
    device.memory.submit({bytes, Stream::communication, Access::read, Cause::collective_read, dma_read, l});
  }
}

// The engines' room for a tile is free again when it has left.
void Machine::dma_moved(int d, std::int32_t l) {
  const WorkAction& moved = action(d, l);
  for (std::int32_t t = moved.targets.begin; t < moved.targets.end; ++t)
    if (work_.targets[static_cast<std::size_t>(t)].remote) send(d, t, l, engine_.now() + dram_latency_);
  raise_all(d, moved.own_signals, lane(d, l).index);
  engine_.schedule(std::max(engine_.now(), at(d).link_free), dma_free, d, l);
}

void Machine::send(int d, std::int32_t t, std::int32_t l, Time from) {
  Device& device = at(d);
  const std::int64_t bytes = bytes_of(d, l);
  const Time begin = std::max(from, device.link_free);
  device.link_free = begin + picoseconds(static_cast<double>(bytes) / chip_.link_bytes_per_s);
  device.link_bytes += bytes;
  if (options_.slices) result_.slices.push_back({Slice::Row::link, d, 0, l, begin, device.link_free});
  engine_.schedule(device.link_free + link_latency_, arrives, work_.targets[static_cast<std::size_t>(t)].device, t, l);
}

void Machine::arrive(int d, std::int32_t t, std::int32_t l) {
  const WorkTarget& target = work_.targets[static_cast<std::size_t>(t)];
  const Access access = tracks() && sums_ ? Access::update : Access::write;
  at(d).memory.submit(
      {bytes_of(target.from, l), Stream::communication, access, Cause::collective_write, arrived, t, l});
}

// When what is on its way to the link fits the buffer before it.
Time Machine::link_has_room(int d) {
  const Time buffered = picoseconds(static_cast<double>(chip_.egress_bytes) / chip_.link_bytes_per_s);
  return std::max(engine_.now(), at(d).link_free - buffered);
}

}  // namespace weft::sim
