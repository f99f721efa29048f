#include "weft/sim/net/script.h"

#include <algorithm>
#include <cassert>

#include "weft/base/error.h"
#include "weft/plan/assumptions.h"
#include "weft/plan/price/traffic.h"

namespace weft::netsim {
namespace {

constexpr std::int64_t kMaxParts = std::int64_t{1} << 28;  // bursts, needs, sends and raises of one script

// Where cells begin, by counter. A cell ends where any burst's range of counters begins or ends.
class Cuts {
 public:
  explicit Cuts(std::int64_t counters) : cut_(num(counters + 1), false) {}
  void add(Part counters) { cut_[at(counters.begin)] = cut_[at(counters.end)] = true; }

  // Numbers cells; counters that nobody names join the one before.
  void number(Script* script) {
    cell_.assign(cut_.size(), 0);
    std::int32_t cell = 0;
    for (std::size_t i = 0; i < cut_.size(); ++i) {
      if (i == 0 || cut_[i]) {
        cell_[i] = cell++;
        if (i + 1 < cut_.size()) script->first_counter.push_back(static_cast<std::int32_t>(i));
      } else {
        cell_[i] = cell;  // no range begins or ends here
      }
    }
  }
  Part cells(Part counters) const { return {cell_[at(counters.begin)], cell_[at(counters.end)]}; }

 private:
  std::vector<bool> cut_;
  std::vector<std::int32_t> cell_;
};

class Writer {
 public:
  Writer(const Plan& plan, const Program& program, const ScriptOptions& options, std::int64_t burst,
         const std::vector<std::int32_t>* raised)
      : plan_(plan),
        program_(program),
        options_(options),
        burst_(burst),
        raised_(raised),
        place_of_(num(plan.num_ranks), -1) {}

  Script write() {
    for (std::size_t a = 0; a < program_.actions.size(); ++a) {
      const Action& action = program_.actions[a];
      if (action.lanes == 0) continue;  // an empty chunk: does nothing, signals nothing
      out_.lanes += action.lanes;
      const double seconds =
          action.kind == ActionKind::step && options_.step_seconds ? options_.step_seconds(program_, action) : 0;
      for (std::int64_t lane = 0; lane < action.lanes; lane += burst_)
        add_burst(a, lane, std::min(lane + burst_, action.lanes), seconds);
      for (const Signal& signal : program_.signals_of(action))
        if (signal.rank != program_.rank) out_.signals += action.lanes;
    }
    return std::move(out_);
  }

 private:
  void add_burst(std::size_t a, std::int64_t lo, std::int64_t hi, double seconds) {
    const Action& action = program_.actions[a];
    Burst burst;
    burst.action = static_cast<std::int32_t>(a);
    burst.lane = static_cast<std::int32_t>(lo), burst.lanes = static_cast<std::int32_t>(hi - lo);
    burst.is_step = action.kind == ActionKind::step;
    burst.order = action.order + lo * action.order_step;
    if (burst.order != 0) out_.has_order = true;
    const auto made_by = [&](std::int64_t lane) {
      return sim::picoseconds(seconds * static_cast<double>(lane) / static_cast<double>(action.lanes));
    };
    burst.made_in = made_by(hi) - made_by(lo);
    burst.needs.begin = int_size(out_.needs);
    for (const Wait& wait : program_.of(action))
      if (wait.lag == 0 && wait.at > 0) out_.needs.push_back({range(wait.counter, wait.per, lo, hi), wait.at});
    burst.needs.end = int_size(out_.needs);
    burst.sends.begin = int_size(out_.sends);
    add_sends(action, lo, hi);
    burst.sends.end = int_size(out_.sends);
    if (burst.is_step) out_.steps.push_back(int_size(out_.bursts));
    out_.bursts.push_back(burst);
    if (int_size(out_.bursts) + int_size(out_.needs) + int_size(out_.sends) + int_size(out_.raises) > kMaxParts)
      bad_input("plan \"{}\" has more than {} parts on rank {}; use larger bursts", plan_.name, kMaxParts,
                program_.rank);
  }

  static Part range(std::int32_t counter, std::int32_t per, std::int64_t lo, std::int64_t hi) {
    if (per == 0) return {counter, counter + 1};
    return {static_cast<std::int32_t>(counter + lo / per), static_cast<std::int32_t>(counter + (hi - 1) / per + 1)};
  }

