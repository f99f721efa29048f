#include "weft/exec/cuda/crossings.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "weft/base/error.h"
#include "weft/base/index.h"
#include "weft/exec/cuda/device_layout.h"

namespace weft {
namespace {

bool same_copies(const CrossingCopy& a, const CrossingCopy& b) {
  return a.copy_bytes == b.copy_bytes && a.depth == b.depth && a.limit == b.limit && b.to - a.to == b.from - a.from;
}

// b lies to the right of a.
bool widens(const CrossingCopy& a, const CrossingCopy& b) {
  return same_copies(a, b) && b.to == a.to + a.width && a.height == b.height && a.pitch == b.pitch &&
         a.limit_from == b.limit_from && (a.height == 1 || a.width + b.width <= a.pitch);
}

// b lies below a.
bool deepens(const CrossingCopy& a, const CrossingCopy& b) {
  if (!same_copies(a, b) || a.width != b.width) return false;
  if (a.limit >= 0 && b.limit_from != a.limit_from + a.height) return false;
  const std::int64_t pitch = a.height > 1 ? a.pitch : b.height > 1 ? b.pitch : b.to - a.to;
  return pitch >= a.width && b.to == a.to + a.height * pitch && (b.height == 1 || b.pitch == pitch);
}

// What one rank sends: where its outboxes lie, and its crossings so far.
class Sender {
 public:
  Sender(int rank, DevicePlan* device) : rank_(rank), device_(*device), layout_(device->layout[at(rank)]) {
    next_matrix_ = int_size(layout_.matrices);
  }

  // Room for all that the rank's lanes store at peers.
  void place_outboxes() {
    for (const DevicePlace& place : device_.tables[at(rank_)].targets) {
      if (place.rank == rank_) continue;
      const DeviceLayout& there = device_.layout[at(place.rank)];
      if (place.matrix >= 0) {
        auto& rows = outbox_rows_[place.matrix];
        if (!rows.contains(place.rank)) {
          const std::int64_t above = height_[place.matrix];
          rows[place.rank] = above;
          height_[place.matrix] = above + there.matrices[at(place.matrix)].rows;
        }
        continue;
      }
      const int buffer = buffer_at(there, place.offset);
      const auto [entry, added] = shift_.insert({{place.rank, buffer}, bytes_});
      if (added) bytes_ += there.buffers[at(buffer)].copy_bytes * there.buffers[at(buffer)].depth;
    }
    add_to_layout();
  }

  // Where it stores instead, and the copy that takes it on.
  CrossingCopy turn(const DeviceLane& lane, DevicePlace* place) const {
    const DeviceLayout& there = device_.layout[at(place->rank)];
    CrossingCopy copy;
    if (place->matrix < 0) {
      const int buffer = buffer_at(there, place->offset);
      copy.to = place->offset;
      copy.from = first_ + shift_.at({place->rank, buffer}) + place->offset - there.buffers[at(buffer)].offset;
      copy.width = kImageBytes;
      copy.copy_bytes = place->copy_bytes, copy.depth = place->depth;
      place->offset = copy.from;
    } else {
      const DeviceMatrixShape& matrix = there.matrices[at(place->matrix)];
      const std::int64_t above = outbox_rows_.at(place->matrix).at(place->rank);
      const int mirror = matrix_.at(place->matrix);
      copy.pitch = matrix.cols * 2;
      copy.to = matrix.offset + (place->row * matrix.cols + place->col) * 2;
      copy.from = layout_.matrices[at(mirror)].offset + ((above + place->row) * matrix.cols + place->col) * 2;
      copy.width = std::int64_t{lane.cols} * 2, copy.height = lane.rows;
      copy.limit = lane.limit, copy.limit_from = lane.limit < 0 ? 0 : lane.limit_from;
      place->row += static_cast<std::int32_t>(above), place->matrix = mirror;
    }
    place->rank = rank_;
    return copy;
  }

 private:
  static int buffer_at(const DeviceLayout& layout, std::int64_t offset) {
    for (int b = 0; b < int_size(layout.buffers); ++b) {
      const DeviceBuffer& buffer = layout.buffers[at(b)];
      if (buffer.matrix < 0 && offset >= buffer.offset && offset < buffer.offset + buffer.copy_bytes * buffer.depth)
        return b;
    }
    fail(Code::internal, "no buffer of a rank has images at {}", offset);
  }

