#include "weft/study/spd/drop_curve.h"

#include <fmt/core.h>

#include "weft/draw/line_chart.h"

namespace weft {
namespace {

std::vector<draw::Sample> samples_of(const std::vector<double>& perplexities) {
  std::vector<draw::Sample> samples;
  for (std::size_t i = 0; i < perplexities.size(); ++i) samples.push_back({static_cast<double>(i), perplexities[i]});
  return samples;
}

}  // namespace

std::string drop_curve_svg(const AnalysisOptions& asked, int ranks, const Analysis& found) {
  std::vector<double> from_end(found.sensitivity.perplexity_from.rbegin(), found.sensitivity.perplexity_from.rend());
  draw::LineChart chart;
  chart.title = fmt::format("Perplexity over blocks dropped, {} ranks", ranks);
  chart.subtitle = fmt::format("{}, {} windows of {} tokens of {}", asked.model, found.calibration_windows,
                               found.window, asked.text);
  chart.x = {.label = "blocks without their first all-reduce", .min = 0};
  chart.y = {.label = "perplexity"};
  if (!found.curve.empty()) chart.series.push_back({"least sensitive first", samples_of(found.curve)});
  chart.series.push_back({"from the last block on", samples_of(from_end), true});
  return draw::line_chart(chart);
}

}  // namespace weft
