// The compute units: each has one workgroup, which makes one tile after another. Operands come slice by slice of K
// through the cache, the next slice while this one is multiplied; the tile is stored at the end.
#include <algorithm>

#include "weft/sim/chip/machine.h"

namespace weft::sim {

void Machine::claim(int d, std::int32_t s) {
  Device& device = at(d);
  Slot& slot = device.slots[static_cast<std::size_t>(s)];
  if (device.next_step == device.work.steps.size()) {
    slot.state = Slot::State::idle;
    return;
  }
  slot.lane = device.work.steps[device.next_step++];
  slot.slice = -1;
  slot.state = Slot::State::starts;
  // Waits that bring operands hold the start; those that bring sources hold the store, or nothing with a tracker.
  if (action(d, slot.lane).sources == 0 && !is_open(d, slot.lane))
    device.parked[static_cast<std::size_t>(slot.lane)] = s;
  else
    begin_lane(d, s);
}

void Machine::begin_lane(int d, std::int32_t s) {
  Slot& slot = at(d).slots[static_cast<std::size_t>(s)];
  slot.state = Slot::State::loops;
  slot.begun = engine_.now();
  slot.asked = 0;
  ask_ahead(d, s);
  try_slice(d, s);
}

// As many slices as buffers hold: the one to be multiplied next and those behind it.
void Machine::ask_ahead(int d, std::int32_t s) {
  Slot& slot = at(d).slots[static_cast<std::size_t>(s)];
  while (slot.asked < num_slices_ && slot.asked <= slot.slice + chip_.prefetch_slices) load(d, s, slot.asked++);
}

void Machine::load(int d, std::int32_t s, std::int32_t slice) {
  Slot& slot = at(d).slots[static_cast<std::size_t>(s)];
  const WorkLane& made = lane(d, slot.lane);
  const auto rows = static_cast<std::int32_t>(at(d).work.row_size.size());
  slot.ahead[static_cast<std::size_t>(slice % kMaxAhead)] = {0, engine_.now() + llc_latency_};
  want_block(d, s, slice, made.row_panel * num_slices_ + slice);
  want_block(d, s, slice, (rows + made.col_panel) * num_slices_ + slice);
}

std::int64_t Machine::block_bytes(int d, std::int32_t block) {
  const DeviceWork& work = at(d).work;
  const std::int32_t panel = block / num_slices_, slice = block % num_slices_;
  const auto rows = static_cast<std::int32_t>(work.row_size.size());
  const std::int32_t width = panel < rows ? work.row_size[static_cast<std::size_t>(panel)]
                                          : work.col_size[static_cast<std::size_t>(panel - rows)];
  return width * (slice + 1 == num_slices_ ? last_k_ : chip_.tile_k) * options_.element_bytes;
}

// Misses of several workgroups on one block are one read.
void Machine::want_block(int d, std::int32_t s, std::int32_t slice, std::int32_t block) {
  Device& device = at(d);
  if (device.cache.uses(block)) return;
  std::int32_t& first = device.first_waiter[static_cast<std::size_t>(block)];
  const bool is_coming = first >= -1;
  std::int32_t node;
  if (device.free_waiters.empty()) {
    node = static_cast<std::int32_t>(device.waiters.size());
    device.waiters.emplace_back();
  } else {
    node = device.free_waiters.back();
    device.free_waiters.pop_back();
  }
  device.waiters[static_cast<std::size_t>(node)] = {s, slice, std::max(first, -1)};
  first = node;
  ++device.slots[static_cast<std::size_t>(s)].ahead[static_cast<std::size_t>(slice % kMaxAhead)].missing;
  if (!is_coming)
    device.memory.submit({block_bytes(d, block), Stream::compute, Access::read, Cause::producer_read, panel, block});
}

void Machine::block_came(int d, std::int32_t block) {
  Device& device = at(d);
  const std::int64_t written = device.cache.insert(block, block_bytes(d, block), false);
  if (written > 0) device.memory.submit({written, Stream::compute, Access::write, Cause::producer_write, nothing});
  std::int32_t node = device.first_waiter[static_cast<std::size_t>(block)];
  device.first_waiter[static_cast<std::size_t>(block)] = -2;
  while (node >= 0) {
    const Device::Waiter waiter = device.waiters[static_cast<std::size_t>(node)];
    device.free_waiters.push_back(node);
    Slot& slot = device.slots[static_cast<std::size_t>(waiter.slot)];
    Slot::Ahead& ahead = slot.ahead[static_cast<std::size_t>(waiter.slice % kMaxAhead)];
    --ahead.missing;
    ahead.ready = std::max(ahead.ready, engine_.now() + dram_latency_);
    try_slice(d, waiter.slot);
    node = waiter.next;
  }
}

void Machine::try_slice(int d, std::int32_t s) {
  Slot& slot = at(d).slots[static_cast<std::size_t>(s)];
  if (slot.state != Slot::State::loops || slot.computing || slot.waking || slot.slice + 1 == slot.asked) return;
  const Slot::Ahead& next = slot.ahead[static_cast<std::size_t>((slot.slice + 1) % kMaxAhead)];
  if (next.missing > 0) return;
  if (next.ready > engine_.now()) {
    slot.waking = true;
    engine_.schedule(next.ready, slot_wakes, d, s);
    return;
  }
  ++slot.slice;
  slot.computing = true;
  const bool last = slot.slice + 1 == num_slices_;
  engine_.schedule(engine_.now() + (last ? last_slice_ : full_slice_), slice_done, d, s);
  if (!last) ask_ahead(d, s);
}

void Machine::end_slice(int d, std::int32_t s) {
  Slot& slot = at(d).slots[static_cast<std::size_t>(s)];
  slot.computing = false;
  if (slot.slice + 1 < num_slices_) return try_slice(d, s);
  slot.state = Slot::State::ends;
  if (!at(d).probed) {
    at(d).probed = true;
    at(d).memory.probe();
  }
  end_lane(d, s);
}

// The tile is made. With CUs that add, its sources are read first.
void Machine::end_lane(int d, std::int32_t s) {
  const std::int32_t l = at(d).slots[static_cast<std::size_t>(s)].lane;
  if (tracks() || action(d, l).sources == 0) return store_lane(d, s);
  if (!is_open(d, l)) {
    at(d).parked[static_cast<std::size_t>(l)] = s;
    return;
  }
  at(d).memory.submit(
      {bytes_of(d, l) * action(d, l).sources, Stream::compute, Access::read, Cause::collective_read, sources_read, s});
}

void Machine::store_lane(int d, std::int32_t s) {
  Device& device = at(d);
  const std::int32_t l = device.slots[static_cast<std::size_t>(s)].lane;
  const WorkAction& made = action(d, l);
  const bool adds = tracks() && made.sources > 0;
  bool is_here = adds;
  Time free_at = engine_.now();
  for (std::int32_t t = made.targets.begin; t < made.targets.end; ++t) {
    if (!work_.targets[static_cast<std::size_t>(t)].remote) is_here = true;
    if (!work_.targets[static_cast<std::size_t>(t)].remote || adds) continue;
    send(d, t, l, engine_.now());
    free_at = std::max(free_at, link_has_room(d));
  }
  if (is_here && options_.output == Output::cached) {
    const auto block = static_cast<std::int32_t>((device.work.row_size.size() + device.work.col_size.size()) *
                                                     static_cast<std::size_t>(num_slices_) +
                                                 static_cast<std::size_t>(l));
    const std::int64_t written = device.cache.insert(block, bytes_of(d, l), true);
    if (written > 0) device.memory.submit({written, Stream::compute, Access::write, Cause::producer_write, nothing});
    own_stored(d, l);
  } else if (is_here) {
    device.memory.submit({bytes_of(d, l), Stream::compute, adds ? Access::update : Access::write, Cause::producer_write,
                          tile_stored, l});
  } else {
    raise_all(d, made.own_signals, lane(d, l).index);
  }
  free_slot(d, s, free_at);
}

void Machine::free_slot(int d, std::int32_t s, Time when) {
  Slot& slot = at(d).slots[static_cast<std::size_t>(s)];
  if (options_.slices) result_.slices.push_back({Slice::Row::cu, d, s, slot.lane, slot.begun, when});
  result_.producer_end = std::max(result_.producer_end, when);
  slot.state = Slot::State::idle;
  step_ended(d);
  if (when > engine_.now())
    engine_.schedule(when, slot_free, d, s);
  else
    claim(d, s);
}

// The end of a kernel writes back what it changed in the cache.
void Machine::step_ended(int d) {
  if (--at(d).steps_left > 0) return;
  const std::int64_t written = at(d).cache.flush();
  if (written > 0) at(d).memory.submit({written, Stream::compute, Access::write, Cause::producer_write, nothing});
}

}  // namespace weft::sim
