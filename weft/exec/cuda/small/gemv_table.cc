#include "weft/exec/cuda/small/gemv_table.h"

#include <map>

#include <fmt/core.h>

#include "weft/base/error.h"
#include "weft/base/index.h"
#include "weft/exec/layout.h"

namespace weft {
namespace {

void check_gemv_producer(const Plan& plan) {
  if (plan.producers.size() != 1) bad_input("plan \"{}\" has several producers; a gemv on a GPU is one", plan.name);
  const Producer& p = plan.producers[0];
  const bool product = p.kind == ProducerKind::gemm && p.layout() == WeightLayout::nk && p.weight == Dtype::bf16;
  if ((!product && p.kind != ProducerKind::copy) || p.x() != Dtype::bf16 || p.y() != Dtype::bf16)
    bad_input("plan \"{}\" is no product of bf16 with w (n, k), and no copy of bf16; a gemv on a GPU takes those",
              plan.name);
  if (p.has_epilogue() || p.addend)
    bad_input("plan \"{}\" has an epilogue or an addend; a gemv on a GPU has none yet", plan.name);
  if (p.m > kGemvMaxRows) bad_input("m is {}; a gemv on a GPU has at most {} rows: use a gemm", p.m, kGemvMaxRows);
  if (p.n % kGemvCols != 0 || p.k % kGemvDepth != 0)
    bad_input("n is {} and k is {}; a gemv on a GPU takes multiples of {} and {}", p.n, p.k, kGemvCols, kGemvDepth);
  if (p.tile[0] != p.m || p.tile[1] != kGemvCols)
    bad_input("tiles are {} x {}; those of a gemv on a GPU have all {} rows and {} columns", p.tile[0], p.tile[1], p.m,
              kGemvCols);
  if (plan.num_ranks > kMaxCudaRanks)
    bad_input("plan \"{}\" has {} ranks; one GPU is shared by at most {}", plan.name, plan.num_ranks, kMaxCudaRanks);
}

class GemvTableMaker {
 public:
  GemvTableMaker(const Plan& plan, const Expander& expander, GemvPlan* out) : plan_(plan), out_(*out) {
    for (int r = 0; r < plan.num_ranks; ++r) {
      programs_.push_back(expander.program(r));
      layouts_.push_back(layout_of(plan, expander, r));
    }
  }

  void make() {
    out_.tables.resize(programs_.size());
    for (const Program& program : programs_)
      for (const Action& action : program.actions)
        if (action.kind == ActionKind::step) add_step(program, action);
    for (const Program& program : programs_)
      for (const Action& action : program.actions)
        if (action.kind != ActionKind::step && action.sources.size() > 0) add_sum(program, action);
    if (!out_.keeps()) check_words();
  }

 private:
  [[noreturn]] void refuse() const {
    bad_input("plan \"{}\" is neither kept nor all_reduced by one_shot; a gemv on a GPU is, use a gemm for others",
              plan_.name);
  }

  static std::int32_t narrow_element(std::int64_t value) { return static_cast<std::int32_t>(value); }

  std::int64_t element_of(const Piece& piece, const Action& action, std::int64_t lane) const {
    return layouts_[at(piece.rank)].buffers[at(piece.buffer)].element(lane_box(piece.box, action.tile, lane).lo);
  }
  bool is_packed(const Piece& piece) const { return layouts_[at(piece.rank)].buffers[at(piece.buffer)].block_rows > 0; }

  // All rows at once, tile by tile: kept, or into inboxes.
  void add_step(const Program& program, const Action& action) {
    GemvTable& table = out_.tables[at(program.rank)];
    if (action.lanes != out_.tiles || action.box.size(0) != out_.rows || action.sources.size() > 0 ||
        !table.targets.empty())
      refuse();
    const auto targets = program.targets(action);
    if (targets.size() == 1 && !is_packed(targets[0])) return;
    if (plan_.buffers[at(targets[0].buffer)].dtype != Dtype::bf16)
      bad_input("partial sums of plan \"{}\" travel as {}; a gemv on a GPU sends bf16", plan_.name,
                to_string(plan_.buffers[at(targets[0].buffer)].dtype));
    inbox_ = targets[0].buffer;
    out_.num_targets = static_cast<int>(targets.size());
    for (std::int64_t lane = 0; lane < action.lanes; ++lane)
      for (const Piece& piece : targets) {
        if (piece.buffer != inbox_) refuse();
        table.targets.push_back({piece.rank, narrow_element(element_of(piece, action, lane))});
      }
  }

