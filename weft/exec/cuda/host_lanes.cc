#include "weft/exec/cuda/host_lanes.h"

#include <algorithm>
#include <cstring>

#include "weft/base/error.h"
#include "weft/base/index.h"
#include "weft/kernel/reference.h"

namespace weft {

HostLanes::HostLanes(const Plan& plan, const DevicePlan& device, int clusters_per_rank)
    : plan_(plan), device_(device), clusters_(num(clusters_per_rank)) {
  for (std::size_t r = 0; r < device.tables.size(); ++r) {
    const DeviceLayout& layout = device.layout[r];
    Rank rank;
    rank.counters.resize(num(layout.num_counters));
    ranks_.push_back(std::move(rank));
  }
}

std::string HostLanes::run(std::span<const HostOperands> operands, std::span<const Counts> counts) {
  operands_ = operands;
  counts_.clear();
  for (const Counts& one : counts) counts_.push_back(device_counts(one, int_size(ranks_)));
  crossed_.clear();
  has_crossed_.assign(device_.crossings.size(), 0);
  for (std::size_t r = 0; r < ranks_.size(); ++r) {
    Rank& rank = ranks_[r];
    if (!operands.empty() && rank.matrices.empty()) {
      const DeviceLayout& layout = device_.layout[r];
      rank.images.resize(num(layout.counters / 2));
      for (const DeviceMatrixShape& matrix : layout.matrices)
        rank.matrices.emplace_back(matrix.buffer < 0 ? 0 : num(matrix.rows * matrix.cols));
    }
    rank.ended.assign(num(device_.tables[r].parted), 0);
    rank.next.assign(clusters_, 0);
    rank.done.assign(device_.tables[r].lanes.size() + device_.tables[r].triggers.size(), 0);
  }
  for (bool moved = true; moved;) {
    moved = false;
    for (int r = 0; r < int_size(ranks_); ++r)
      for (std::size_t c = 0; c < clusters_; ++c) moved = advance(r, static_cast<int>(c)) || moved;
    moved = cross() || moved;
  }
  ++runs_;
  for (std::size_t r = 0; r < ranks_.size(); ++r)
    for (std::size_t i = 0; i < ranks_[r].done.size(); ++i)
      if (!ranks_[r].done[i]) {
        const LaneTable& t = device_.tables[r];
        const DeviceLane& lane = i < t.lanes.size() ? t.lanes[i] : t.triggers[i - t.lanes.size()];
        return fmt::format("rank {} is stuck at lane {} of action {} with {} clusters", r, lane.lane, lane.action,
                           clusters_);
      }
  if (crossed_.size() < device_.crossings.size()) return "a crossing waits for lanes that never come";
  return {};
}

// Images of the twin lie in rows, but where those of the kernel do.
bf16* HostLanes::memory_at(int r, std::int64_t offset) {
  const DeviceLayout& layout = device_.layout[at(r)];
  for (std::size_t i = 0; i < layout.matrices.size(); ++i) {
    const DeviceMatrixShape& m = layout.matrices[i];
    if (m.buffer >= 0 && offset >= m.offset && offset < m.offset + m.rows * m.cols * 2)
      return ranks_[at(r)].matrices[i].data() + (offset - m.offset) / 2;
  }
  return ranks_[at(r)].images.data() + offset / 2;
}

bool HostLanes::cross() {
  bool moved = false;
  for (int i = 0; i < int_size(device_.crossings); ++i) {
    const Crossing& c = device_.crossings[at(i)];
    const std::uint32_t need = (runs_ + 1) * c.lanes;
    if (has_crossed_[at(i)] || static_cast<std::int32_t>(ranks_[at(c.from)].counters[c.counter] - need) < 0) continue;
    for (const CrossingCopy& whole : c.copies) {
      const CrossingCopy copy = counts_.empty() ? whole : trimmed(whole, counts_[at(c.from)]);
      const std::int64_t further = static_cast<std::int64_t>(runs_ % num(copy.depth)) * copy.copy_bytes;
      for (std::int64_t row = 0; !operands_.empty() && row < copy.height; ++row)
        std::copy_n(memory_at(c.from, copy.from + further + row * copy.pitch), copy.width / 2,
                    memory_at(c.to, copy.to + further + row * copy.pitch));
    }
    ranks_[at(c.to)].counters[c.arrived] = runs_ + 1;
    has_crossed_[at(i)] = 1;
    crossed_.push_back(i);
    moved = true;
  }
  return moved;
}

bool HostLanes::met(int rank, const DeviceLane& lane) const {
  for (int i = 0; i < lane.waits; ++i) {
    const DeviceWait& w = device_.tables[at(rank)].waits[at(lane.first_wait + i)];
    if (runs_ < static_cast<std::uint32_t>(w.lag)) continue;
    const std::uint32_t need = (runs_ - static_cast<std::uint32_t>(w.lag)) * w.total + w.at;
    if (static_cast<std::int32_t>(ranks_[at(rank)].counters[w.counter] - need) < 0) return false;
  }
  return true;
}

// The two lanes of a pair end apart; the next pair begins when both have. Cluster 0 has the triggers too.
bool HostLanes::advance(int r, int cluster) {
  Rank& rank = ranks_[at(r)];
  const LaneTable& table = device_.tables[at(r)];
  bool moved = false;
  const auto try_lane = [&](std::size_t i, const DeviceLane& lane) {
    if (rank.done[i] || !met(r, lane)) return;
    do_lane(r, lane);
    rank.done[i] = 1;
    moved = true;
  };
  const std::size_t pair = rank.next[at(cluster)] * clusters_ + at(cluster);
  if (2 * pair < table.lanes.size()) {
    for (const std::size_t i : {2 * pair, 2 * pair + 1}) try_lane(i, table.lanes[i]);
    if (rank.done[2 * pair] && rank.done[2 * pair + 1]) ++rank.next[at(cluster)];
  }
  for (std::size_t i = 0; cluster == 0 && i < table.triggers.size(); ++i)
    try_lane(table.lanes.size() + i, table.triggers[i]);
  return moved;
}

int HostLanes::live_rows(int r, const DeviceLane& lane) const {
  if (lane.limit < 0 || counts_.empty()) return lane.rows;
  return std::clamp(counts_[at(r)][at(lane.limit)] - lane.limit_from, 0, lane.rows);
}

HostLanes::Rows HostLanes::rows_of(const DevicePlace& place) const {
  const Rank& rank = ranks_[at(place.rank)];
  if (place.matrix < 0)
    return {rank.images.data() + (place.offset + runs_ % num(place.depth) * num(place.copy_bytes)) / 2, kCudaTileCols};
  const std::int64_t cols = device_.layout[at(place.rank)].matrices[at(place.matrix)].cols;
  const bf16* first = place.matrix == 0 ? static_cast<const bf16*>(operands_[at(place.rank)].x)
                                        : rank.matrices[at(place.matrix)].data();
  return {first + place.row * cols + place.col, cols};
}

std::vector<float> HostLanes::product(int r, const DeviceLane& lane) const {
  const Producer& p = plan_.producers[0];
  const std::int64_t cols = cols_of(lane), col = lane.col / halves_of(device_.sums);
  std::vector<float> made(num(lane.rows * cols));
  const HostOperands& in = operands_[at(r)];
  const bool nk = p.layout() == WeightLayout::nk;
  std::vector<bf16> turned;  // columns of w (n, k) as (k, columns)
  for (std::int64_t i = 0; nk && i < p.k * cols; ++i) turned.push_back(in.w[(col + i % cols) * p.k + i / cols]);
  const ConstStrip w = nk ? ConstStrip{turned.data(), cols, Dtype::bf16} : ConstStrip{in.w + col, p.n, Dtype::bf16};
  const Rows x = rows_of({r, lane.reads, lane.row, 0, 0, 0, 1});
  gemm_naive(lane.rows, cols, p.k, {x.first, x.ld, Dtype::bf16}, w, made.data(), cols);
  return made;
}

std::int64_t HostLanes::cols_of(const DeviceLane& lane) const { return lane.cols / halves_of(device_.sums); }

float HostLanes::value_at(const bf16* first, std::int64_t i) const {
  if (device_.sums == Dtype::bf16) return to_float(first[i]);
  float out;
  std::memcpy(&out, first + 2 * i, sizeof(out));
  return out;
}

void HostLanes::set_value(bf16* first, std::int64_t i, float value) const {
  if (device_.sums == Dtype::bf16)
    first[i] = to_bf16(value);
  else
    std::memcpy(static_cast<void*>(first + 2 * i), &value, sizeof(value));
}

std::vector<float> HostLanes::output(int rank) const {
  const std::vector<bf16>& y = ranks_[at(rank)].matrices[at(device_.output)];
  std::vector<float> out(y.size() / num(halves_of(device_.sums)));
  for (std::int64_t i = 0; i < std::ssize(out); ++i) out[at(i)] = value_at(y.data(), i);
  return out;
}

// ((s0 + s1) + ...) + tile.
std::vector<float> HostLanes::values_of(int r, const DeviceLane& lane) const {
  const std::int64_t cols = cols_of(lane);
  std::vector<float> sum(num(lane.rows * cols));
  for (int s = 0; s < lane.sources; ++s) {
    const Rows from = rows_of(device_.tables[at(r)].sources[at(lane.first_source + s)]);
    for (std::int64_t i = 0; i < std::ssize(sum); ++i) {
      const float value = value_at(from.first + i / cols * from.ld, i % cols);
      sum[at(i)] = s == 0 ? value : sum[at(i)] + value;
    }
  }
  if (lane.product == 0) return sum;
  std::vector<float> made = product(r, lane);
  for (std::size_t i = 0; lane.sources > 0 && i < sum.size(); ++i) made[i] = sum[i] + made[i];
  return made;
}

void HostLanes::finish(int r, const DeviceLane& lane, std::vector<float>* values) const {
  const Producer& p = plan_.producers[0];
  const HostOperands& in = operands_[at(r)];
  const DevicePlace& to = device_.tables[at(r)].targets[at(lane.first_target)];
  const std::int64_t cols = cols_of(lane), halves = halves_of(device_.sums);
  for (std::int64_t i = 0; i < std::ssize(*values); ++i) {
    const std::int64_t row = i / cols, col = i % cols;
    float& value = (*values)[at(i)];
    if (p.bias) value += in.bias[lane.col / halves + col];
    value = static_cast<float>(activation_f64(p.activation, value));
    if (p.residual) value += in.residual[(to.row + row) * p.columns(r) + to.col / halves + col];
  }
}

void HostLanes::do_lane(int r, const DeviceLane& given) {
  const LaneTable& table = device_.tables[at(r)];
  DeviceLane lane = given;
  lane.rows = live_rows(r, lane);
  if (!operands_.empty() && lane.rows > 0 && lane.targets > 0) {
    const bool moves = lane.product == 0 && lane.sources == 1 && lane.finish == 0;  // whatever its bits mean
    std::vector<float> values;
    if (!moves) values = values_of(r, lane);
    if (lane.finish != 0) finish(r, lane, &values);
    for (int t = 0; t < lane.targets; ++t) {
      const Rows to = rows_of(table.targets[at(lane.first_target + t)]);
      const Rows from = moves ? rows_of(table.sources[at(lane.first_source)]) : Rows{};
      const std::int64_t cols = cols_of(lane);
      for (std::int64_t row = 0; row < lane.rows; ++row) {
        bf16* first = const_cast<bf16*>(to.first) + row * to.ld;
        if (moves) std::copy_n(from.first + row * from.ld, lane.cols, first);
        for (std::int64_t i = 0; !moves && i < cols; ++i) set_value(first, i, values[at(row * cols + i)]);
      }
    }
  }
  if (lane.parts > 1 && ++ranks_[at(r)].ended[at(lane.part)] < lane.parts) return;
  for (int s = 0; s < lane.signals; ++s) {
    const DeviceSignal& signal = table.signals[at(lane.first_signal + s)];
    ++ranks_[at(signal.rank)].counters[signal.counter];
  }
}

void require_ending(const Plan& plan, const DevicePlan& device, int clusters_per_rank) {
  HostLanes lanes(plan, device, clusters_per_rank);
  for (int run = 0; run < 2; ++run)
    if (const std::string stuck = lanes.run(); !stuck.empty())
      fail(Code::internal, "plan \"{}\" in the order of a GPU does not end: {}", plan.name, stuck);
}

}  // namespace weft
