// The walk along the axis, of sweep.h: compute to communication from 0.1 to 10.
#include <algorithm>
#include <charconv>
#include <cmath>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "weft/base/error.h"
#include "weft/base/index.h"
#include "weft/base/json_out.h"
#include "weft/base/units.h"
#include "weft/draw/line_chart.h"
#include "weft/draw/text_table.h"
#include "weft/study/contest.h"
#include "weft/study/walk/sweep.h"
#include "weft/world/world.h"

namespace weft {
namespace {

constexpr std::int64_t kMaxDepth = 1 << 16;

// What makes an op's compute longer and leaves its communication alone.
std::optional<std::int64_t>& depth_of(const OpSpec& op, OpRequest& flags) {
  if (op.producer.kind == ProducerKind::embedding_bag) return flags.pooling;
  return op.gathers ? flags.n : flags.k;
}

double ratio_of(const Measurement& m) { return *m.compute_us / *m.comm_us; }

std::vector<std::string> names() { return {"sequential", "panels", "MPI", "fused"}; }

std::optional<double> time_of(const Measurement& m, const std::string& name) {
  if (name == "sequential") return m.sequential_us;
  if (name == "panels") return m.panels_us;
  return name == "MPI" ? m.mpi_us : m.fused_us;
}

std::string hidden_text(const Hidden& hidden) {
  if (hidden.part) return fmt::format("{:.2f}", *hidden.part);
  return hidden.note.starts_with("not measurable") ? "not measurable" : "–";
}

}  // namespace

std::vector<double> parse_ratios(std::string_view text) {
  std::vector<double> out;
  for (std::string_view rest = text; !rest.empty();) {
    const std::size_t comma = std::min(rest.find(','), rest.size());
    double ratio = 0;
    const auto [end, error] = std::from_chars(rest.data(), rest.data() + comma, ratio);
    if (error != std::errc{} || end != rest.data() + comma || !(ratio >= 0.01 && ratio <= 100))
      bad_input("--ratios is \"{}\"; write ratios from 0.01 to 100, as 0.5,1,2", text);
    out.push_back(ratio);
    rest.remove_prefix(std::min(comma + 1, rest.size()));
  }
  if (out.empty()) bad_input("--ratios is empty; write ratios from 0.01 to 100, as 0.5,1,2");
  return out;
}

std::vector<AxisPoint> walk_axis(World& world, const OpRequest& given, int max_ranks, const std::vector<double>& ratios,
                                 const MeasureOptions& options, const WalkProgress& progress) {
  OpRequest flags = given;
  const OpSpec op = parse_op(flags, max_ranks);
  if (!has_collective(op)) bad_input("--axis needs a producer and a collective, as gemm-rs has; {} has not", op.name);
  if (op.producer.kind == ProducerKind::gemm && !op.gathers) {
    flags.m = given.m.value_or(2048);
    flags.n = given.n.value_or(2048);
  } else if (op.gathers) {
    flags.m = given.m.value_or(2048);
    flags.k = given.k.value_or(1024);
  }
  // Two measurements give what a step of depth costs and what no depth costs.
  MeasureOptions quick = options;
  quick.rounds = 3;
  quick.panels = false;
  double at[2] = {0, 0}, comm = 0;
  const std::int64_t probes[2] = {32, 128};
  for (int i = 0; i < 2; ++i) {
    progress(fmt::format("{}: looking for the axis", op.name), 0, 0);
    depth_of(op, flags) = probes[i];
    const Measurement m = measure(world, parse_op(flags, max_ranks), quick);
    at[i] = *m.compute_us;
    comm = i == 0 ? *m.comm_us : std::min(comm, *m.comm_us);
  }
  const double slope = std::max((at[1] - at[0]) / 96, 1e-6), fixed = std::max(at[0] - 32 * slope, 0.0);
  std::vector<AxisPoint> out;
  std::int64_t last = 0;
  for (const double wanted : ratios) {
    const double depth = (wanted * comm - fixed) / slope;
    const auto whole = std::clamp<std::int64_t>(static_cast<std::int64_t>(std::lround(depth)), 1, kMaxDepth);
    if (whole == last) continue;  // the producer has a floor: it writes its output, however thin it is
    last = whole;
    progress(fmt::format("{} {} : 1", op.name, wanted), int_size(out), int_size(ratios));
    depth_of(op, flags) = whole;
    const OpSpec spec = parse_op(flags, max_ranks);
    out.push_back({wanted, spec, measure(world, spec, options)});
  }
  return out;
}

std::string axis_text(const std::vector<AxisPoint>& points, const ReportContext& context) {
  const auto duration = [](const std::optional<double>& us) { return us ? format_duration(*us * 1e-6) : "–"; };
  std::vector<std::vector<std::string>> rows{{"shape", "compute : comm", "compute", "comm", "sequential", "panels",
                                              "MPI", "fused", "predicted", "speedup", "hidden"}};
  for (const AxisPoint& p : points)
    rows.push_back({shape_text(p.spec), fmt::format("{:.2f}", ratio_of(p.m)), duration(p.m.compute_us),
                    duration(p.m.comm_us), duration(p.m.sequential_us), duration(p.m.panels_us), duration(p.m.mpi_us),
                    duration(p.m.fused_us), duration(p.m.predicted.fused_us),
                    fmt::format("{:.2f}", p.m.speedup().value_or(1)), hidden_text(p.m.hidden())});
  return fmt::format("{} on {} ranks ({}), from bound by communication to bound by compute\n\n{}",
                     points.front().spec.name, context.ranks, context.link, draw::aligned(rows, draw::Last::number));
}

std::string axis_json(const std::vector<AxisPoint>& points, const ReportContext& context) {
  nlohmann::ordered_json out{
      {"op", points.front().spec.name}, {"ranks", context.ranks}, {"threads", context.threads}, {"link", context.link}};
  for (const AxisPoint& p : points) {
    auto one = nlohmann::ordered_json::parse(json_report(p.spec, context, p.m));
    one["wanted"] = p.wanted;
    one["compute_to_comm"] = ratio_of(p.m);
    out["points"].push_back(one);
  }
  return json_line(out);
}

std::string axis_svg(const std::vector<AxisPoint>& points, const ReportContext& context) {
  draw::LineChart chart;
  chart.title =
      fmt::format("{}: time over the ideal, from communication-bound to compute-bound", points.front().spec.name);
  chart.subtitle = fmt::format(
      "{} ranks, {} threads each, link {}; ideal = max(compute + CPU of the collective, collective); "
      "medians of {} rounds",
      context.ranks, context.threads, context.link, points.front().m.rounds);
  chart.x = {.label = "compute : communication", .kind = draw::AxisKind::log};
  chart.y = {.label = "time / ideal"};
  for (const std::string& name : names()) {
    draw::Series series{name, {}};
    for (const AxisPoint& p : points)
      if (const auto us = time_of(p.m, name)) series.samples.push_back({ratio_of(p.m), *us / *p.m.ideal_us()});
    if (!series.samples.empty()) chart.series.push_back(series);
  }
  draw::Series predicted{"fused, predicted", {}, true};
  for (const AxisPoint& p : points)
    predicted.samples.push_back({ratio_of(p.m), p.m.predicted.fused_us / *p.m.ideal_us()});
  chart.series.push_back(predicted);
  chart.bands.push_back({1, 1, "ideal"});
  return draw::line_chart(chart);
}

}  // namespace weft
