#include "weft/study/schedule/picture.h"

#include <fmt/core.h>

#include "weft/base/error.h"
#include "weft/base/units.h"
#include "weft/draw/gantt.h"

namespace weft {
namespace {

using pipeline::Compared, pipeline::Span, pipeline::WorkItem;

// Colours: a whole backward and the part of it that others wait for have the same one.
constexpr int kTransferColour = 4;
const std::vector<std::string> kWorkNames{"forward", "backward", "backward, weights", "recomputation"};

int colour_of(pipeline::Work work) {
  switch (work) {
    case pipeline::Work::forward:
      return 0;
    case pipeline::Work::backward:
    case pipeline::Work::backward_input:
      return 1;
    case pipeline::Work::backward_weight:
      return 2;
    case pipeline::Work::recompute:
      return 3;
  }
  return 0;
}

draw::GanttBar bar_of(const WorkItem& item, const Span& span, int kind, int chunks) {
  return {.begin_s = span.begin_s,
          .end_s = span.end_s,
          .kind = kind,
          .hint = to_string(item, chunks),
          .label = fmt::format("{}", item.micro_batch)};
}

draw::GanttRow work_row(const Compared& one, int stage) {
  draw::GanttRow row;
  const auto& items = one.schedule.stages[at(stage)];
  for (int k = 0; k < int_size(items); ++k)
    row.bars.push_back(bar_of(items[at(k)], one.timing.items[at(stage)][at(k)], colour_of(items[at(k)].work),
                              one.schedule.num_chunks));
  return row;
}

void check_drawable(std::int64_t items) {
  if (items > kMostDrawnItems)
    bad_input("{} items are too many for a picture of at most {}; use fewer stages or micro-batches, or --trace", items,
              kMostDrawnItems);
}

std::string summary_of(const Compared& one) {
  return fmt::format("{}, {} micro-batches: {}, bubble {:.1f} %, at most {:.4g} activations", one.schedule.name,
                     one.schedule.num_micro_batches, format_duration(one.timing.makespan_s), 100 * one.timing.bubble,
                     one.verdict.peak());
}

}  // namespace

std::string schedule_svg(const Compared& one, const std::string& title) {
  check_drawable(num_items(one.schedule));
  draw::Gantt what{.title = title, .subtitle = summary_of(one), .kinds = kWorkNames};
  what.kinds.emplace_back("transfer");
  for (int s = 0; s < one.schedule.num_stages(); ++s) {
    draw::GanttRow work = work_row(one, s), sends;
    work.group = sends.group = fmt::format("stage {}", s);
    work.name = "work";
    sends.name = "sends";
    for (const pipeline::Sent& sent : one.timing.sends) {
      if (sent.from != s) continue;
      sends.bars.push_back(bar_of(sent.item, sent.sending, kTransferColour, one.schedule.num_chunks));
      sends.bars.back().share = 0.5;  // a link for each direction
      sends.bars.back().hint += fmt::format(" to stage {}", sent.to);
    }
    what.rows.push_back(std::move(work));
    if (one.schedule.num_stages() > 1) what.rows.push_back(std::move(sends));
  }
  return draw::gantt(what);
}

std::string schedules_svg(const std::vector<Compared>& all, const std::string& title) {
  draw::Gantt what{.title = title, .kinds = kWorkNames};
  std::int64_t items = 0;
  for (const Compared& one : all) {
    items += num_items(one.schedule);
    for (int s = 0; s < one.schedule.num_stages(); ++s) {
      draw::GanttRow row = work_row(one, s);
      row.group = one.schedule.name;
      row.name = fmt::format("{}", s);
      what.rows.push_back(std::move(row));
    }
    what.subtitle += fmt::format("{}{} {}, {:.4g} activations", what.subtitle.empty() ? "" : "; ", one.schedule.name,
                                 format_duration(one.timing.makespan_s), one.verdict.peak());
  }
  check_drawable(items);
  return draw::gantt(what);
}

}  // namespace weft
