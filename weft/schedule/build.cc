#include "weft/schedule/build.h"

#include <algorithm>

#include <fmt/core.h>

#include "weft/base/error.h"
#include "weft/base/names.h"

namespace weft::pipeline {
namespace {

constexpr Names<Kind, 5> kKindNames{{{Kind::gpipe, "gpipe"},
                                     {Kind::one_f_one_b, "1f1b"},
                                     {Kind::eager_1f1b, "eager_1f1b"},
                                     {Kind::interleaved_1f1b, "interleaved_1f1b"},
                                     {Kind::zero_bubble, "zero_bubble"}}};

// All forwards, then all backwards; in groups of as many as memory holds.
Schedule build_gpipe(int stages, int micro_batches, int group) {
  Schedule schedule{.num_micro_batches = micro_batches};
  std::vector<WorkItem> items;
  for (int first = 0; first < micro_batches; first += group) {
    const int last = std::min(first + group, micro_batches);
    for (int b = first; b < last; ++b) items.push_back({Work::forward, 0, b});
    for (int b = first; b < last; ++b) items.push_back({Work::backward, 0, b});
  }
  schedule.stages.assign(num(stages), items);
  return schedule;
}

// Turn k of the order in which an interleaved stage takes its chunks: n micro-batches through one chunk, then through
// the next; after the last chunk the next n micro-batches.
WorkItem interleaved(Work work, int turn, int stages, int chunks) {
  const int group = turn / (stages * chunks), within = turn % (stages * chunks), chunk = within / stages;
  return {work, work == Work::forward ? chunk : chunks - 1 - chunk, group * stages + within % stages};
}

Schedule build_interleaved(const BuildOptions& o) {
  if (o.micro_batches % o.stages != 0) {
    const int below = o.micro_batches / o.stages * o.stages;
    bad_input("interleaved_1f1b takes {} micro-batches at a time, one per stage: {} is no multiple; use {}{}", o.stages,
              o.micro_batches, below == 0 ? "" : fmt::format("{} or ", below), below + o.stages);
  }
  Schedule schedule{.num_micro_batches = o.micro_batches, .num_chunks = o.chunks};
  const int turns = o.micro_batches * o.chunks;
  for (int i = 0; i < o.stages; ++i) {
    const int warm_up = std::min(turns, 2 * (o.stages - i - 1) + (o.chunks - 1) * o.stages);
    const int held = std::min(turns, warm_up + 1);
    if (o.memory > 0 && held > o.memory * o.chunks)
      bad_input(
          "interleaved_1f1b with {} chunks holds {:.4g} activations on stage {}, but memory is {}; use another kind "
          "or a memory of {}",
          o.chunks, static_cast<double>(held) / o.chunks, i, o.memory, (held + o.chunks - 1) / o.chunks);
    std::vector<WorkItem> items;
    for (int k = 0; k < warm_up; ++k) items.push_back(interleaved(Work::forward, k, o.stages, o.chunks));
    for (int k = 0; k < turns; ++k) {
      if (warm_up + k < turns) items.push_back(interleaved(Work::forward, warm_up + k, o.stages, o.chunks));
      items.push_back(interleaved(Work::backward, k, o.stages, o.chunks));
    }
    schedule.stages.push_back(std::move(items));
  }
  return schedule;
}

Schedule build_kind(const BuildOptions& o) {
  const int n = o.stages, m = o.micro_batches, memory = o.memory > 0 ? o.memory : m;
  if (o.kind == Kind::gpipe) return build_gpipe(n, m, std::min(m, memory));
  if (o.kind == Kind::interleaved_1f1b) return build_interleaved(o);
  const int slope = o.kind == Kind::eager_1f1b ? 2 : 1;
  std::vector<int> warm_up = ramp(n, slope * (n - 1)), delay;
  if (o.memory > 0 && slope * (n - 1) > o.memory - 1) warm_up = ramp(n, o.memory - 1);
  if (o.kind == Kind::zero_bubble)
    for (int i = 0; i < n; ++i) delay.push_back(o.memory > 0 ? std::min(i, o.memory - 1 - warm_up[at(i)]) : i);
  return build_turns(m, warm_up, delay);
}

}  // namespace

std::string_view to_string(Kind kind) { return name_of(kKindNames, kind); }
Kind parse_kind(std::string_view name) { return parse_name(kKindNames, "kind of schedule", name); }

std::vector<int> ramp(int stages, int first) {
  std::vector<int> out;
  for (int i = 0; i < stages; ++i) {
    const std::int64_t last = std::max(1, stages - 1);
    out.push_back(static_cast<int>((std::int64_t{first} * (stages - 1 - i) + last - 1) / last));
  }
  return out;
}

Schedule build_turns(int micro_batches, const std::vector<int>& warm_up, const std::vector<int>& delay) {
  Schedule schedule{.name = "turns", .num_micro_batches = micro_batches};
  for (int i = 0; i < int_size(warm_up); ++i) {
    std::vector<WorkItem> items;
    const int before = std::min(warm_up[at(i)], micro_batches);
    for (int b = 0; b < before; ++b) items.push_back({Work::forward, 0, b});
    for (int k = 0; k < micro_batches; ++k) {
      if (before + k < micro_batches) items.push_back({Work::forward, 0, before + k});
      items.push_back({delay.empty() ? Work::backward : Work::backward_input, 0, k});
      if (!delay.empty() && k >= delay[at(i)]) items.push_back({Work::backward_weight, 0, k - delay[at(i)]});
    }
    if (!delay.empty())
      for (int k = std::max(0, micro_batches - delay[at(i)]); k < micro_batches; ++k)
        items.push_back({Work::backward_weight, 0, k});
    schedule.stages.push_back(std::move(items));
  }
  return schedule;
}

Schedule with_split_backward(const Schedule& schedule) {
  Schedule out = schedule;
  for (auto& items : out.stages) {
    std::vector<WorkItem> split;
    for (const WorkItem& item : items) {
      split.push_back(item);
      if (item.work != Work::backward) continue;
      split.back().work = Work::backward_input;
      split.push_back({Work::backward_weight, item.chunk, item.micro_batch});
    }
    items = std::move(split);
  }
  return out;
}

Schedule with_recompute(const Schedule& schedule) {
  Schedule out = schedule;
  for (auto& items : out.stages) {
    std::vector<WorkItem> longer;
    for (const WorkItem& item : items) {
      if (is_backward(item.work)) longer.push_back({Work::recompute, item.chunk, item.micro_batch});
      longer.push_back(item);
    }
    items = std::move(longer);
  }
  return out;
}

Schedule build(const BuildOptions& options) {
  check_sizes(options.stages, options.micro_batches, options.kind == Kind::interleaved_1f1b ? options.chunks : 1);
  if (options.memory < 0) bad_input("a memory of {} activations; use 1 or more, or 0 for no limit", options.memory);
  Schedule schedule = build_kind(options);
  if (options.backward == Backward::split) schedule = with_split_backward(schedule);
  if (options.recompute == Recompute::yes) schedule = with_recompute(schedule);
  schedule.name = to_string(options.kind);
  return schedule;
}

}  // namespace weft::pipeline
