#include "weft/study/walk/sweep.h"

#include <algorithm>
#include <cmath>
#include <set>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "weft/base/index.h"
#include "weft/base/json_out.h"
#include "weft/base/statistics.h"
#include "weft/base/units.h"
#include "weft/draw/heat_map.h"
#include "weft/draw/text_table.h"
#include "weft/study/input/inputs.h"
#include "weft/world/world.h"

namespace weft {
namespace {

constexpr std::int64_t kDepths[] = {8, 24, 64, 192, 512};
constexpr std::int64_t kPoolings[] = {1, 3, 10, 30, 100};
constexpr double kMaxBytes = 1.2e9;  // that a rank's inputs may take
constexpr double kNeverSlower = 1.05;

std::int64_t power_of_two_near_root(std::int64_t elements) {
  std::int64_t n = 1;
  while (4 * n * n <= elements) n *= 2;
  return n;
}

// m and n for an output of that size. Where rows are gathered, the size is that of the rows and the depth is n.
void set_shape(const OpSpec& op, std::int64_t bytes, std::int64_t depth, OpRequest* flags) {
  const std::int64_t elements = bytes / 4;
  if (op.producer.kind == ProducerKind::embedding_bag) {
    flags->tables = 4, flags->dim = 64, flags->rows = 20'000;
    flags->batch = std::max<std::int64_t>(elements / 256, 2);
    flags->pooling = depth;
  } else if (op.producer.kind == ProducerKind::gemv) {
    flags->m = 1, flags->n = elements, flags->k = depth;
  } else if (op.gathers) {
    flags->k = elements >= (1 << 18) ? 1024 : 256;
    flags->m = std::max<std::int64_t>(elements / *flags->k / flags->ranks, 1);
    flags->n = depth;
  } else {
    flags->n = power_of_two_near_root(elements);
    flags->m = elements / *flags->n;
    flags->k = depth;
  }
}

std::string depth_name(const OpSpec& spec) {
  if (spec.producer.kind == ProducerKind::embedding_bag) return "rows pooled";
  return spec.gathers ? "n" : "k";
}

std::vector<const SweepResult*> worst_first(const std::vector<SweepResult>& results) {
  std::vector<const SweepResult*> out;
  for (const SweepResult& result : results) out.push_back(&result);
  std::sort(out.begin(), out.end(), [](const auto* a, const auto* b) { return a->ratio() > b->ratio(); });
  return out;
}

std::vector<double> ratios(const std::vector<SweepResult>& results) {
  std::vector<double> out;
  for (const SweepResult& result : results) out.push_back(result.ratio());
  return out;
}

}  // namespace

std::vector<SweepShape> sweep_cells(const OpRequest& flags, int max_ranks) {
  const OpSpec op = parse_op(flags, max_ranks);
  const bool bags = op.producer.kind == ProducerKind::embedding_bag;
  std::vector<SweepShape> out;
  for (std::int64_t bytes = 4096; bytes <= (64 << 20); bytes *= 4)
    for (const std::int64_t depth : bags ? kPoolings : kDepths) {
      OpRequest one = flags;
      set_shape(op, bytes, depth, &one);
      SweepShape cell{bytes, depth, parse_op(one, max_ranks)};
      if (RankInputs::bytes(cell.spec) <= kMaxBytes) out.push_back(cell);
    }
  return out;
}

std::string SweepResult::best() const {
  std::string out = "sequential";
  double best = m.sequential_us.value_or(INFINITY);
  for (const auto& [route, us] : m.route_us)
    if (us < best) best = us, out = route;
  return out;
}

double SweepResult::best_us() const {
  double best = m.sequential_us.value_or(INFINITY);
  for (const auto& [route, us] : m.route_us) best = std::min(best, us);
  return std::isfinite(best) ? best : m.fused_us;
}

bool SweepResult::holds() const { return ratio() <= std::max(kNeverSlower, 1 + m.aa_band); }

std::vector<SweepResult> sweep(World& world, const std::vector<SweepShape>& cells, const MeasureOptions& options,
                               const WalkProgress& progress) {
  std::vector<SweepResult> out;
  for (const SweepShape& cell : cells) {
    progress(fmt::format("{} {}", cell.spec.name, shape_text(cell.spec)), int_size(out), int_size(cells));
    out.push_back({cell, measure(world, cell.spec, options)});
  }
  return out;
}

std::string sweep_text(const std::vector<SweepResult>& results, const ReportContext& context) {
  const OpSpec& op = results.front().cell.spec;
  std::vector<std::vector<std::string>> rows{
      {"size", depth_name(op), "auto", "time", "best", "its time", "auto / best", "A/A band", ""}};
  for (const SweepResult& r : results)
    rows.push_back({format_bytes(r.cell.bytes), std::to_string(r.cell.depth), r.m.route,
                    format_duration(r.m.fused_us * 1e-6), r.best(), format_duration(r.best_us() * 1e-6),
                    fmt::format("{:.3f}", r.ratio()), fmt::format("{:.3f}", r.m.aa_band), r.holds() ? "" : "slower"});
  std::string out = fmt::format("{} on {} ranks ({}): `auto` against every route and sequential\n\n", op.name,
                                context.ranks, context.link);
  out += draw::aligned(rows);
  const auto held = std::count_if(results.begin(), results.end(), [](const SweepResult& r) { return r.holds(); });
  out += fmt::format("\n{} of {} cells hold (auto / best <= max(1.05, 1 + A/A band)); geomean {:.3f}. Worst:", held,
                     results.size(), geomean(ratios(results)));
  const auto worst = worst_first(results);
  for (std::size_t i = 0; i < std::min<std::size_t>(5, worst.size()); ++i)
    out += fmt::format("{} {} {} {} ({:.3f})", i > 0 ? "," : "", format_bytes(worst[i]->cell.bytes), depth_name(op),
                       worst[i]->cell.depth, worst[i]->ratio());
  return out + ".\n";
}

std::string sweep_json(const std::vector<SweepResult>& results, const ReportContext& context) {
  const OpSpec& op = results.front().cell.spec;
  nlohmann::ordered_json out{{"op", op.name},
                             {"ranks", context.ranks},
                             {"threads", context.threads},
                             {"transport", results.front().m.transport},
                             {"link", context.link},
                             {"depth", depth_name(op)},
                             {"geomean", geomean(ratios(results))}};
  std::int64_t held = 0;
  for (const SweepResult& r : results) {
    held += r.holds() ? 1 : 0;
    nlohmann::ordered_json cell{{"size_bytes", r.cell.bytes},
                                {"depth", r.cell.depth},
                                {"shape", shape_json(r.cell.spec)},
                                {"route", r.m.route},
                                {"auto_us", r.m.fused_us},
                                {"best", r.best()},
                                {"best_us", r.best_us()},
                                {"ratio", r.ratio()},
                                {"aa_band", r.m.aa_band},
                                {"holds", r.holds()},
                                {"predicted_us", r.m.predicted.fused_us},
                                {"rounds", r.m.rounds},
                                {"max_rel_err", r.m.max_rel_err}};
    for (const auto& [name, value] :
         {std::pair{"compute_us", r.m.compute_us}, {"comm_us", r.m.comm_us}, {"sequential_us", r.m.sequential_us}})
      cell[name] = or_null(value);
    for (const auto& [route, us] : r.m.route_us) cell["routes"][route] = us;
    out["cells"].push_back(cell);
  }
  out["held"] = held;
  return json_line(out);
}

namespace {

// What a column stands for: its depth, and the compute to communication seen there.
std::string column_label(const std::vector<SweepResult>& results, std::int64_t depth) {
  std::vector<double> seen;
  for (const SweepResult& r : results)
    if (r.cell.depth == depth && r.m.compute_us && r.m.comm_us && *r.m.comm_us > 0)
      seen.push_back(*r.m.compute_us / *r.m.comm_us);
  return seen.empty() ? std::to_string(depth) : fmt::format("{} ({:.2g} : 1)", depth, median(seen));
}

void label_grid(const std::vector<SweepResult>& results, const ReportContext& context, draw::Grid* grid) {
  const OpSpec& op = results.front().cell.spec;
  grid->title = fmt::format("{}: what wins, and how many times as fast as sequential fused is", op.name);
  grid->subtitle = fmt::format(
      "{} ranks, {} {} each, link {}; every route and sequential take turns, medians; {} cells", context.ranks,
      context.threads, context.threads == 1 ? "thread" : "threads", context.link, results.size());
  grid->x_label = fmt::format("{} (compute : communication, median of the column)", depth_name(op));
  grid->y_label = op.gathers ? "gathered rows" : "output of a rank";
}

template <typename Field>
std::vector<std::int64_t> distinct(const std::vector<SweepResult>& results, Field field) {
  std::set<std::int64_t> seen;
  for (const SweepResult& r : results) seen.insert(r.cell.*field);
  return {seen.begin(), seen.end()};
}

}  // namespace

std::string sweep_svg(const std::vector<SweepResult>& results, const ReportContext& context) {
  draw::RegimeMap map;
  const auto sizes = distinct(results, &SweepShape::bytes), depths = distinct(results, &SweepShape::depth);
  for (const std::int64_t depth : depths) map.grid.x_ticks.push_back(column_label(results, depth));
  for (const std::int64_t size : sizes)
    map.grid.y_ticks.push_back(draw::tick_label(static_cast<double>(size), draw::Unit::bytes));
  label_grid(results, context, &map.grid);
  map.cells.resize(sizes.size() * depths.size());
  for (const SweepResult& r : results) {
    const auto row = std::find(sizes.begin(), sizes.end(), r.cell.bytes) - sizes.begin();
    const auto col = std::find(depths.begin(), depths.end(), r.cell.depth) - depths.begin();
    // Where there is one route, `auto` is it.
    const std::string route = r.best() == "sequential" && r.m.fused_us <= r.best_us() ? r.m.route : r.best();
    const std::string name = route == "sequential" ? "sequential" : "fused, " + route;
    auto winner = std::find(map.winners.begin(), map.winners.end(), name);
    if (winner == map.winners.end()) winner = map.winners.insert(map.winners.end(), name);
    const double gain = r.m.sequential_us.value_or(r.m.fused_us) / r.m.fused_us;
    map.cells[at(row) * depths.size() + num(col)] = {static_cast<int>(winner - map.winners.begin()),
                                                     std::clamp(std::abs(gain - 1) * 2, 0.1, 1.0),
                                                     fmt::format("{:.2f}x", gain)};
  }
  return draw::regime_map(map);
}

}  // namespace weft
