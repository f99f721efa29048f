#include "weft/study/net/step_picture.h"

#include <algorithm>

#include <fmt/core.h>

#include "weft/draw/bar_chart.h"

namespace weft::netsim {

std::string operators_svg(const StepResult& result, const std::string& name) {
  constexpr std::size_t kMost = 12;  // names below the axis
  std::vector<OperatorUse> longest = result.operators;
  const auto takes = [](const OperatorUse& one) { return one.compute_s + one.exposed_s + one.hidden_s; };
  std::stable_sort(longest.begin(), longest.end(),
                   [&](const OperatorUse& a, const OperatorUse& b) { return takes(a) > takes(b); });
  longest.resize(std::min(longest.size(), kMost));
  draw::BarChart chart;
  chart.title = fmt::format("A step of {}", name);
  chart.subtitle = fmt::format("{} ranks, simulated; means over ranks", result.net.ranks);
  chart.y = {.unit = draw::Unit::seconds, .min = 0.0};
  chart.bars = draw::Bars::stacked;
  chart.series = {"computing", "exposed", "hidden"};
  for (const OperatorUse& one : longest)
    chart.groups.push_back({one.name, {one.compute_s, one.exposed_s, one.hidden_s}});
  return draw::bar_chart(chart);
}

}  // namespace weft::netsim
