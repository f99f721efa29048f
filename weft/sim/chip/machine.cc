#include "weft/sim/chip/machine.h"

#include <algorithm>
#include <cmath>

#include "weft/base/error.h"

namespace weft::sim {
namespace {

constexpr std::int64_t kMinColumns = 16;  // a matrix unit makes no fewer

std::int32_t blocks_of(const DeviceWork& work, std::int32_t slices) {
  return static_cast<std::int32_t>((work.row_size.size() + work.col_size.size()) * static_cast<std::size_t>(slices) +
                                   work.lanes.size());
}

std::int32_t slices_of(const Producer& producer, const Chip& chip) {
  return producer.kind == ProducerKind::copy
             ? 1
             : static_cast<std::int32_t>(std::max<std::int64_t>(1, ceil_div(producer.k, chip.tile_k)));
}

}  // namespace

Machine::Device::Device(const DeviceWork& w, const Chip& chip, const RunOptions& options, const Producer& producer,
                        Engine* engine, int number)
    : work(w),
      memory(chip, options.policy, engine, number, memory_served),
      cache(chip.llc_bytes, chip.llc_ways, blocks_of(w, slices_of(producer, chip))),
      tracker(chip, w.lanes.size()),
      slots(static_cast<std::size_t>(std::max(1.0, std::floor(chip.cus * options.cu_share)))),
      parked(w.lanes.size(), -1),
      first_waiter(static_cast<std::size_t>(blocks_of(w, slices_of(producer, chip))), -2),
      counters(w.first_watch.size(), 0),
      pending(w.waits_of_gate),
      stored(w.lanes.size(), 0),
      steps_left(static_cast<std::int64_t>(w.steps.size())) {}

Machine::Machine(const Work& work, const Chip& chip, const RunOptions& options)
    : work_(work),
      chip_(chip),
      options_(options),
      is_copy_(work.producer.kind == ProducerKind::copy),
      num_slices_(slices_of(work.producer, chip)),
      llc_latency_(picoseconds(chip.llc_latency_s)),
      dram_latency_(picoseconds(chip.dram_latency_s)),
      link_latency_(picoseconds(chip.link_latency_s)) {
  const Producer& p = work.producer;
  const double columns = static_cast<double>(ceil_div(p.tile[1], kMinColumns) * kMinColumns);
  const double cu_rate = chip.flops_per_s() / chip.cus;
  const auto slice = [&](std::int64_t k) {
    return picoseconds(2.0 * static_cast<double>(p.tile[0]) * columns * static_cast<double>(k) / cu_rate);
  };
  last_k_ = p.k - (num_slices_ - 1) * chip.tile_k;
  full_slice_ = slice(chip.tile_k);
  last_slice_ = slice(last_k_);
  devices_.reserve(work.devices.size());
  for (std::size_t d = 0; d < work.devices.size(); ++d) {
    devices_.emplace_back(work.devices[d], chip, options, p, &engine_, static_cast<int>(d));
    for (const WorkAction& action : work.devices[d].actions)
      sums_ = sums_ || (action.kind == ActionKind::step && action.sources > 0);
  }
}

RunResult Machine::run() {
  for (std::size_t d = 0; d < devices_.size(); ++d) start(static_cast<int>(d));
  Event event;
  while (engine_.next(&event)) react(event);
  const Device& device = devices_.front();
  for (std::size_t d = 0; d < devices_.size(); ++d)
    if (devices_[d].steps_left != 0)
      fail(Code::internal, "the simulation stopped with {} tiles of device {} unmade; please report the plan",
           devices_[d].steps_left, d);
  result_.end = engine_.now();
  for (int c = 0; c < kCauses; ++c)
    result_.bytes[static_cast<std::size_t>(c)] = device.memory.bytes(static_cast<Cause>(c));
  result_.link_bytes = device.link_bytes;
  result_.lanes = static_cast<std::int64_t>(device.work.lanes.size());
  result_.spills = device.tracker.spills();
  result_.tracker_peak = device.tracker.peak_entries();
  result_.memory_busy = device.memory.busy();
  result_.memory_lost = device.memory.lost();
  result_.mca_entries = device.memory.threshold();
  result_.events = engine_.events();
  return std::move(result_);
}

void Machine::start(int d) {
  Device& device = at(d);
  for (std::size_t l = 0; l < device.work.lanes.size(); ++l) {
    const auto number = static_cast<std::int32_t>(l);
    if (action(d, number).kind == ActionKind::trigger && is_open(d, number)) fire(d, number);
  }
  if (!is_copy_) {
    for (std::size_t s = 0; s < device.slots.size(); ++s) claim(d, static_cast<std::int32_t>(s));
  } else if (tracks()) {
    for (const std::int32_t l : device.work.steps) own_stored(d, l);
  } else {
    for (const std::int32_t l : device.work.steps) {
      const Part targets = action(d, l).targets;
      const bool sends = std::any_of(work_.targets.begin() + targets.begin, work_.targets.begin() + targets.end,
                                     [](const WorkTarget& target) { return target.remote; });
      (sends ? device.sends : device.stays).push_back(l);
    }
    pump_kernel(d);
  }
}

void Machine::react(const Event& event) {
  const int d = event.device;
  switch (static_cast<EventKind>(event.kind)) {
    case memory_served: {
      const std::optional<Request> done = at(d).memory.served();
      record(d);
      if (done) complete(d, *done);
      return;
    }
    case slice_done:
      return end_slice(d, event.a);
    case slot_wakes:
      at(d).slots[static_cast<std::size_t>(event.a)].waking = false;
      return try_slice(d, event.a);
    case slot_free:
      return claim(d, event.a);
    case kernel_turn:
      at(d).kernel_turn_due = false;
      return pump_kernel(d);
    case dma_free:
      at(d).dma_bytes -= bytes_of(d, event.a);
      return pump_dma(d);
    case arrives:
      return arrive(d, event.a, event.b);
  }
}

void Machine::complete(int d, const Request& request) {
  switch (static_cast<RequestKind>(request.kind)) {
    case nothing:
      return;
    case panel:
      return block_came(d, request.a);
    case tile_stored:
      return own_stored(d, request.a);
    case sources_read:
      return store_lane(d, request.a);
    case kernel_read:
      return kernel_moved(d, request.a);
    case dma_read:
      return dma_moved(d, request.a);
    case arrived: {
      const WorkTarget& target = work_.targets[static_cast<std::size_t>(request.a)];
      return raise_all(d, target.signals, lane(target.from, request.b).index);
    }
  }
}

void Machine::record(int d) {
  if (d != 0) return;
  const Memory::Serving& burst = at(d).memory.finished();
  if (options_.bin_s > 0) {
    const auto bin = static_cast<std::size_t>(burst.begin / picoseconds(options_.bin_s));
    if (result_.bins.size() <= bin) result_.bins.resize(bin + 1);
    result_.bins[bin][static_cast<std::size_t>(burst.of.cause)] += burst.bytes;
  }
  if (!options_.slices) return;
  const auto cause = static_cast<std::int32_t>(burst.of.cause);
  const auto bytes = static_cast<std::int32_t>(burst.bytes);
  if (!result_.slices.empty()) {  // bursts of one kind that touch are one slice
    Slice& last = result_.slices.back();
    if (last.row == Slice::Row::memory && last.number == cause && last.end == burst.begin) {
      last.end = engine_.now();
      last.lane += bytes;
      return;
    }
  }
  result_.slices.push_back({Slice::Row::memory, d, cause, bytes, burst.begin, engine_.now()});
}

RunResult simulate(const Plan& plan, const Chip& chip, const RunOptions& options) {
  const Work work = read_work(plan, {options.devices, options.waits, chip.raster_cols, options.keep});
  return Machine(work, chip, options).run();
}

}  // namespace weft::sim
