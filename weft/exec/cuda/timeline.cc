#include "weft/exec/cuda/timeline.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>

#include <fmt/core.h>
#include <fmt/ranges.h>

#include "weft/base/index.h"
#include "weft/base/trace.h"
#include "weft/exec/cuda/lane_table.h"
#include "weft/plan/plan.h"
#include "weft/plan/program.h"

namespace weft {
namespace {

// From the first time that anybody has written down to the last.
struct Span {
  std::uint64_t begin = UINT64_MAX, end = 0;

  void add(std::uint64_t time) {
    if (time == 0) return;
    begin = std::min(begin, time), end = std::max(end, time);
  }
  void add(const LaneTimes& times) {
    for (const std::uint64_t time :
         {times.rows, times.rows_met, times.asked, times.asked_last, times.waits, times.stores, times.told})
      add(time);
  }
  bool empty() const { return end == 0; }
};

Span span_of(const DeviceTimes& times) {
  Span out;
  for (const RankTimes& rank : times.ranks) {
    for (const LaneTimes& one : rank.lanes) out.add(one);
    for (const std::uint64_t time : rank.met) out.add(time);
  }
  return out;
}

// Lanes are dealt out pair by pair to clusters, triggers one by one to CTAs (fused_gemm.cuh).
int cta_of_lane(const DeviceTimes& times, std::size_t lane) {
  return static_cast<int>(lane / 2 % num(times.clusters_per_rank) * 2 + lane % 2);
}
int cta_of_trigger(const DeviceTimes& times, std::size_t trigger) {
  return static_cast<int>(trigger % num(2 * times.clusters_per_rank));
}

// Who raises a counter, and what it is called.
class CounterNames {
 public:
  CounterNames(const Plan& plan, const DevicePlan& device) : expander_(plan), device_(device) {
    for (int r = 0; r < int_size(device.tables); ++r)
      for (const DeviceSignal& signal : device.tables[at(r)].signals)
        raised_by_[{signal.rank, signal.counter}].insert(r);
    for (std::size_t i = 0; i < device.crossings.size(); ++i)
      crossings_[{device.crossings[i].to, device.crossings[i].arrived}] = i;
  }

  // The inside of a JSON object: "for": "full[3]", "from": "2".
  std::string args(int rank, std::uint32_t counter) const {
    if (const auto found = crossings_.find({rank, counter}); found != crossings_.end())
      return fmt::format(R"("for":"crossing {}","from":"{}")", found->second, device_.crossings[found->second].from);
    const auto by = raised_by_.find({rank, counter});
    return fmt::format(R"("for":"{}","from":"{}")", expander_.counter_name(static_cast<int>(counter), rank),
                       fmt::join(by == raised_by_.end() ? std::set<int>{rank} : by->second, ","));
  }

 private:
  using Key = std::pair<int, std::uint32_t>;
  const Expander expander_;
  const DevicePlan& device_;
  std::map<Key, std::set<int>> raised_by_;
  std::map<Key, std::size_t> crossings_;
};

enum class CtaRow { operands, waits, stores, triggers };
constexpr const char* kCtaRows[] = {"operands", "waits", "stores", "triggers"};

// The slices of one rank.
class RankTimeline {
 public:
  RankTimeline(const Plan& plan, const DevicePlan& device, const CounterNames& names, const DeviceTimes& times,
               std::size_t which, std::uint64_t begin, TraceText* out)
      : plan_(plan),
        rank_(times.first_rank + static_cast<int>(which)),
        program_(Expander(plan).program(rank_)),
        table_(device.tables[at(rank_)]),
        names_(names),
        all_(times),
        times_(times.ranks[which]),
        begin_(begin),
        out_(*out) {
    for (std::size_t a = 0; a < program_.actions.size(); ++a) actions_.push_back(describe(plan, program_, a));
  }

  void write() {
    out_.name_process(rank_, fmt::format("rank {}", rank_), rank_);
    for (int cta = 0; cta < 2 * all_.clusters_per_rank; ++cta)
      for (const CtaRow row : {CtaRow::operands, CtaRow::waits, CtaRow::stores, CtaRow::triggers})
        out_.name_row(row_of(cta, row), fmt::format("cta {:2}: {}", cta, kCtaRows[static_cast<int>(row)]));
    for (std::size_t i = 0; i < table_.lanes.size(); ++i) add_lane(i);
    for (std::size_t i = 0; i < table_.triggers.size(); ++i) {
      const DeviceLane& trigger = table_.triggers[i];
      const LaneTimes& times = times_.lanes[table_.lanes.size() + i];
      add(row_of(cta_of_trigger(all_, i), CtaRow::triggers), rule_of(trigger), "trigger", times.stores, times.told,
          args_of(trigger));
    }
  }

 private:
  TraceText::Row row_of(int cta, CtaRow row) const { return {rank_, cta * 4 + static_cast<int>(row)}; }
  const Action& action_of(const DeviceLane& lane) const { return program_.actions[at(lane.action)]; }
  const std::string& rule_of(const DeviceLane& lane) const { return plan_.rules[at(action_of(lane).rule)].name; }

  std::string args_of(const DeviceLane& lane) const {
    const Action& action = action_of(lane);
    const bool has_box = action.box.dims > 0 && lane.lane >= 0;
    std::set<int> to;
    for (const Piece& target : program_.targets(action))
      if (target.rank != rank_ && lane.lane >= 0) to.insert(target.rank);
    return fmt::format(R"("run":{},"tile":{},"box":"{}","to":"{}","in":"{}")", all_.run, lane.lane,
                       has_box ? to_string(lane_box(action.box, action.tile, lane.lane)) : "", fmt::join(to, ","),
                       actions_[at(lane.action)]);
  }