  std::int64_t bytes(const Action& action, const Piece& target, std::int64_t lo, std::int64_t hi) const {
    if (lo == 0 && hi == action.lanes) return travel_bytes(plan_, program_, action, target);
    std::int64_t sum = 0;
    for (std::int64_t lane = lo; lane < hi; ++lane)
      sum +=
          travel_bytes(plan_, program_, action, {target.rank, target.buffer, lane_box(target.box, action.tile, lane)});
    return sum;
  }

  // One send per rank, in the order in which targets and signals name them.
  void add_sends(const Action& action, std::int64_t lo, std::int64_t hi) {
    const std::size_t first = out_.sends.size();
    const auto send_to = [&](std::int32_t rank) -> Send& {
      std::int32_t& place = place_of_[at(rank)];
      if (place < 0) {
        place = int_size(out_.sends);
        out_.sends.push_back({0, rank, {}});
      }
      return out_.sends[at(place)];
    };
    for (const Piece& target : program_.targets(action))
      if (target.rank != program_.rank) send_to(target.rank).bytes += bytes(action, target, lo, hi);
    for (const Signal& signal : program_.signals_of(action)) ++send_to(signal.rank).raises.end;
    std::int32_t at_raise = int_size(out_.raises);
    for (std::size_t i = first; i < out_.sends.size(); ++i) {  // room for up to three raises a signal
      Part& raises = out_.sends[i].raises;
      const std::int32_t most = 3 * raises.end;
      raises = {at_raise, at_raise};
      at_raise += most;
    }
    out_.raises.resize(at(at_raise));
    for (std::int32_t g = action.signals.begin; g < action.signals.end; ++g) {
      const Signal& signal = program_.signals[at(g)];
      const std::int32_t counter = raised_ ? (*raised_)[at(g)] : signal.counter;
      add_raises(&send_to(signal.rank).raises, counter, signal.per, lo, hi);
    }
    close_gaps(first);
    for (std::size_t i = first; i < out_.sends.size(); ++i) place_of_[at(out_.sends[i].to)] = -1;
  }

  // Counters at the ends of the range may be shared with lanes of other bursts.
  void add_raises(Part* raises, std::int32_t counter, std::int32_t per, std::int64_t lo, std::int64_t hi) {
    const auto add = [&](std::int64_t begin, std::int64_t end, std::int64_t lanes) {
      out_.raises[at(raises->end++)] = {
          {static_cast<std::int32_t>(counter + begin), static_cast<std::int32_t>(counter + end)},
          static_cast<std::uint32_t>(lanes)};
    };
    if (per == 0) return add(0, 1, hi - lo);
    const std::int64_t first = lo / per, last = (hi - 1) / per;
    if (first == last) return add(first, last + 1, hi - lo);
    const bool begins = lo % per != 0, ends = hi % per != 0;
    if (begins) add(first, first + 1, (first + 1) * per - lo);
    if (first + begins < last + 1 - ends) add(first + begins, last + 1 - ends, per);
    if (ends) add(last, last + 1, hi - last * per);
  }

  void close_gaps(std::size_t first) {
    if (first == out_.sends.size()) return;
    std::int32_t end = out_.sends[first].raises.begin;
    for (std::size_t i = first; i < out_.sends.size(); ++i) {
      Part& raises = out_.sends[i].raises;
      const std::int32_t begin = end;
      for (std::int32_t r = raises.begin; r < raises.end; ++r) out_.raises[at(end++)] = out_.raises[at(r)];
      raises = {begin, end};
    }
    out_.raises.resize(at(end));
  }

