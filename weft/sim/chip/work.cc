#include "weft/sim/chip/work.h"

#include <algorithm>
#include <unordered_map>

#include "weft/base/error.h"

namespace weft::sim {
namespace {

// Numbers where tiles begin, in order of first appearance.
class Panels {
 public:
  explicit Panels(std::vector<std::int32_t>* sizes) : sizes_(sizes) {}
  std::int32_t at(std::int64_t begin, std::int64_t size) {
    const auto [found, is_new] = numbers_.try_emplace(begin, static_cast<std::int32_t>(sizes_->size()));
    if (is_new) sizes_->push_back(static_cast<std::int32_t>(size));
    auto& seen = (*sizes_)[static_cast<std::size_t>(found->second)];
    seen = std::max(seen, static_cast<std::int32_t>(size));
    return found->second;
  }

 private:
  std::unordered_map<std::int64_t, std::int32_t> numbers_;
  std::vector<std::int32_t>* sizes_;
};

class Reader {
 public:
  Reader(const Plan& plan, const ReadOptions& options) : plan_(plan), expander_(plan), options_(options) {
    for (int rank = 0; rank < plan.num_ranks; ++rank) programs_.push_back(expander_.program(rank));
  }

  Work read() {
    if (!plan_.producers.empty()) work_.producer = plan_.producers.front();
    const int count = options_.devices == Devices::one ? 1 : plan_.num_ranks;
    for (int rank = 0; rank < count; ++rank) work_.devices.push_back(device(rank));
    return std::move(work_);
  }

 private:
  const Program& program(int rank) const { return programs_[static_cast<std::size_t>(rank)]; }

  DeviceWork device(int rank) {
    DeviceWork out;
    Panels rows(&out.row_size), cols(&out.col_size);
    const Program& own = program(rank);
    for (std::size_t a = 0; a < own.actions.size(); ++a) {
      const Action& action = own.actions[a];
      if (options_.keep && action.kind == ActionKind::trigger) continue;
      WorkAction made{action.kind, action.rule, action.s, options_.keep ? 0 : action.sources.size()};
      made.targets = options_.keep ? kept(rank) : targets(rank, a);
      made.own_signals = signals_from(own, action, rank);
      made.lanes.begin = static_cast<std::int32_t>(out.lanes.size());
      for (std::int64_t lane = 0; lane < action.lanes; ++lane) add_lane(action, lane, &rows, &cols, &out);
      made.lanes.end = static_cast<std::int32_t>(out.lanes.size());
      if (action.kind == ActionKind::step) claim_in_groups(made.lanes, grid_of(action.box, action.tile), &out.steps);
      out.actions.push_back(made);
    }
    index_waits(rank, &out);
    return out;
  }

  void add_lane(const Action& action, std::int64_t lane, Panels* rows, Panels* cols, DeviceWork* out) const {
    WorkLane made;
    made.action = static_cast<std::int32_t>(out->actions.size());
    made.index = static_cast<std::int32_t>(lane);
    if (action.box.dims >= 2) {
      const Box box = lane_box(action.box, action.tile, lane);
      made.rows = static_cast<std::int32_t>(box.size(0));
      made.cols = static_cast<std::int32_t>(box.size(1));
      if (action.kind == ActionKind::step) {
        made.row_panel = rows->at(box.lo[0], made.rows);
        made.col_panel = cols->at(box.lo[1], made.cols);
      }
    }
    made.gate = options_.waits == Waits::chunk ? made.action : static_cast<std::int32_t>(out->lanes.size());
    out->lanes.push_back(made);
  }

  void claim_in_groups(Part lanes, const Grid& grid, std::vector<std::int32_t>* steps) const {
    const auto cols = static_cast<std::int32_t>(grid.cols), rows = lanes.size() / std::max(cols, 1);
    const auto group = options_.raster_cols > 0 ? static_cast<std::int32_t>(options_.raster_cols) : cols;
    for (std::int32_t first = 0; first < cols; first += group)
      for (std::int32_t row = 0; row < rows; ++row)
        for (std::int32_t col = first; col < std::min(first + group, cols); ++col)
          steps->push_back(lanes.begin + row * cols + col);
  }

