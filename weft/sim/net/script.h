// What a rank does in a run, ready to be simulated: the actions of its program in bursts of tiles, each with what it
// needs, what it sends to whom, and how long it is made. Nothing is here that the plan does not say.
//
//   burst   tiles of one action that wait, are made and travel together; a whole action or a part of it
//   cell    counters of a rank that all bursts name together: one number stands for them
//   send    what a burst stores on one rank, in one message, and the counters that it raises there when it has come.
//           Signals without data are messages of no bytes; those to the rank itself are raised at once
//
// Waits that look back to earlier runs (lag) are met: those are long over. Where the ranks' programs are one up to a
// renumbering (symmetry.h), one script serves all, and `to` is the receiver as rank 0 would name it.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "weft/plan/program.h"
#include "weft/sim/time.h"

namespace weft::netsim {

using sim::Time;

struct Part {
  std::int32_t begin = 0, end = 0;
  std::int32_t size() const { return end - begin; }
};

struct Need {
  Part cells;
  std::uint32_t at = 0;
};
struct Raise {
  Part cells;  // of the receiver
  std::uint32_t add = 0;
};
struct Send {
  std::int64_t bytes = 0;
  std::int32_t to = 0;
  Part raises;
};
struct Burst {
  Time made_in = 0;
  std::int64_t order = 0;  // of triggers that are ready at once, the lowest goes first
  std::int32_t action = 0, lane = 0, lanes = 0;
  std::int32_t missing = 0;  // cells that it needs
  Part needs, sends;
  bool is_step = false;
};
struct Watch {
  std::int32_t burst = 0;
  std::uint32_t at = 0;
};

struct Script {
  std::vector<Burst> bursts;  // in program order
  std::vector<std::int32_t> steps;
  std::vector<Need> needs;
  std::vector<Send> sends;
  std::vector<Raise> raises;
  std::vector<Watch> watches;               // by cell
  std::vector<std::int32_t> first_watch;    // of every cell, and the end
  std::vector<std::int32_t> first_counter;  // of every cell: for messages
  std::int64_t lanes = 0, signals = 0;      // signals to other ranks, one a lane
  bool has_order = false;

  int num_cells() const { return int_size(first_counter); }
};

// Seconds that a rank computes for one step, all of its tiles.
using StepSeconds = std::function<double(const Program&, const Action&)>;

struct ScriptOptions {
  std::int64_t burst = 0;    // tiles; 0: chosen so that a run stays below kMaxBursts
  StepSeconds step_seconds;  // empty: computing takes no time
};

inline constexpr std::int64_t kMaxBursts = std::int64_t{1} << 23;  // of all ranks, where bursts are chosen

struct Scripts {
  std::vector<Script> of;  // per rank, or one that all share
  bool shared = false;
  std::int64_t burst = 0;  // tiles at most
};

// Whether each action of rank 0 is one burst. Ranks whose programs are one have as many tiles in each.
bool sends_whole_actions(const Plan& plan, const Program& zero, const ScriptOptions& options);

// One script per rank. Throws bad_input where the plan cannot be expanded or is too large.
Scripts every_script(const Plan& plan, const Expander& expander, const ScriptOptions& options);
// The one of rank 0 for all. `raised`: for every signal of its program, the counter as the receiver itself names it.
Scripts one_script(const Plan& plan, const Expander& expander, const Program& program,
                   const std::vector<std::int32_t>& raised, const ScriptOptions& options);

}  // namespace weft::netsim
