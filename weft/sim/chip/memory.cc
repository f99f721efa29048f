#include "weft/sim/chip/memory.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace weft::sim {
namespace {

constexpr int kNoThreshold = std::numeric_limits<int>::max();

Stream other(Stream s) { return s == Stream::compute ? Stream::communication : Stream::compute; }

}  // namespace

Memory::Memory(const Chip& chip, Policy policy, Engine* engine, int device, int served_kind)
    : chip_(chip),
      policy_(policy),
      engine_(engine),
      device_(device),
      served_kind_(served_kind),
      threshold_(chip.mca_steps.empty() ? kNoThreshold : chip.mca_steps.front().entries),
      ps_per_byte_(1e12 / chip.dram_bytes_per_s),
      turnaround_(picoseconds(chip.turnaround_s)),
      switch_(picoseconds(chip.stream_switch_s)),
      starvation_(picoseconds(chip.starvation_s)) {}

void Memory::submit(Request request) {
  request.arrived = engine_->now();
  request.order = ++arrivals_;
  bytes_[static_cast<std::size_t>(request.cause)] += request.bytes;
  waiting(request.stream).push_back(request);
  admit();
  if (!serving_) serve();
}

std::optional<Stream> Memory::chosen() {
  const bool compute = !waiting(Stream::compute).empty(), comm = !waiting(Stream::communication).empty();
  if (!compute && !comm) return {};
  if (policy_ == Policy::round_robin) {
    const bool used_up = granted_ >= chip_.grant_bytes && !waiting(other(turn_)).empty();
    if (waiting(turn_).empty() || used_up) turn_ = other(turn_), granted_ = 0;
    return turn_;
  }
  if (policy_ == Policy::fifo) {
    if (!compute || !comm) return compute ? Stream::compute : Stream::communication;
    const bool first = waiting(Stream::compute).front().order < waiting(Stream::communication).front().order;
    return first ? Stream::compute : Stream::communication;
  }
  if (comm && engine_->now() - waiting(Stream::communication).front().arrived >= starvation_)
    return Stream::communication;
  if (compute) return Stream::compute;
  if (queued_bytes_ / chip_.dram_entry_bytes < threshold_) return Stream::communication;
  return {};
}

void Memory::admit() {
  const std::int64_t room = chip_.dram_entry_bytes * chip_.dram_entries;
  while (const std::optional<Stream> stream = chosen()) {
    Request& head = waiting(*stream).front();
    const std::int64_t bytes = std::min(head.bytes, chip_.burst_bytes);
    if (!queue_.empty() && queued_bytes_ + bytes > room) return;
    const bool contended = policy_ == Policy::round_robin && !waiting(other(*stream)).empty();
    const double cuts = contended ? static_cast<double>(bytes) / static_cast<double>(chip_.grant_bytes) : 1;
    queue_.push_back({head, bytes, bytes == head.bytes, std::max(1.0, cuts)});
    queued_bytes_ += bytes;
    granted_ += bytes;
    head.bytes -= bytes;
    if (head.bytes == 0) waiting(*stream).pop_front();
  }
}

// Where a burst goes in several grants, the other stream's come between them: each pays the switch, and the turnaround
// where the two differ in direction, which is taken from what was served last.
Time Memory::cost(const Burst& burst) {
  const bool reads = burst.of.access == Access::read;
  const bool turns = reads != last_reads_, switches = burst.of.stream != last_stream_;
  const double factor = burst.of.access == Access::update ? chip_.update_factor : 1;
  const Time moved = std::llround(static_cast<double>(burst.bytes) * factor * ps_per_byte_);
  const Time change = (turns ? turnaround_ : 0) + (switches ? switch_ : 0);
  const Time lost = std::llround(static_cast<double>(change) * (switches ? burst.cuts : 1));
  lost_ += lost;
  return moved + lost;
}

void Memory::serve() {
  if (queue_.empty()) return;
  const Burst& burst = queue_.front();
  const Time time = cost(burst);
  last_stream_ = burst.of.stream;
  last_reads_ = burst.of.access == Access::read;
  busy_ += time;
  if (burst.of.stream == Stream::compute) compute_busy_ += time;
  begun_ = engine_->now();
  serving_ = true;
  engine_->schedule(engine_->now() + time, served_kind_, device_);
}

std::optional<Request> Memory::served() {
  const Burst done = queue_.front();
  queue_.pop_front();
  queued_bytes_ -= done.bytes;
  serving_ = false;
  finished_ = {begun_, done.of, done.bytes};
  admit();
  serve();
  return done.ends ? std::optional(done.of) : std::nullopt;
}

void Memory::probe() {
  const double intensity =
      engine_->now() > 0 ? static_cast<double>(compute_busy_) / static_cast<double>(engine_->now()) : 0;
  threshold_ = kNoThreshold;
  for (const McaStep& step : chip_.mca_steps)
    if (intensity >= step.intensity) {
      threshold_ = step.entries;
      return;
    }
}

}  // namespace weft::sim