  Part signals_from(const Program& program, const Action& action, int to) {
    Part part;
    part.begin = static_cast<std::int32_t>(work_.signals.size());
    for (const Signal& signal : program.signals_of(action))
      if (signal.rank == to) work_.signals.push_back({signal.counter, signal.per});
    part.end = static_cast<std::int32_t>(work_.signals.size());
    return part;
  }

  Part targets(int rank, std::size_t a) {
    const Action& action = program(rank).actions[a];
    std::vector<int> ranks;
    for (const weft::Piece& piece : program(rank).targets(action)) ranks.push_back(piece.rank);
    for (const Signal& signal : program(rank).signals_of(action))  // signals alone reach a rank too
      if (signal.rank != rank && std::find(ranks.begin(), ranks.end(), signal.rank) == ranks.end() &&
          action.targets.size() == 0)
        ranks.push_back(signal.rank);
    std::vector<WorkTarget> made;
    for (const int to : ranks) made.push_back(target(rank, a, to));
    Part part;
    part.begin = static_cast<std::int32_t>(work_.targets.size());
    work_.targets.insert(work_.targets.end(), made.begin(), made.end());
    part.end = static_cast<std::int32_t>(work_.targets.size());
    return part;
  }

  Part kept(int rank) {
    const int device = options_.devices == Devices::one ? 0 : rank;
    work_.targets.push_back({device, device, false, {}});
    const auto end = static_cast<std::int32_t>(work_.targets.size());
    return {end - 1, end};
  }

  WorkTarget target(int rank, std::size_t a, int to) {
    WorkTarget made;
    made.remote = to != rank;
    made.from = options_.devices == Devices::one ? 0 : rank;
    made.device = options_.devices == Devices::one ? 0 : to;
    if (!made.remote) return made;  // its signals are own_signals
    if (options_.devices == Devices::every) {
      made.signals = signals_from(program(rank), program(rank).actions[a], to);
      return made;
    }
    const int n = plan_.num_ranks, from = ((2 * rank - to) % n + n) % n;
    const Action& mine = program(rank).actions[a];
    if (a >= program(from).actions.size() || program(from).actions[a].lanes != mine.lanes ||
        program(from).actions[a].rule != mine.rule)
      bad_input(
          "plan \"{}\": rank {} does otherwise than rank {}, so one device cannot stand for all; use sizes that "
          "{} ranks share evenly, or simulate every device",
          plan_.name, from, rank, n);
    made.signals = signals_from(program(from), program(from).actions[a], rank);
    return made;
  }

  // Waits of earlier runs are met: those runs are long over.
  void index_waits(int rank, DeviceWork* out) {
    const std::size_t gates = options_.waits == Waits::chunk ? out->actions.size() : out->lanes.size();
    out->waits_of_gate.assign(gates, 0);
    for (const WorkLane& lane : out->lanes) {
      if (options_.keep) break;
      const Action& action = program(rank).actions[static_cast<std::size_t>(lane.action)];
      for (const weft::Wait& wait : program(rank).of(action)) {
        if (wait.lag > 0) continue;
        const std::int32_t counter = wait.counter + (wait.per > 0 ? lane.index / wait.per : 0);
        out->watches.push_back({counter, lane.gate, wait.at});
        ++out->waits_of_gate[static_cast<std::size_t>(lane.gate)];
      }
    }
    std::stable_sort(out->watches.begin(), out->watches.end(),
                     [](const Watch& a, const Watch& b) { return a.counter < b.counter; });
    const auto counters = static_cast<std::size_t>(expander_.num_counters(rank));
    out->first_watch.assign(counters + 1, 0);
    for (const Watch& watch : out->watches) ++out->first_watch[static_cast<std::size_t>(watch.counter) + 1];
    for (std::size_t c = 0; c < counters; ++c) out->first_watch[c + 1] += out->first_watch[c];
  }

  const Plan& plan_;
  Expander expander_;
  ReadOptions options_;
  std::vector<Program> programs_;
  Work work_;
};

}  // namespace

Work read_work(const Plan& plan, const ReadOptions& options) { return Reader(plan, options).read(); }

}  // namespace weft::sim