  const Plan& plan_;
  const Program& program_;
  const ScriptOptions& options_;
  const std::int64_t burst_;
  const std::vector<std::int32_t>* raised_;
  std::vector<std::int32_t> place_of_;  // of a rank among the sends of this burst
  Script out_;
};

std::int64_t lanes_of(const Program& program) {
  std::int64_t sum = 0;
  for (const Action& action : program.actions) sum += action.lanes;
  return sum;
}

// Tile by tile, unless that is too much; then as few tiles together as bring it down. Ranks are much alike: the first
// speaks for all.
std::int64_t chosen_burst(const Plan& plan, const Program& first, const ScriptOptions& options, std::int64_t scripts) {
  if (options.burst < 0) bad_input("bursts of {} tiles; use at least 1, or 0 for a choice", options.burst);
  if (options.burst > 0) return options.burst;
  std::int64_t burst = 1;
  const auto bursts = [&] {
    std::int64_t sum = 0;
    for (const Action& action : first.actions) sum += ceil_div(action.lanes, burst);
    return sum;
  };
  const std::int64_t most = kMaxBursts / std::max<std::int64_t>(scripts, 1);
  while (bursts() > most && burst < lanes_of(first)) burst *= 2;
  (void)plan;
  return burst;
}

void name_cells(Script* script, Cuts* own, const std::function<Cuts&(std::int32_t)>& cuts_of) {
  for (Need& need : script->needs) need.cells = own->cells(need.cells);
  for (const Send& send : script->sends)
    for (std::int32_t r = send.raises.begin; r < send.raises.end; ++r) {
      Raise& raise = script->raises[at(r)];
      raise.cells = cuts_of(send.to).cells(raise.cells);
    }
  for (Burst& burst : script->bursts)
    for (std::int32_t n = burst.needs.begin; n < burst.needs.end; ++n)
      burst.missing += script->needs[at(n)].cells.size();
}

void index_watches(Script* script) {
  script->first_watch.assign(num(script->num_cells() + 1), 0);
  for (const Need& need : script->needs)
    for (std::int32_t c = need.cells.begin; c < need.cells.end; ++c) ++script->first_watch[at(c + 1)];
  for (std::size_t c = 1; c < script->first_watch.size(); ++c) script->first_watch[c] += script->first_watch[c - 1];
  script->watches.resize(at(script->first_watch.back()));
  std::vector<std::int32_t> next(script->first_watch.begin(), script->first_watch.end() - 1);
  for (int b = 0; b < int_size(script->bursts); ++b)
    for (std::int32_t n = script->bursts[at(b)].needs.begin; n < script->bursts[at(b)].needs.end; ++n) {
      const Need& need = script->needs[at(n)];
      for (std::int32_t c = need.cells.begin; c < need.cells.end; ++c)
        script->watches[at(next[at(c)]++)] = {b, need.at};
    }
}

void shrink(Script* script) {
  script->bursts.shrink_to_fit();
  script->needs.shrink_to_fit();
  script->sends.shrink_to_fit();
  script->raises.shrink_to_fit();
}

void mark(const Script& script, Cuts* own, const std::function<Cuts&(std::int32_t)>& cuts_of) {
  for (const Need& need : script.needs) own->add(need.cells);
  for (const Send& send : script.sends)
    for (std::int32_t r = send.raises.begin; r < send.raises.end; ++r) cuts_of(send.to).add(script.raises[at(r)].cells);
}

}  // namespace

bool sends_whole_actions(const Plan& plan, const Program& zero, const ScriptOptions& options) {
  const std::int64_t burst = chosen_burst(plan, zero, options, plan.num_ranks);
  return std::all_of(zero.actions.begin(), zero.actions.end(),
                     [&](const Action& action) { return action.lanes <= burst; });
}

Scripts every_script(const Plan& plan, const Expander& expander, const ScriptOptions& options) {
  Scripts out;
  std::vector<Cuts> cuts;
  for (int rank = 0; rank < plan.num_ranks; ++rank) cuts.emplace_back(expander.num_counters(rank));
  const auto cuts_of = [&](std::int32_t rank) -> Cuts& { return cuts[at(rank)]; };
  Program program;
  for (int rank = 0; rank < plan.num_ranks; ++rank) {
    expander.program(rank, &program);
    assert(assumptions_hold(plan, expander, program));  // verify() has proved it
    if (rank == 0) out.burst = chosen_burst(plan, program, options, plan.num_ranks);
    out.of.push_back(Writer(plan, program, options, out.burst, nullptr).write());
    shrink(&out.of.back());
    mark(out.of.back(), &cuts[at(rank)], cuts_of);
  }
  for (int rank = 0; rank < plan.num_ranks; ++rank) cuts[at(rank)].number(&out.of[at(rank)]);
  for (int rank = 0; rank < plan.num_ranks; ++rank) name_cells(&out.of[at(rank)], &cuts[at(rank)], cuts_of);
  cuts.clear();
  for (Script& script : out.of) index_watches(&script);
  return out;
}

Scripts one_script(const Plan& plan, const Expander& expander, const Program& program,
                   const std::vector<std::int32_t>& raised, const ScriptOptions& options) {
  assert(assumptions_hold(plan, expander, program));  // verify() has proved it
  Scripts out;
  out.shared = true;
  out.burst = chosen_burst(plan, program, options, plan.num_ranks);
  Cuts cuts(expander.num_counters(0));
  const auto same = [&](std::int32_t) -> Cuts& { return cuts; };
  out.of.push_back(Writer(plan, program, options, out.burst, &raised).write());
  mark(out.of[0], &cuts, same);
  cuts.number(&out.of[0]);
  name_cells(&out.of[0], &cuts, same);
  index_watches(&out.of[0]);
  return out;
}

}  // namespace weft::netsim