  // Some rows of every tile.
  void add_sum(const Program& program, const Action& action) {
    GemvTable& table = out_.tables[at(program.rank)];
    const auto sources = program.sources(action);
    const auto targets = program.targets(action);
    const Box& box = action.box;
    if (box.empty()) return;
    if (out_.keeps() || targets.size() != 1 || is_packed(targets[0]) || targets[0].box.lo != box.lo ||
        action.lanes != out_.tiles)
      refuse();
    out_.num_sources = static_cast<int>(sources.size());
    table.sources.resize(num(std::int64_t{out_.tiles} * out_.rows * out_.num_sources), -1);
    for (std::int64_t lane = 0; lane < action.lanes; ++lane)
      for (std::int64_t row = 0; row < box.size(0); ++row)
        for (std::size_t j = 0; j < sources.size(); ++j) {
          if (sources[j].buffer != inbox_) refuse();
          const std::int64_t first = (lane * out_.rows + box.lo[0] + row) * out_.num_sources;
          table.sources[at(first) + j] = narrow_element(element_of(sources[j], action, lane) + row * kGemvCols);
        }
  }

  // Every row of a tile that is read was written as that, by one lane.
  void check_words() {
    std::vector<std::map<std::int32_t, int>> written(programs_.size());
    for (const GemvTable& table : out_.tables)
      for (std::size_t i = 0; i < table.targets.size(); ++i)
        for (int row = 0; row < out_.rows; ++row) {
          const GemvTarget& target = table.targets[i];
          const int tile = static_cast<int>(i) / out_.num_targets;
          if (!written[at(target.rank)].insert({target.element + row * kGemvCols, tile * out_.rows + row}).second)
            refuse();
        }
    for (std::size_t r = 0; r < programs_.size(); ++r) {
      const BufferLayout& inbox = layouts_[r].buffers[at(inbox_)];
      out_.inbox_elements = ceil_div(inbox.shape[0], inbox.block_rows) * inbox.block_elements;
      const auto& sources = out_.tables[r].sources;
      if (sources.empty()) refuse();
      for (std::size_t i = 0; i < sources.size(); ++i) {
        const auto found = written[r].find(sources[i]);
        if (found == written[r].end() || found->second != static_cast<int>(i) / out_.num_sources) refuse();
      }
    }
  }

  const Plan& plan_;
  GemvPlan& out_;
  std::vector<Program> programs_;
  std::vector<Layout> layouts_;
  int inbox_ = -1;
};

}  // namespace

GemvPlan gemv_plan(const Plan& plan, const Expander& expander) {
  check_gemv_producer(plan);
  const Producer& p = plan.producers[0];
  GemvPlan out;
  out.rows = static_cast<int>(p.m), out.cols = static_cast<int>(p.n), out.depth = static_cast<int>(p.k);
  out.tiles = static_cast<int>(p.n) / kGemvCols;
  GemvTableMaker(plan, expander, &out).make();
  return out;
}

std::string describe_gemv(const GemvPlan& plan, const DeviceFailure& f) {
  const GemvTable& table = plan.tables[at(f.rank)];
  const std::int32_t row = f.wait / plan.num_sources;
  const std::int32_t element =
      table.sources[at(std::int64_t{f.index} * plan.rows * plan.num_sources + f.wait)] - row * kGemvCols;
  int writer = f.rank;
  for (int r = 0; r < int_size(plan.tables); ++r)
    for (const GemvTarget& target : plan.tables[at(r)].targets)
      if (target.rank == f.rank && target.element == element) writer = r;
  return fmt::format("rank {} waited {:.1f} s for tile {} [0:{}, {}:{}] of rank {} in run {}", f.rank,
                     static_cast<double>(f.waited_ns) * 1e-9, f.index, plan.rows, f.index * kGemvCols,
                     (f.index + 1) * kGemvCols, writer, f.started);
}

}  // namespace weft