  void add(TraceText::Row row, const std::string& name, const char* category, std::uint64_t begin, std::uint64_t end,
           const std::string& args) {
    if (begin == 0 || end < begin) return;
    out_.slice(row, name, category, us(begin), static_cast<double>(end - begin) * 1e-3, args);
  }
  double us(std::uint64_t time) const { return static_cast<double>(time - begin_) * 1e-3; }

  void add_lane(std::size_t index) {
    const DeviceLane& lane = table_.lanes[index];
    const LaneTimes& times = times_.lanes[index];
    const int cta = cta_of_lane(all_, index);
    const std::string& rule = rule_of(lane);
    const std::string args = args_of(lane);
    const bool fills = lane.lane < 0;  // makes the tile of its neighbour again and keeps nothing
    const auto operands = row_of(cta, CtaRow::operands), stores = row_of(cta, CtaRow::stores);
    add(operands, "wait: " + rule, "waited", times.rows, times.rows_met, args);
    add(operands, (fills ? "fill " : "make ") + rule, fills ? "filled" : "made", times.asked, times.asked_last, args);
    add_waits(lane, times, row_of(cta, CtaRow::waits), args);
    if (action_of(lane).kind == ActionKind::step)
      add(stores, "store " + rule, "stored", times.stores, times.told, args);
    else
      add(stores, rule, "trigger", times.stores, times.told, args);
  }

  // One after the other, as they were waited for.
  void add_waits(const DeviceLane& lane, const LaneTimes& times, TraceText::Row row, const std::string& args) {
    std::uint64_t begin = times.waits;
    for (int w = 0; w < lane.waits; ++w) {
      const std::uint64_t met = times_.met[at(lane.first_wait + w)];
      if (met == 0) continue;
      add(row, "wait: " + rule_of(lane), "waited", begin, met,
          args + "," + names_.args(rank_, table_.waits[at(lane.first_wait + w)].counter));
      begin = met;
    }
  }

  const Plan& plan_;
  const int rank_;
  const Program program_;
  const LaneTable& table_;
  const CounterNames& names_;
  const DeviceTimes& all_;
  const RankTimes& times_;
  const std::uint64_t begin_;
  TraceText& out_;
  std::vector<std::string> actions_;  // as failure.h describes them
};

// What one CTA has of a run.
struct CtaTime {
  Span busy;
  std::vector<std::pair<std::uint64_t, std::uint64_t>> waits;

  void add_wait(std::uint64_t begin, std::uint64_t end) {
    if (begin != 0 && end > begin) waits.emplace_back(begin, end);
  }
  // Warps 0 and 1 may wait at once.
  std::uint64_t waited() {
    std::sort(waits.begin(), waits.end());
    std::uint64_t out = 0, until = 0;
    for (const auto& [begin, end] : waits)
      if (end > until) out += end - std::max(begin, until), until = end;
    return out;
  }
};

std::vector<CtaTime> cta_times(const LaneTable& table, const DeviceTimes& all, const RankTimes& times) {
  std::vector<CtaTime> out(num(2 * all.clusters_per_rank));
  for (std::size_t i = 0; i < times.lanes.size(); ++i) {
    const bool trigger = i >= table.lanes.size();
    const LaneTimes& one = times.lanes[i];
    if (trigger && table.triggers[i - table.lanes.size()].targets == 0) continue;  // only signals: no work
    CtaTime& cta = out[at(trigger ? cta_of_trigger(all, i - table.lanes.size()) : cta_of_lane(all, i))];
    for (const std::uint64_t time : {one.asked, one.stores, one.told}) cta.busy.add(time);
    if (trigger) continue;
    cta.add_wait(one.rows, one.rows_met);
    std::uint64_t met = 0;
    for (int w = 0; w < table.lanes[i].waits; ++w) met = std::max(met, times.met[at(table.lanes[i].first_wait + w)]);
    cta.add_wait(one.waits, met);
  }
  return out;
}

}  // namespace

void add_slices(const Plan& plan, const DevicePlan& device, const DeviceTimes& times, TraceText* out) {
  const CounterNames names(plan, device);
  const std::uint64_t begin = span_of(times).begin;
  for (std::size_t r = 0; r < times.ranks.size(); ++r) RankTimeline(plan, device, names, times, r, begin, out).write();
}

TimelineShares shares_of(const DevicePlan& device, const DeviceTimes& times) {
  const Span run = span_of(times);
  if (run.empty() || run.end == run.begin) return {};
  double waited = 0, before = 0, after = 0;
  for (std::size_t r = 0; r < times.ranks.size(); ++r)
    for (CtaTime& cta : cta_times(device.tables[num(times.first_rank) + r], times, times.ranks[r])) {
      waited += static_cast<double>(cta.waited());
      before += static_cast<double>((cta.busy.empty() ? run.end : cta.busy.begin) - run.begin);
      after += static_cast<double>(cta.busy.empty() ? 0 : run.end - cta.busy.end);
    }
  const double ns = static_cast<double>(run.end - run.begin);
  const double all = ns * static_cast<double>(times.ranks.size()) * 2 * times.clusters_per_rank;
  return {ns * 1e-3, waited / all, before / all, after / all};
}

}  // namespace weft
