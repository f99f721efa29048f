#include "weft/schedule/drawing.h"

#include <algorithm>
#include <cmath>

#include <fmt/core.h>

#include "weft/base/index.h"
#include "weft/base/units.h"

namespace weft::pipeline {
namespace {

constexpr int kMostStages = 64;

char glyph(const WorkItem& item) {
  if (item.work == Work::backward_weight) return '=';
  if (item.work == Work::recompute) return '+';
  return static_cast<char>((item.work == Work::forward ? 'a' : 'A') + item.micro_batch % 26);
}

// A cell shows what is there at its middle.
void fill(std::string* cells, const Span& span, double end_s, char with) {
  const double cell = end_s / cells->size();
  const auto first = std::max(0.0, std::ceil(span.begin_s / cell - 0.5 - 1e-9));
  for (auto c = num(first); c < cells->size(); ++c) {
    if ((static_cast<double>(c) + 0.5) * cell >= span.end_s - 1e-9 * cell) break;
    (*cells)[c] = with;
  }
}

}  // namespace

std::string drawing(const Compared& one, double end_s, int width) {
  const int n = one.schedule.num_stages(), shown = std::min(n, kMostStages);
  const std::size_t indent = fmt::format("  stage {}  ", n - 1).size();
  const auto cells = num(std::max(16, width - static_cast<int>(indent) - 7));
  std::vector<std::string> rows(num(n), std::string(cells, '.'));
  const bool blocking = one.timing.transfers == Transfers::blocking;
  if (end_s > 0) {
    for (const Sent& sent : one.timing.sends) {
      if (!blocking) break;
      fill(&rows[at(sent.from)], sent.sending, end_s, '~');
      fill(&rows[at(sent.to)], sent.receiving, end_s, '~');
    }
    for (int s = 0; s < n; ++s)
      for (int k = 0; k < int_size(one.schedule.stages[at(s)]); ++k)
        fill(&rows[at(s)], one.timing.items[at(s)][at(k)], end_s, glyph(one.schedule.stages[at(s)][at(k)]));
  }
  std::string out;
  for (int s = 0; s < shown; ++s) {
    const double used = one.timing.makespan_s > 0 ? one.timing.busy_s[at(s)] / one.timing.makespan_s : 0;
    out += fmt::format("{:<{}}{}  {:>3.0f} %\n", fmt::format("  stage {}", s), indent, rows[at(s)], 100 * used);
  }
  if (shown < n) out += fmt::format("  ... {} more stages\n", n - shown);
  return out;
}

std::string drawing_key(const Compared& one) {
  const bool split = std::any_of(one.schedule.stages[0].begin(), one.schedule.stages[0].end(),
                                 [](const WorkItem& item) { return item.work == Work::backward_weight; });
  const bool again = std::any_of(one.schedule.stages[0].begin(), one.schedule.stages[0].end(),
                                 [](const WorkItem& item) { return item.work == Work::recompute; });
  return fmt::format("  a b c forward of micro-batches 0 1 2, A B C their backward{}{}{}, '.' idle; %: computing\n",
                     split ? ", '=' its weights' part" : "", again ? ", '+' recomputation" : "",
                     one.timing.transfers == Transfers::blocking ? ", '~' sending or receiving" : "");
}

}  // namespace weft::pipeline