  void add_to_layout() {
    first_ = layout_.counters;  // images end where counters began, which go last
    std::int64_t end = first_ + bytes_;
    for (const auto& [matrix, rows] : height_) {
      if (next_matrix_ == kMaxMatrices)
        fail(Code::internal, "rank {} has more than {} matrices with its outboxes", rank_, kMaxMatrices);
      // Of equal width wherever it is: that is what a matrix of a plan is.
      const int there = outbox_rows_[matrix].begin()->first;
      const DeviceMatrixShape& like = device_.layout[at(there)].matrices[at(matrix)];
      matrix_[matrix] = next_matrix_++;
      added_.push_back({like.buffer, end, rows, like.cols});
      end += aligned_bytes(rows * like.cols * 2);
    }
    end_ = end;
  }

 public:
  // Once all ranks have placed theirs: until then layouts are as peers expect them.
  void enlarge() {
    layout_.matrices.insert(layout_.matrices.end(), added_.begin(), added_.end());
    layout_.counters = end_;
  }

 private:
  int rank_, next_matrix_;
  DevicePlan& device_;
  DeviceLayout& layout_;
  std::int64_t bytes_ = 0, first_ = 0, end_ = 0;
  std::map<std::pair<int, int>, std::int64_t> shift_;       // (peer, buffer): where its mirror begins, in bytes
  std::map<int, std::map<int, std::int64_t>> outbox_rows_;  // matrix, peer: the first row of its mirror
  std::map<int, std::int64_t> height_;                      // matrix: rows of the mirror
  std::map<int, int> matrix_;                               // matrix: which of the rank's is the mirror
  std::vector<DeviceMatrixShape> added_;
};

// Which crossings raise a counter, and how many signals go there straight.
struct Raised {
  std::vector<std::uint32_t> crossings;  // their counters on the waiting rank
  std::uint32_t straight = 0;
};

class CrossingMaker {
 public:
  CrossingMaker(const Plan& plan, DevicePlan* device, std::int64_t bytes)
      : plan_(plan), device_(*device), bytes_(bytes), raised_(device->tables.size()) {}

  void make() {
    std::vector<Sender> senders;
    for (int r = 0; r < int_size(device_.tables); ++r) senders.emplace_back(r, &device_);
    for (Sender& sender : senders) sender.place_outboxes();
    for (Sender& sender : senders) sender.enlarge();
    for (int r = 0; r < int_size(device_.tables); ++r) turn_lanes(r, senders[at(r)]);
    for (int r = 0; r < int_size(device_.tables); ++r) turn_waits(r);
    for (Crossing& crossing : device_.crossings) crossing.copies = merged(std::move(crossing.copies));
    for (DeviceLayout& layout : device_.layout) place_counters(&layout);
  }

 private:
  void turn_lanes(int rank, const Sender& sender) {
    LaneTable& table = device_.tables[at(rank)];
    std::vector<DeviceSignal> signals;
    for (std::vector<DeviceLane>* lanes : {&table.lanes, &table.triggers}) {
      open_.clear();  // a crossing is of lanes, or of triggers
      for (std::size_t i = 0; i < lanes->size(); ++i) {
        DeviceLane& lane = (*lanes)[i];
        const bool first = i == 0 || lane.parts == 1 || (*lanes)[i - 1].part != lane.part || (*lanes)[i - 1].parts == 1;
        turn_lane(rank, sender, &lane, first, &signals);
      }
    }
    table.signals = std::move(signals);
  }

  // `first`: of the parts of a lane, which signal once.
  void turn_lane(int rank, const Sender& sender, DeviceLane* lane, bool first, std::vector<DeviceSignal>* signals) {
    LaneTable& table = device_.tables[at(rank)];
    std::map<int, std::size_t> crossings;  // by peer
    for (int t = 0; t < lane->targets; ++t) {
      DevicePlace& place = table.targets[at(lane->first_target + t)];
      if (place.rank == rank) continue;
      const int peer = place.rank;
      const std::size_t crossing = crossing_of(rank, peer, *lane, first);
      if (first && !crossings.contains(peer)) ++device_.crossings[crossing].lanes;
      crossings[peer] = crossing;
      device_.crossings[crossing].copies.push_back(sender.turn(*lane, &place));
    }
    const int begin = int_size(*signals);
    for (int s = 0; s < lane->signals; ++s) {
      const DeviceSignal& signal = table.signals[at(lane->first_signal + s)];
      Raised& raised = raised_[at(signal.rank)][signal.counter];
      if (const auto found = crossings.find(signal.rank); found == crossings.end()) {
        signals->push_back(signal);
        raised.straight += first;
      } else if (const std::uint32_t arrived = device_.crossings[found->second].arrived;
                 std::find(raised.crossings.begin(), raised.crossings.end(), arrived) == raised.crossings.end()) {
        raised.crossings.push_back(arrived);
      }
    }
    for (const auto& [peer, crossing] : crossings) signals->push_back({rank, device_.crossings[crossing].counter, 0});
    lane->first_signal = begin;
    lane->signals = static_cast<std::int16_t>(int_size(*signals) - begin);
  }

