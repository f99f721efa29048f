#include "weft/study/report/block_picture.h"

#include <algorithm>

#include <fmt/core.h>

#include "weft/base/index.h"
#include "weft/base/units.h"
#include "weft/draw/timeline.h"
#include "weft/study/report/ledger_words.h"

namespace weft {
namespace {

constexpr int kComputing = 0, kBothAtOnce = 1, kUnderWay = 2;

draw::TimelinePanel panel_of(const BlockLedger& ledger, Style style) {
  draw::TimelinePanel panel{.name = to_string(style)};
  for (const RankSpans& spans : ledger.spans[at(style)]) {
    const std::string name = fmt::format("rank {}", panel.rows.size() / 2);
    draw::TimelineRow compute{name, draw::Lane::compute, {}}, link{name, draw::Lane::link, {}};
    for (const StageSpan& span : spans) {
      const double begin = span.begin_ns * 1e-9, end = span.end_ns * 1e-9;
      const std::string& hint = ledger.sub_layers[at(span.stage)].name;
      if (span.doing != Doing::exchange)
        compute.intervals.push_back({begin, end, span.doing == Doing::make ? kComputing : kBothAtOnce, hint});
      if (span.doing != Doing::make) link.intervals.push_back({begin, end, kUnderWay, hint});
    }
    panel.rows.push_back(std::move(compute));
    panel.rows.push_back(std::move(link));
  }
  panel.exposed_s = std::max(0.0, ledger.exposed_us(style)) * 1e-6;
  return panel;
}

}  // namespace

std::string block_svg(const BlockLedger& ledger) {
  draw::Timeline what;
  what.title = fmt::format("{}, {} ranks, {}: one block before and after", ledger.workload.name, ledger.table.ranks,
                           link_words(ledger.table.link));
  const LedgerTable& table = ledger.table;
  what.subtitle =
      fmt::format("{}; one round near the median of {}{}", size_words(ledger.workload), table.rounds,
                  table.crowded() ? fmt::format("; {} ranks take turns on {} cores", table.ranks, table.cores) : "");
  what.kinds = {"compute", "compute and communicate: one op", "collective under way"};
  what.panels = {panel_of(ledger, Style::sequential), panel_of(ledger, Style::fused)};
  return draw::timeline(what);
}

}  // namespace weft
