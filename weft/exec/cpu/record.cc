#include "weft/exec/cpu/record.h"

#include <algorithm>
#include <set>
#include <utility>

#include <fmt/core.h>

#include "weft/base/index.h"
#include "weft/base/trace.h"
#include "weft/base/units.h"
#include "weft/plan/plan.h"
#include "weft/plan/program.h"

namespace weft {
namespace {

constexpr std::size_t kFlightEvents = 2048;
constexpr std::size_t kTraceEvents = 1 << 17;  // of one thread and one op

std::string tile_of(const Action& action, std::int64_t lane) {
  return action.box.dims > 0 ? to_string(lane_box(action.box, action.tile, lane)) : "";
}

std::string_view rule_name(const RecordContext& c, const Action& action) { return c.plan.rules[action.rule].name; }

double us(const RecordContext& c, std::int64_t stamp) {
  return static_cast<double>(to_ns(stamp, c.begin, c.end)) * 1e-3;
}

// Other ranks that a lane stores to.
std::string peers_of(const RecordContext& c, const Action& action) {
  std::string out;
  for (const Piece& target : c.program.targets(action))
    if (target.rank != c.program.rank) out += fmt::format("{}{}", out.empty() ? "" : ",", c.world_rank[target.rank]);
  return out;
}

void add_lane(const RecordContext& c, TraceText::Row row, const Event& e, TraceText* out) {
  const Action& action = c.program.actions[at(e.action)];
  const std::string peers = peers_of(c, action);
  const std::string args =
      fmt::format(R"("run":{},"tile":{},"box":"{}","to":"{}")", e.run, e.lane, tile_of(action, e.lane), peers);
  const std::string name(rule_name(c, action));
  const bool step = action.kind == ActionKind::step;
  const double begin = us(c, e.begin), end = us(c, e.end), made = e.made > 0 ? us(c, e.made) : end;
  if (!step) return out->slice(row, name, "trigger", begin, end - begin, args);
  out->slice(row, "make " + name, "made", begin, made - begin, args);
  if (e.made > 0) out->slice(row, "store " + name, "stored", made, end - made, args);
}

void add_wait(const RecordContext& c, TraceText::Row row, const Event& e, TraceText* out) {
  const double begin = us(c, e.begin), end = us(c, e.end);
  if (e.action < 0)
    return out->slice(row, "wait: end of run", "waited", begin, end - begin, fmt::format(R"("run":{})", e.run));
  const Action& action = c.program.actions[at(e.action)];
  out->slice(row, fmt::format("wait: {}", rule_name(c, action)), "waited", begin, end - begin,
             fmt::format(R"("run":{},"tile":{},"box":"{}")", e.run, e.lane, tile_of(action, e.lane)));
}

std::string line_of(const RecordContext& c, const Event& e) {
  const auto what = [&] {
    if (e.action < 0) return std::string("the end of the run");
    const Action& action = c.program.actions[at(e.action)];
    return fmt::format("{}, tile {} {}", describe(c.plan, c.program, num(e.action)), e.lane, tile_of(action, e.lane));
  };
  if (e.kind == EventKind::wait)
    return fmt::format("waited {} for {}", format_duration((us(c, e.end) - us(c, e.begin)) * 1e-6), what());
  const Action& action = c.program.actions[at(e.action)];
  const std::string peers = peers_of(c, action);
  return fmt::format("did {}{}", what(), peers.empty() ? "" : fmt::format(" to rank {}", peers));
}

}  // namespace

Recorder::Recorder(Detail detail) : detail_(detail) {
  if (detail == Detail::none) return;
  events_.resize(detail == Detail::trace ? kTraceEvents : kFlightEvents);
  mask_ = events_.size() - 1;
}

std::vector<Event> Recorder::events() const {
  std::vector<Event> out;
  for (std::uint64_t i = lost(); i < count_; ++i) out.push_back(events_[i & mask_]);
  return out;
}

void add_slices(const RecordContext& c, int thread, const Recorder& recorder, TraceText* out) {
  const int rank = c.world_rank[c.program.rank];
  const TraceText::Row row{rank, thread};
  std::set<int> named;
  for (const Event& e : recorder.events()) {
    if (e.kind == EventKind::lane) add_lane(c, row, e, out);
    if (e.kind == EventKind::wait) add_wait(c, row, e, out);
    if (e.kind != EventKind::link) continue;
    const int peer = c.world_rank[e.lane];
    const TraceText::Row link{TraceText::kLinks, rank * 1024 + peer};
    if (named.insert(peer).second) out->name_row(link, fmt::format("rank {} to rank {}", rank, peer));
    out->slice(link, c.plan.name, "link", static_cast<double>(e.begin) * 1e-3,
               static_cast<double>(e.end - e.begin) * 1e-3, fmt::format(R"("bytes":{},"run":{})", e.bytes, e.run));
  }
  if (recorder.lost() > 0)
    out->slice(row, fmt::format("{} earlier events were not kept", recorder.lost()), "lost",
               static_cast<double>(c.begin.ns) * 1e-3, 1);
}

std::string last_events(const RecordContext& c, const std::vector<const Recorder*>& threads, std::size_t lines) {
  std::vector<std::pair<Event, int>> all;
  for (std::size_t t = 0; t < threads.size(); ++t)
    for (const Event& e : threads[t]->events())
      if (e.kind != EventKind::link) all.emplace_back(e, static_cast<int>(t));
  std::stable_sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.first.end < b.first.end; });
  std::string out;
  const double now = static_cast<double>(c.end.ns) * 1e-3;
  for (std::size_t i = all.size() > lines ? all.size() - lines : 0; i < all.size(); ++i) {
    const auto& [e, thread] = all[i];
    out += fmt::format("{:>10} ago  run {:<4} thread {}  {}\n", format_duration((now - us(c, e.end)) * 1e-6), e.run,
                       thread, line_of(c, e));
  }
  return out;
}

}  // namespace weft