  // The one that is being filled, or a new one. A lane that is cut stays in one.
  std::size_t crossing_of(int rank, int peer, const DeviceLane& lane, bool first) {
    const auto found = open_.find({lane.action, peer});
    if (found != open_.end() && (!first || device_.crossings[found->second].bytes() < bytes_)) return found->second;
    Crossing made;
    made.from = rank, made.to = peer, made.action = lane.action;
    made.counter = static_cast<std::uint32_t>(device_.layout[at(rank)].num_counters++);
    made.arrived = static_cast<std::uint32_t>(device_.layout[at(peer)].num_counters++);
    device_.crossings.push_back(made);
    open_[{lane.action, peer}] = device_.crossings.size() - 1;
    return device_.crossings.size() - 1;
  }

  void turn_waits(int rank) {
    LaneTable& table = device_.tables[at(rank)];
    std::vector<DeviceWait> waits;
    for (std::vector<DeviceLane>* lanes : {&table.lanes, &table.triggers})
      for (DeviceLane& lane : *lanes) {
        const int begin = int_size(waits);
        for (int w = 0; w < lane.waits; ++w) turn_wait(rank, table.waits[at(lane.first_wait + w)], &waits);
        lane.first_wait = begin;
        lane.waits = static_cast<std::int16_t>(int_size(waits) - begin);
      }
    table.waits = std::move(waits);
  }

  void turn_wait(int rank, const DeviceWait& wait, std::vector<DeviceWait>* out) const {
    const auto found = raised_[at(rank)].find(wait.counter);
    if (found == raised_[at(rank)].end() || found->second.crossings.empty()) return out->push_back(wait);
    if (wait.at != wait.total)
      bad_input(
          "plan \"{}\" waits for {} of {} signals that come with data; over pcie they come together: use hbm, or "
          "a paced link",
          plan_.name, wait.at, wait.total);
    for (const std::uint32_t arrived : found->second.crossings) out->push_back({arrived, 1, 1, wait.lag});
    if (const std::uint32_t straight = found->second.straight; straight > 0)
      out->push_back({wait.counter, straight, straight, wait.lag});
  }

  const Plan& plan_;
  DevicePlan& device_;
  std::int64_t bytes_;
  std::vector<std::map<std::uint32_t, Raised>> raised_;  // by rank
  std::map<std::pair<int, int>, std::size_t> open_;      // (action, peer): the crossing that is being filled
};

}  // namespace

std::int64_t Crossing::bytes() const {
  std::int64_t sum = 0;
  for (const CrossingCopy& copy : copies) sum += copy.bytes();
  return sum;
}

std::vector<CrossingCopy> merged(std::vector<CrossingCopy> copies) {
  std::sort(copies.begin(), copies.end(), [](const CrossingCopy& a, const CrossingCopy& b) { return a.to < b.to; });
  std::vector<CrossingCopy> wide, out;
  for (const CrossingCopy& copy : copies) {
    if (!wide.empty() && widens(wide.back(), copy))
      wide.back().width += copy.width;
    else
      wide.push_back(copy);
  }
  for (const CrossingCopy& copy : wide) {
    if (!out.empty() && deepens(out.back(), copy)) {
      if (out.back().height == 1) out.back().pitch = copy.to - out.back().to;
      out.back().height += copy.height;
    } else {
      out.push_back(copy);
    }
  }
  for (CrossingCopy& copy : out)
    if (copy.limit < 0) copy = trimmed(copy, {});
  return out;
}

CrossingCopy trimmed(CrossingCopy copy, std::span<const std::int32_t> counts) {
  if (copy.limit >= 0 && !counts.empty())
    copy.height = std::clamp<std::int64_t>(counts[at(copy.limit)] - copy.limit_from, 0, copy.height);
  if (copy.height == 1 || copy.pitch == copy.width) copy.width *= copy.height, copy.height = 1, copy.pitch = copy.width;
  return copy;
}

void cross_by_copies(const Plan& plan, DevicePlan* device, std::int64_t crossing_bytes) {
  CrossingMaker(plan, device, crossing_bytes).make();
}

}  // namespace weft
