#include "weft/study/ledger/block_ledger.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>

#include "weft/base/error.h"
#include "weft/base/index.h"
#include "weft/base/statistics.h"
#include "weft/study/contest.h"
#include "weft/study/ledger/block.h"
#include "weft/study/ledger/sample_check.h"
#include "weft/study/rounds.h"
#include "weft/world/world.h"

namespace weft {
namespace {

constexpr double kAgree = 2e-4;  // of the largest value: between styles that sum in different orders, layer after layer

class BlockRounds {
 public:
  BlockRounds(World& world, const Workload& workload, const BlockLedgerOptions& options)
      : world_(world),
        options_(options),
        clock_(world),
        block_(world, clock_, workload),
        check_(world),
        rounds_(clock_, contestants(), rounds_options()) {}

  BlockLedger run();

 private:
  std::vector<Contestant> contestants();
  RoundsOptions rounds_options();
  void after(Style style, std::uint64_t round);
  void compare(Style style);
  void fill_rows(BlockLedger* out);
  void fill_sub_layers(BlockLedger* out);
  void fill_facts(const Stage& stage, SubLayerRow* row, std::vector<PlanFacts>* plans);
  double stage_us(Style style, std::size_t stage);
  std::vector<RankSpans> spans_of_ranks(Style style);
  const TurnTime& typical(Style style) const;

