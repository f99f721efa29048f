#include <algorithm>
#include <utility>

#include <fmt/core.h>

#include "weft/base/error.h"
#include "weft/base/index.h"
#include "weft/exec/cuda/device_layout.h"
#include "weft/exec/cuda/window/tracked_rows.h"
#include "weft/exec/cuda/window/window_map.h"

namespace weft {
namespace {

constexpr int kMade = 0, kOutput = 1;  // matrices of a rank

std::int64_t whole_tiles(std::int64_t rows) { return ceil_div(rows, kCudaTileRows) * kCudaTileRows; }

// As many panels as of that height, and none that is much lower than the others.
std::int64_t even_height(std::int64_t rows, std::int64_t height) {
  return whole_tiles(ceil_div(rows, ceil_div(rows, height)));
}

class TrackedMaker {
 public:
  TrackedMaker(const Plan& plan, const Expander& expander, std::int64_t crossing_bytes)
      : ranks_(plan.num_ranks),
        row_bytes_(plan.producers[0].n * size_of(plan.buffers[at(plan.buffer("y"))].dtype)),
        crossing_bytes_(crossing_bytes) {
    const Producer& p = plan.producers[0];
    out_.panels.resize(num(ranks_));
    out_.device.output = kOutput;
    for (int r = 0; r < ranks_; ++r) {
      const std::int64_t rows = expander.shape(plan.buffer("y"), r)[0], output = aligned_bytes(p.m * row_bytes_);
      DeviceLayout& layout = out_.device.layout.emplace_back();
      layout.matrices = {{-1, 0, p.m, p.n}, {-1, output, rows, p.n}};
      layout.counters = output + aligned_bytes(rows * row_bytes_);
    }
  }

  // Panels of the stretches, each from its own beginning.
  void cut(const std::vector<WindowStretch>& stretches, std::int64_t height) {
    for (int r = 0; r < ranks_; ++r) {
      std::vector<WindowStretch> own, others;
      for (const WindowStretch& s : stretches)
        if (s.from == r) (s.to == r ? own : others).push_back(s);
      const auto turn = [&](const WindowStretch& s) { return (s.to - r + ranks_) % ranks_; };
      std::stable_sort(others.begin(), others.end(), [&](const auto& a, const auto& b) { return turn(a) < turn(b); });
      bool more = true;
      for (std::int64_t panel = 0; std::exchange(more, false); ++panel)
        for (const WindowStretch& s : others) {
          const std::int64_t even = even_height(s.bytes / row_bytes_, height);
          more |= add(s, panel * even, even);
        }
      for (const WindowStretch& s : own) add(s, 0, s.bytes / row_bytes_);
    }
  }

  // After the panels' counters those of what arrives.
  TrackedPlan finish() {
    std::vector<DeviceLayout>& layouts = out_.device.layout;
    for (int r = 0; r < ranks_; ++r) layouts[at(r)].num_counters = int_size(out_.panels[at(r)]);
    for (Crossing& crossing : out_.device.crossings)
      crossing.arrived = static_cast<std::uint32_t>(layouts[at(crossing.to)].num_counters++);
    for (DeviceLayout& layout : layouts) place_counters(&layout);
    return std::move(out_);
  }

 private:
  // Of a panel that there is not, false.
  bool add(const WindowStretch& s, std::int64_t begin, std::int64_t height) {
    const std::int64_t rows = std::min(s.bytes / row_bytes_ - begin, height);
    if (rows <= 0) return false;
    std::vector<RowPanel>& panels = out_.panels[at(s.from)];
    std::vector<Crossing>& crossings = out_.device.crossings;
    const std::int64_t parts = s.from == s.to ? 1 : std::min(ceil_div(rows * row_bytes_, crossing_bytes_), rows);
    const auto counter = static_cast<std::uint32_t>(panels.size());
    panels.push_back({s.to, s.made / row_bytes_ + begin, rows, int_size(crossings), static_cast<int>(parts)});
    const std::int64_t output = out_.device.layout[at(s.to)].matrices[kOutput].offset;
    for (std::int64_t part = 0; part < parts; ++part) {
      const std::int64_t first = begin + rows * part / parts, end = begin + rows * (part + 1) / parts;
      CrossingCopy copy;
      copy.from = s.made + first * row_bytes_, copy.to = output + s.kept + first * row_bytes_;
      copy.width = copy.pitch = row_bytes_, copy.height = end - first;
      crossings.push_back({s.from, s.to, counter, 1, 0, 0, {trimmed(copy, {})}});
    }
    return true;
  }

  int ranks_;
  std::int64_t row_bytes_, crossing_bytes_;
  TrackedPlan out_;
};

}  // namespace

TrackedPlan tracked_plan(const Plan& plan, const Expander& expander, int panels, std::int64_t crossing_bytes) {
  if (panels < 1) bad_input("rows cannot be cut in {} panels; 8, 16 or 32 keep a link busy", panels);
  const std::vector<WindowStretch> stretches = stretches_of(plan, expander, 1);
  if (plan.num_ranks > kMaxCudaRanks)
    bad_input("plan \"{}\" has {} ranks; one GPU is shared by at most {}", plan.name, plan.num_ranks, kMaxCudaRanks);
  TrackedMaker maker(plan, expander, crossing_bytes);
  maker.cut(stretches, whole_tiles(ceil_div(plan.producers[0].m, panels)));
  return maker.finish();
}

std::string describe_panel(const TrackedPlan& tracked, const CrossingFailure& f) {
  const Crossing& c = tracked.device.crossings[at(f.index)];
  const RowPanel& panel = tracked.panels[at(c.from)][c.counter];
  return fmt::format(
      "rank {} waited {:.1f} s to send its panel {} of {}, rows {} to {}, to rank {}: nobody has made it", c.from,
      static_cast<double>(f.waited_ns) * 1e-9, c.counter, tracked.panels[at(c.from)].size(), panel.row,
      panel.row + panel.rows - 1, c.to);
}

}  // namespace weft
