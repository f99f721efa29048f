#include "weft/exec/cuda/host_lanes.h"

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

std::string HostLanes::run(std::span<const HostOperands> operands) {
  operands_ = operands;
  for (std::size_t r = 0; r < ranks_.size(); ++r) {
    Rank& rank = ranks_[r];
    if (!operands.empty() && rank.images.empty()) {
      const DeviceLayout& layout = device_.layout[r];
      const DeviceBuffer& y = layout.buffers[at(device_.output)];
      rank.images.resize(num(layout.counters / 2));
      rank.output.resize(num(y.rows * y.cols));
    }
    rank.next.assign(clusters_, 0);
    rank.done.assign(device_.tables[r].lanes.size() + device_.tables[r].triggers.size(), 0);
  }
  for (bool moved = true; moved;) {
    moved = false;
    for (int r = 0; r < int_size(ranks_); ++r)
      for (std::size_t c = 0; c < clusters_; ++c) moved = advance(r, static_cast<int>(c)) || moved;
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
  return {};
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
  const auto try_lane = [&](std::size_t i, const DeviceLane& lane, bool makes) {
    if (rank.done[i] || !met(r, lane)) return;
    do_lane(r, lane, makes);
    rank.done[i] = 1;
    moved = true;
  };
  const std::size_t pair = rank.next[at(cluster)] * clusters_ + at(cluster);
  if (2 * pair < table.lanes.size()) {
    for (const std::size_t i : {2 * pair, 2 * pair + 1}) try_lane(i, table.lanes[i], true);
    if (rank.done[2 * pair] && rank.done[2 * pair + 1]) ++rank.next[at(cluster)];
  }
  for (std::size_t i = 0; cluster == 0 && i < table.triggers.size(); ++i)
    try_lane(table.lanes.size() + i, table.triggers[i], false);
  return moved;
}

void HostLanes::do_lane(int r, const DeviceLane& lane, bool makes) {
  const LaneTable& table = device_.tables[at(r)];
  if (makes && !operands_.empty() && lane.rows > 0) {
    const Producer& p = plan_.producers[0];
    std::vector<float> made(num(std::int64_t{lane.rows} * lane.cols)), sum;
    const HostOperands& in = operands_[at(r)];
    const bool nk = p.layout() == WeightLayout::nk;
    std::vector<bf16> turned;  // columns of w (n, k) as (k, columns)
    for (std::int64_t i = 0; nk && i < p.k * lane.cols; ++i)
      turned.push_back(in.w[(lane.col + i % lane.cols) * p.k + i / lane.cols]);
    const ConstStrip w =
        nk ? ConstStrip{turned.data(), lane.cols, Dtype::bf16} : ConstStrip{in.w + lane.col, p.n, Dtype::bf16};
    gemm_naive(lane.rows, lane.cols, p.k, {in.x + lane.row * p.k, p.k, Dtype::bf16}, w, made.data(), lane.cols);
    for (int s = 0; s < lane.sources; ++s) {
      const bf16* from = image(table.sources[at(lane.first_source + s)]);
      sum.resize(made.size(), 0.0f);
      for (std::size_t i = 0; i < made.size(); ++i) {
        const float value = to_float(from[i / num(lane.cols) * kCudaTileCols + i % num(lane.cols)]);
        sum[i] = s == 0 ? value : sum[i] + value;
      }
    }
    for (std::size_t i = 0; i < sum.size(); ++i) made[i] = sum[i] + made[i];
    for (int t = 0; t < lane.targets; ++t) store(table.targets[at(lane.first_target + t)], lane, made);
  }
  for (int s = 0; s < lane.signals; ++s) {
    const DeviceSignal& signal = table.signals[at(lane.first_signal + s)];
    ++ranks_[at(signal.rank)].counters[signal.counter];
  }
}

void HostLanes::store(const DevicePlace& place, const DeviceLane& lane, std::span<const float> values) {
  const std::int64_t columns = device_.layout[at(place.rank)].buffers[at(device_.output)].cols;
  bf16* to = place.image != 0 ? image(place) : ranks_[at(place.rank)].output.data() + place.row * columns + place.col;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::int64_t row = static_cast<std::int64_t>(i) / lane.cols, col = static_cast<std::int64_t>(i) % lane.cols;
    to[row * (place.image != 0 ? kCudaTileCols : columns) + col] = to_bf16(values[i]);
  }
}

void require_ending(const Plan& plan, const DevicePlan& device, int clusters_per_rank) {
  HostLanes lanes(plan, device, clusters_per_rank);
  for (int run = 0; run < 2; ++run)
    if (const std::string stuck = lanes.run(); !stuck.empty())
      fail(Code::internal, "plan \"{}\" in the order of a GPU does not end: {}", plan.name, stuck);
}

}  // namespace weft