  World& world_;
  const BlockLedgerOptions& options_;
  CommonClock clock_;
  WorkloadBlock block_;
  SampleCheck check_;
  Rounds rounds_;
  StageLog log_;
  std::vector<float> expected_;  // the block's output in sequential style, this round; empty before that turn
  // By style, and by the common start of the turn.
  std::array<std::map<std::int64_t, std::vector<StageSpan>>, kStyles.size()> spans_;
  double max_error_ = 0;
  bool same_bits_ = true;
};

std::vector<Contestant> BlockRounds::contestants() {
  std::vector<Contestant> out;
  for (const Style style : kStyles)
    out.push_back({.name = to_string(style),
                   .run = [this, style] { block_.run(style, log_); },
                   .after =
                       [this, style](std::uint64_t round) {
                         after(style, round);
                         return 0;
                       }});
  return out;
}

RoundsOptions BlockRounds::rounds_options() {
  RoundsOptions out{.rounds = options_.rounds, .twice = to_string(Style::fused), .order = TurnOrder::listed};
  out.refresh = [this](std::uint64_t round) {
    options_.progress(fmt::format("round {} of {}", round, options_.rounds));
    block_.refresh(round);
    expected_.clear();
  };
  out.judge = [this](const Contestant& contestant, std::uint64_t, const TurnTime& turn) {
    for (const Style style : kStyles)
      if (contestant.name == to_string(style)) spans_[at(style)][turn.start_ns] = log_.spans();
    return true;
  };
  return out;
}

// The round that warms up also checks a sample of every sum.
void BlockRounds::after(Style style, std::uint64_t round) {
  if (style == Style::compute || (style != Style::sequential && expected_.empty())) return;
  compare(style);
  if (round == 0) max_error_ = std::max(max_error_, check_.error_of(block_, at(style) + 1));
}

// Against the sequential output of the same round.
void BlockRounds::compare(Style style) {
  const auto y = block_.output();
  if (style == Style::sequential) {
    expected_.assign(y.begin(), y.end());
    return;
  }
  double largest = 0, off = 0;
  for (std::size_t i = 0; i < y.size(); ++i) {
    largest = std::max(largest, std::abs(static_cast<double>(expected_[i])));
    const double difference = std::abs(static_cast<double>(y[i]) - static_cast<double>(expected_[i]));
    off = std::max(off, std::isfinite(difference) ? difference : 1e30);
  }
  if (off > kAgree * largest)
    fail(Code::internal,
         "{} gives another block output than sequential on rank {}: off by {:.2g} of the largest value; a wrong result "
         "has no time",
         to_string(style), world_.rank(), off / largest);
  if (style == Style::fused)
    same_bits_ = same_bits_ && std::memcmp(y.data(), expected_.data(), y.size() * sizeof(float)) == 0;
}

const TurnTime& BlockRounds::typical(Style style) const {
  const std::vector<TurnTime>& turns = rounds_.turns(to_string(style));
  const double middle = *rounds_.median_us(to_string(style));
  return *std::min_element(turns.begin(), turns.end(), [&](const TurnTime& a, const TurnTime& b) {
    return std::abs(a.us - middle) < std::abs(b.us - middle);
  });
}

void BlockRounds::fill_rows(BlockLedger* out) {
  for (const Style style : kStyles) {
    LedgerRow row{.name = to_string(style), .measured_us = rounds_.median_us(to_string(style))};
    if (world_.transport() != "threads") row.cpu_us = rounds_.median_of(row.name, &TurnTime::cpu_us);
    double predicted_s = 0;
    for (const Stage& stage : block_.stages()) predicted_s += block_.predicted_s(stage, style, out->table.cluster);
    row.predicted_us = predicted_s * 1e6;
    out->table.rows.push_back(row);
  }
  set_exposed(&out->table);
}

// What is exchanged beside a stage, and the plans of its fused ops.
void BlockRounds::fill_facts(const Stage& stage, SubLayerRow* row, std::vector<PlanFacts>* plans) {
  for (const MeasuredPart* part : stage.parts) {
    if (part->tries_libraries()) row->floor_gemm = part->floor_gemm();
    if (!part->communicates()) continue;
    row->collective = to_string(part->spec().space.kind);
    row->comm_route = part->comm_route();
    row->comm_us += part->comm_us();
    row->panels = part->panels();
    if (const auto facts = part->plan_facts()) {
      row->route = facts->route;
      plans->push_back(*facts);
    }
  }
}

// Median over the rounds, mean of the ranks.
double BlockRounds::stage_us(Style style, std::size_t stage) {
  std::vector<double> us;
  for (const TurnTime& turn : rounds_.turns(to_string(style))) {
    double sum = 0;
    for (const StageSpan& span : spans_[at(style)].at(turn.start_ns))
      if (at(span.stage) == stage) sum += (span.end_ns - span.begin_ns) * 1e-3;
    us.push_back(sum);
  }
  return clock_.sum_of_ranks(std::llround(median(us) * 1e3)) * 1e-3 / world_.size();
}

void BlockRounds::fill_sub_layers(BlockLedger* out) {
  for (std::size_t s = 0; s < block_.stages().size(); ++s) {
    const Stage& stage = block_.stages()[s];
    SubLayerRow row{.name = stage.name};
    fill_facts(stage, &row, &out->plans);
    out->comm_us += row.comm_us;
    for (const Style style : kStyles) {
      row.us[at(style)] = stage_us(style, s);
      row.predicted_us[at(style)] = block_.predicted_s(stage, style, out->table.cluster) * 1e6;
    }
    out->sub_layers.push_back(row);
  }
}

// The ranks tell each other one span after another; all of them have as many.
std::vector<RankSpans> BlockRounds::spans_of_ranks(Style style) {
  const std::int64_t start_ns = typical(style).start_ns;
  std::vector<RankSpans> out(num(world_.size()));
  for (const StageSpan& span : spans_[at(style)].at(start_ns)) {
    const std::int64_t mine[] = {span.stage, static_cast<std::int64_t>(span.doing), span.begin_ns - start_ns,
                                 span.end_ns - start_ns};
    const auto told = clock_.tell(mine);
    for (std::size_t rank = 0; rank < out.size(); ++rank) {
      const std::int64_t* values = &told[rank * CommonClock::kValues];
      out[rank].push_back({static_cast<int>(values[0]), static_cast<Doing>(values[1]), values[2], values[3]});
    }
  }
  return out;
}

BlockLedger BlockRounds::run() {
  block_.refresh(0);
  block_.settle([this](const std::string& name) { options_.progress("trying routes and panels for " + name); });
  rounds_.run();
  options_.progress("");
  BlockLedger out;
  out.workload = block_.workload();
  out.scaled = options_.scaled;
  out.table = table_of(world_, options_.link, options_.rounds);
  fill_rows(&out);
  fill_sub_layers(&out);
  out.table.aa_band = rounds_.aa_band();
  const auto worst = static_cast<std::int64_t>(std::min(max_error_, 1e3) / kErrorUnit);
  out.max_rel_err = static_cast<double>(clock_.worst_of_ranks(worst)) * kErrorUnit;
  out.same_bits = clock_.worst_of_ranks(same_bits_ ? 0 : 1) == 0;
  out.note = block_.note();
  if (block_.weight_load().matrices > 0) out.weights = block_.weight_load();
  for (const Style style : kStyles) out.spans[at(style)] = spans_of_ranks(style);
  return out;
}

}  // namespace

double BlockLedger::compute_to_comm() const {
  double compute = 0;
  for (const SubLayerRow& row : sub_layers)
    if (!row.collective.empty()) compute += row.of(Style::compute);
  return comm_us > 0 ? compute / comm_us : 0;
}

BlockLedger measure_block_ledger(World& world, const Workload& workload, const BlockLedgerOptions& options) {
  return BlockRounds(world, workload, options).run();
}

}  // namespace weft
