// What happened when: as lines of text for golden tests, and as the timeline format of real runs.
#include <algorithm>
#include <array>
#include <iterator>

#include <fmt/core.h>

#include "weft/base/trace.h"
#include "weft/sim/chip/run.h"

namespace weft::sim {
namespace {

constexpr std::array<const char*, kCauses> kCauseNames{"producer read", "producer write", "collective read",
                                                       "collective write", "tracker"};

std::vector<Slice> in_order(std::vector<Slice> slices) {
  std::stable_sort(slices.begin(), slices.end(), [](const Slice& a, const Slice& b) {
    return a.begin != b.begin ? a.begin < b.begin : a.row < b.row;
  });
  return slices;
}

std::string what(const Slice& slice) {
  return slice.row == Slice::Row::memory
             ? fmt::format("{} {} B", kCauseNames[static_cast<std::size_t>(slice.number)], slice.lane)
             : fmt::format("tile {}", slice.lane);
}

std::string where(const Slice& slice) {
  if (slice.row == Slice::Row::cu) return fmt::format("cu {}", slice.number);
  return slice.row == Slice::Row::memory ? "memory" : "link";
}

double microseconds(Time time) { return static_cast<double>(time) * 1e-6; }

}  // namespace

std::string slices_text(const RunResult& result) {
  std::string out;
  for (const Slice& slice : in_order(result.slices))
    fmt::format_to(std::back_inserter(out), "{:9.3f} - {:9.3f} us  {:<8}{}\n", microseconds(slice.begin),
                   microseconds(slice.end), where(slice), what(slice));
  return out;
}

std::string slices_trace(const RunResult& result, std::string_view name) {
  // Rows of the process of a device: memory by cause below 100, the CUs from there on. Links are a process of their
  // own.
  constexpr int kFirstCu = 100;
  TraceText trace;
  trace.name_process(0, name, 0);
  trace.name_process(TraceText::kLinks, "links", 1);
  trace.name_row({TraceText::kLinks, 0}, "out");
  for (int cause = 0; cause < kCauses; ++cause)
    trace.name_row({0, cause + 1}, fmt::format("memory: {}", kCauseNames[static_cast<std::size_t>(cause)]));
  int last_cu = -1;
  for (const Slice& slice : result.slices)
    if (slice.row == Slice::Row::cu) last_cu = std::max(last_cu, slice.number);
  for (int cu = 0; cu <= last_cu; ++cu) trace.name_row({0, kFirstCu + cu}, fmt::format("cu {}", cu));
  for (const Slice& slice : in_order(result.slices)) {
    const bool link = slice.row == Slice::Row::link, memory = slice.row == Slice::Row::memory;
    const TraceText::Row row{link ? TraceText::kLinks : 0, link     ? 0
                                                           : memory ? slice.number + 1
                                                                    : kFirstCu + slice.number};
    trace.slice(row, what(slice),
                link     ? "link"
                : memory ? "memory"
                         : "compute",
                microseconds(slice.begin), microseconds(slice.end - slice.begin));
  }
  return TraceText::file({trace.events()});
}

}  // namespace weft::sim
