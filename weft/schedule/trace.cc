#include "weft/schedule/trace.h"

#include <fmt/core.h>

#include "weft/base/trace.h"
#include "weft/schedule/save.h"

namespace weft::pipeline {

std::string trace(const Schedule& schedule, const Timing& timing) {
  TraceText text;
  const auto args = [](const WorkItem& item) {
    return fmt::format("\"micro_batch\": {}, \"chunk\": {}", item.micro_batch, item.chunk);
  };
  const auto slice = [&](int stage, int row, const WorkItem& item, const Span& span, std::string_view category) {
    text.slice({stage, row}, to_text(item), category, span.begin_s * 1e6, (span.end_s - span.begin_s) * 1e6,
               args(item));
  };
  for (int s = 0; s < schedule.num_stages(); ++s) {
    text.name_process(s, fmt::format("stage {}", s), s);
    text.name_row({s, 0}, "work");
    text.name_row({s, 1}, "sends forward");
    text.name_row({s, 2}, "sends backward");
    const auto& items = schedule.stages[at(s)];
    for (int k = 0; k < int_size(items); ++k)
      slice(s, 0, items[at(k)], timing.items[at(s)][at(k)], to_string(items[at(k)].work));
  }
  for (const Sent& sent : timing.sends)
    slice(sent.from, sent.item.work == Work::forward ? 1 : 2, sent.item, sent.sending, "transfer");
  return TraceText::file({text.events()});
}

}  // namespace weft::pipeline
