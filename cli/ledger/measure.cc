#include "cli/ledger/measure.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <thread>

#include "weft/base/error.h"
#include "weft/base/statistics.h"
#include "weft/world/world.h"

#include "cli/ledger/block.h"
#include "cli/ledger/check.h"

namespace weft::cli {
namespace {

constexpr double kAgree = 2e-4;  // of the largest value: between styles that sum in different orders, layer after layer

std::size_t index_of(Style style) { return static_cast<std::size_t>(style); }

struct Turn {
  double us = 0, cpu_us = 0;
  std::int64_t start_ns = 0;
  std::vector<Span> spans;
};

class Rounds {
 public:
  Rounds(World& world, const Workload& workload, const LedgerOptions& options)
      : world_(world), options_(options), clock_(world), block_(world, clock_, workload), check_(world) {}

  Ledger run();

 private:
  void warm_up();
  void round(std::uint64_t round);
  Turn turn(Style style);
  void compare(Style style);
  void fill_rows(Ledger* out);
  void fill_sub_layers(Ledger* out);
  double mean_of_ranks(double mine);
  double worst_of_ranks(double mine);
  std::vector<RankSpans> spans_of_ranks(const Turn& turn);
  const Turn& typical(Style style) const;

  World& world_;
  const LedgerOptions& options_;
  CommonClock clock_;
  Block block_;
  SampleCheck check_;
  StageLog log_;
  std::vector<float> expected_;  // the block's output in sequential style, this round
  std::array<std::vector<Turn>, 4> turns_;
  std::vector<double> again_us_;  // fused, once more in the same rounds
  double max_error_ = 0;
  bool same_bits_ = true;
};

Turn Rounds::turn(Style style) {
  Turn out;
  out.start_ns = clock_.start_together();
  const std::int64_t cpu = clock_.cpu_ns();
  block_.run(style, log_);
  const std::int64_t values[2] = {CommonClock::now_ns() - out.start_ns, clock_.cpu_ns() - cpu};
  const auto told = clock_.tell(values);
  for (std::size_t at = 0; at < told.size(); at += CommonClock::kValues) {
    out.us = std::max(out.us, static_cast<double>(told[at]) * 1e-3);
    out.cpu_us += static_cast<double>(told[at + 1]) * 1e-3;
  }
  out.spans = log_.spans();
  return out;
}

double Rounds::mean_of_ranks(double mine) {
  const auto whole = static_cast<std::int64_t>(std::llround(mine * 1e3));
  double sum = 0;
  const auto told = clock_.tell({&whole, 1});
  for (std::size_t at = 0; at < told.size(); at += CommonClock::kValues) sum += static_cast<double>(told[at]) * 1e-3;
  return sum / world_.size();
}

double Rounds::worst_of_ranks(double mine) {
  const auto whole = static_cast<std::int64_t>(std::min(mine, 1e3) * 1e15);
  std::int64_t worst = 0;
  const auto told = clock_.tell({&whole, 1});
  for (std::size_t at = 0; at < told.size(); at += CommonClock::kValues) worst = std::max(worst, told[at]);
  return static_cast<double>(worst) * 1e-15;
}

// Against the sequential output of the same round.
void Rounds::compare(Style style) {
  const auto y = block_.output();
  if (style == Style::compute) return;
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

void Rounds::warm_up() {
  block_.refresh(0);
  block_.settle([this](const std::string& name) { options_.progress("trying routes and panels for " + name); });
  block_.refresh(0);
  for (const Style style : kStyles) {
    turn(style);
    compare(style);
    if (style != Style::compute) max_error_ = std::max(max_error_, check_.error_of(block_, index_of(style) + 1));
  }
  max_error_ = worst_of_ranks(max_error_);
}

// Who goes first changes from round to round; the second fused turn is last or first for the same reason.
void Rounds::round(std::uint64_t round) {
  block_.refresh(round);
  const bool early = round % 2 == 0;
  const auto again = [&] { again_us_.push_back(turn(Style::fused).us); };
  if (early) again();
  for (const Style style : kStyles) {
    turns_[index_of(style)].push_back(turn(style));
    compare(style);
  }
  if (!early) again();
}

const Turn& Rounds::typical(Style style) const {
  std::vector<double> us;
  for (const Turn& t : turns_[index_of(style)]) us.push_back(t.us);
  const double middle = median(us);
  return *std::min_element(
      turns_[index_of(style)].begin(), turns_[index_of(style)].end(),
      [&](const Turn& a, const Turn& b) { return std::abs(a.us - middle) < std::abs(b.us - middle); });
}

void Rounds::fill_rows(Ledger* out) {
  for (const Style style : kStyles) {
    std::vector<double> us, cpu;
    for (const Turn& t : turns_[index_of(style)]) us.push_back(t.us), cpu.push_back(t.cpu_us);
    LedgerRow row{.name = to_string(style), .measured_us = median(us)};
    if (world_.transport() != "threads") row.cpu_us = median(cpu);
    double predicted = 0;
    for (const Stage& stage : block_.stages()) predicted += block_.predicted_s(stage, style, out->cluster) * 1e6;
    row.predicted_us = predicted;
    out->rows.push_back(row);
  }
  const double floor = out->measured(Style::compute);
  for (LedgerRow& row : out->rows) row.exposed_us = *row.measured_us - floor;
}

void Rounds::fill_sub_layers(Ledger* out) {
  for (std::size_t s = 0; s < block_.stages().size(); ++s) {
    const Stage& stage = block_.stages()[s];
    SubLayerRow row{.name = stage.name};
    for (const Part* part : stage.parts) {
      if (!part->communicates()) continue;
      row.collective = to_string(part->spec().space.kind);
      row.comm_route = part->comm_route();
      row.comm_us += part->comm_us();
      row.panels = part->panels();
      if (const auto facts = part->plan_facts()) {
        row.route = facts->route;
        out->plans.push_back(*facts);
      }
    }
    out->comm_us += row.comm_us;
    for (const Style style : kStyles) {
      std::vector<double> us;
      for (const Turn& t : turns_[index_of(style)]) {
        double sum = 0;
        for (const Span& span : t.spans)
          if (span.stage == static_cast<int>(s)) sum += static_cast<double>(span.end_ns - span.begin_ns) * 1e-3;
        us.push_back(sum);
      }
      row.us[index_of(style)] = mean_of_ranks(median(us));
      row.predicted_us[index_of(style)] = block_.predicted_s(stage, style, out->cluster) * 1e6;
    }
    out->sub_layers.push_back(row);
  }
}

// Through one gather of floats: stage, what, begin and end in microseconds from the common start.
std::vector<RankSpans> Rounds::spans_of_ranks(const Turn& turn) {
  const std::int64_t count = static_cast<std::int64_t>(turn.spans.size());
  Op gather =
      world_.compile(copy({.rows = count, .cols = 4}), all_gather(world_.mesh({{"all", world_.size()}}), "all"));
  std::vector<float> mine;
  for (const Span& span : turn.spans) {
    mine.push_back(static_cast<float>(span.stage));
    mine.push_back(static_cast<float>(span.doing));
    for (const std::int64_t ns : {span.begin_ns, span.end_ns})
      mine.push_back(static_cast<float>(ns - turn.start_ns) * 1e-3f);
  }
  gather.run(mine.data());
  const Matrix all = gather.output();
  std::vector<RankSpans> out;
  for (int rank = 0; rank < world_.size(); ++rank) {
    RankSpans& spans = out.emplace_back(RankSpans{.rank = rank});
    for (std::int64_t i = rank * count; i < (rank + 1) * count; ++i) {
      const float* row = all.row(i);
      spans.spans.push_back({static_cast<int>(row[0]), static_cast<Doing>(static_cast<int>(row[1])),
                             std::llround(static_cast<double>(row[2]) * 1e3),
                             std::llround(static_cast<double>(row[3]) * 1e3)});
    }
  }
  return out;
}

Ledger Rounds::run() {
  warm_up();
  for (int i = 1; i <= options_.rounds; ++i) {
    options_.progress(fmt::format("round {} of {}", i, options_.rounds));
    round(static_cast<std::uint64_t>(i));
  }
  options_.progress("");
  Ledger out;
  out.workload = block_.workload();
  out.scaled = options_.scaled;
  out.ranks = world_.size();
  out.cores = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  out.rounds = options_.rounds;
  out.transport = world_.transport();
  out.link = options_.link;
  out.link_name = options_.link_name;
  out.cluster = world_.cluster(world_.size());
  fill_rows(&out);
  fill_sub_layers(&out);
  out.aa_band = std::abs(out.measured(Style::fused) / median(again_us_) - 1);
  out.max_rel_err = max_error_;
  out.same_bits = worst_of_ranks(same_bits_ ? 0 : 1) == 0;
  out.note = block_.note();
  if (block_.weight_load().matrices > 0) out.weights = block_.weight_load();
  for (const Style style : kStyles) out.spans[index_of(style)] = spans_of_ranks(typical(style));
  return out;
}

}  // namespace

double Ledger::compute_to_comm() const {
  double compute = 0;
  for (const SubLayerRow& row : sub_layers)
    if (!row.collective.empty()) compute += row.of(Style::compute);
  return comm_us > 0 ? compute / comm_us : 0;
}

Ledger measure_ledger(World& world, const Workload& workload, const LedgerOptions& options) {
  return Rounds(world, workload, options).run();
}

}  // namespace weft::cli
