// What is said of a plan that gets stuck: who waits for what, who would raise it, and what that one waits for in turn.
#include <algorithm>

#include <fmt/core.h>

#include "weft/base/error.h"
#include "weft/base/units.h"
#include "weft/plan/program.h"
#include "weft/sim/net/machine.h"

namespace weft::netsim {
namespace {

constexpr int kMostLinks = 6;  // of the chain that a message tells

}  // namespace

// A step that waits, before steps behind it and triggers that wait for those.
Machine::Blocked Machine::first_blocked() const {
  for (std::int32_t s = 0; s < int_size(seats_); ++s) {
    const Seat& seat = seats_[at(s)];
    if (at(seat.next_step) < seat.script->steps.size()) return {s, seat.script->steps[at(seat.next_step)]};
  }
  for (std::int32_t s = 0; s < int_size(seats_); ++s)
    for (int b = 0; b < int_size(seats_[at(s)].script->bursts); ++b)
      if (!has_fired(seats_[at(s)], b)) return {s, b};
  return {0, 0};
}

bool Machine::find_raiser(const Blocked& waiting, std::int32_t cell, Blocked* raiser) const {
  const Seat& waits = seats_[at(waiting.seat)];
  const Cast& cast = casts_[at(waits.job)];
  for (std::int32_t s = 0; s < int_size(seats_); ++s) {
    const Seat& seat = seats_[at(s)];
    if (seat.job != waits.job) continue;
    for (int b = 0; b < int_size(seat.script->bursts); ++b) {
      if (has_fired(seat, b)) continue;
      const Part sends = seat.script->bursts[at(b)].sends;
      for (std::int32_t i = sends.begin; i < sends.end; ++i) {
        const Send& send = seat.script->sends[at(i)];
        if (cast.seat_of[at(rank_of(seat, send.to))] != waiting.seat) continue;
        for (std::int32_t r = send.raises.begin; r < send.raises.end; ++r) {
          const Part cells = seat.script->raises[at(r)].cells;
          if (cells.begin > cell || cell >= cells.end) continue;
          *raiser = {s, b};
          return true;
        }
      }
    }
  }
  return false;
}

std::string Machine::name_of(const Blocked& blocked) const {
  const Seat& seat = seats_[at(blocked.seat)];
  const Plan& plan = *casts_[at(seat.job)].plan;
  const Program program = Expander(plan).program(seat.rank);
  return describe(plan, program, at(seat.script->bursts[at(blocked.burst)].action));
}

void Machine::report_stuck() const {
  Blocked blocked = first_blocked();
  const std::string plan = casts_[at(seats_[at(blocked.seat)].job)].plan->name;
  std::string text;
  std::vector<std::pair<std::int32_t, std::int32_t>> told;
  for (int link = 0; link < kMostLinks; ++link) {
    const Seat& seat = seats_[at(blocked.seat)];
    const std::int32_t front =
        at(seat.next_step) < seat.script->steps.size() ? seat.script->steps[at(seat.next_step)] : blocked.burst;
    const bool is_behind = seat.script->bursts[at(blocked.burst)].is_step && front != blocked.burst;
    text += fmt::format("{}{}", link == 0 ? "" : "; ", name_of(blocked));
    if (is_behind) {
      blocked.burst = front;
      text += fmt::format(" stands behind {}", name_of(blocked));
    }
    if (std::find(told.begin(), told.end(), std::pair(blocked.seat, blocked.burst)) != told.end()) {
      text += ", as said: they wait for each other";
      break;
    }
    told.emplace_back(blocked.seat, blocked.burst);
    const Burst& burst = seat.script->bursts[at(blocked.burst)];
    std::int32_t cell = -1;
    std::uint32_t wanted = 0;
    for (std::int32_t n = burst.needs.begin; n < burst.needs.end && cell < 0; ++n) {
      const Need& need = seat.script->needs[at(n)];
      for (std::int32_t c = need.cells.begin; c < need.cells.end && cell < 0; ++c)
        if (cells_[cell_at(seat, c)].value < need.at) cell = c, wanted = need.at;
    }
    if (cell < 0) break;
    text +=
        fmt::format(" waits for {} to reach {} and sees {}",
                    Expander(*casts_[at(seat.job)].plan).counter_name(seat.script->first_counter[at(cell)], seat.rank),
                    wanted, cells_[cell_at(seat, cell)].value);
    if (!find_raiser(blocked, cell, &blocked)) {
      text += ", which nothing that is left to do raises";
      break;
    }
  }
  bad_input("plan \"{}\" gets stuck after {}: {}; `weft plan --load FILE` checks a plan", plan,
            format_duration(sim::to_seconds(now_)), text);
}

}  // namespace weft::netsim
