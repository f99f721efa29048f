// The CPU executor: one rank's side of one op. Threads of the rank claim its steps in listed order; a thread that would
// block fires ready triggers meanwhile, then sleeps on the rank's bell. The hot path has no malloc, no lock, and no
// system call unless it sleeps.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "weft/exec/bindings.h"
#include "weft/exec/cpu/channel.h"
#include "weft/exec/cpu/lane_runner.h"
#include "weft/exec/cpu/links.h"
#include "weft/exec/cpu/memory.h"
#include "weft/exec/cpu/remote.h"
#include "weft/exec/cpu/signals.h"
#include "weft/exec/sent.h"
#include "weft/plan/program.h"
#include "weft/transport/local/wait.h"

namespace weft {

class CpuExecutor;
class Hooks;
class ThreadPool;
class TraceText;
class Transport;

struct CpuOptions {
  Patience patience;
  Hooks* hooks = nullptr;
  // The rank's ops, this one among them: the caller's thread moves them all while it computes for or waits in one.
  const std::vector<CpuExecutor*>* live = nullptr;
  Signalling signalling = Signalling::fenced;  // quiet: all ranks of the plan agreed to it
  Detail detail = Detail::flight;
  std::uint32_t segment = 0;         // the id of the op's
  std::optional<Pace> pace;          // none: signals are raised at once
  std::vector<std::byte*> transits;  // paced: memory of Links::bytes_of(), one piece per rank of the plan
  std::uint64_t first_run = 0;       // tests: counters stand as after so many runs. All ranks of the plan agree
};

class CpuExecutor {
 public:
  // `rank` is the rank of the plan; `memory` says where all ranks of the plan are. The plan has been verified.
  CpuExecutor(const Plan& plan, int rank, Memory memory, Transport& transport, ThreadPool& threads, CpuOptions options);

  // Starts the next run and returns when the inputs may change: steps are done, and triggers that read inputs too.
  // Finishes the previous run first. Throws peer_failed or deadline, naming rank, action, counter and peer.
  void start(const Bindings& bindings, const Counts& counts);
  // The same for plans without steps, but returns at once: what is ready is fired here, the rest by later looks, and
  // the inputs must stay until finished().
  void post(const Bindings& bindings, const Counts& counts);
  // Returns when all of this rank's actions of the run are done, so that what is owed to it is there.
  void finish();
  bool finished() const { return triggers_left_.load(std::memory_order_relaxed) == 0; }
  // Fires what is ready, without waiting. Returns when something will be due without a bell, or Transit::kNothing.
  std::int64_t poll();

  std::uint64_t runs() const { return runs_; }  // started, from CpuOptions::first_run on
  const std::byte* buffer(int buffer) const;    // of the latest run: its copy, or the caller's memory
  const BufferLayout& layout(int buffer) const { return memory_.layouts[program_.rank].buffers[buffer]; }
  Sent sent() const;  // since the op was made

  // What was recorded since `begin`, the moment the world began. Not while a run is under way on other threads.
  void add_slices(const Moment& begin, TraceText* out) const;
  std::string last_events(const Moment& begin, std::size_t lines) const;

 private:
  struct Trigger {
    const Action* action;
    std::uint32_t index;  // among triggers_
    bool reads_input;
    std::vector<const Channel*> may_fill;                   // on which it waits for room
    std::uint32_t shared_waits;                             // those that all lanes have in common: the first ones
    std::atomic<std::uint32_t> met{0};                      // of these; in a run counters only grow, so met stays met
    std::atomic<std::int64_t> first{0};                     // lanes below it are claimed
    std::unique_ptr<std::atomic<std::uint32_t>[]> claimed;  // per lane: mark() when it was last claimed
  };

  // A lane of a trigger whose plan says in which order they should go.
  struct Queued {
    std::int64_t order, lane;
    Trigger* trigger;
  };

  bool met(const Wait& wait, std::int64_t lane) const;
  bool met(const Action& action, std::int64_t lane, std::uint32_t first_wait = 0) const;
  bool shared_waits_met(Trigger& trigger) const;
  void work(int thread);
  void glance_at_others();
  std::int64_t poll_triggers();
  std::int64_t poll_others();
  // Returns what was there before. On x86-64 every locked instruction waits until all earlier stores have left the
  // core.
  template <typename T>
  T add(std::atomic<T>& value, T amount) const {
    if (!solo_) return value.fetch_add(amount, std::memory_order_seq_cst);
    const T before = value.load(std::memory_order_relaxed);
    value.store(before + amount, std::memory_order_relaxed);
    return before;
  }
  std::uint32_t mark() const { return static_cast<std::uint32_t>(runs_); }  // tells a run from the one before
  void begin_at(std::uint64_t run);
  bool claim(std::atomic<std::uint32_t>& claimed, std::uint32_t seen) const;
  void fire(Trigger& trigger, std::int64_t lane, Workbench& bench);
  // Lanes looked at between two tiles: enough to keep others supplied, too few to be noticed beside a tile.
  static constexpr std::int64_t kGlance = 8;
  // What one look at the triggers may cost; see fire_ready.
  struct Look {
    std::int64_t lanes;  // to be looked at
    std::int64_t fires;
    bool between_tiles;
  };
  bool fire_ready(Workbench& bench, Look look);
  void fire_lanes(Trigger& trigger, Workbench& bench, Look* look);
  bool fire_all(Workbench& bench) { return fire_ready(bench, {INT64_MAX, turn_fires_, false}); }
  bool fire_some(Workbench& bench) { return fire_ready(bench, {kGlance, glance_, true}); }
  std::uint32_t next_open(std::uint32_t trigger) const;
  bool fire_in_order(Workbench& bench, Look look);
  bool held_back(const Trigger& trigger, const Look& look, Workbench& bench) const;
  void queue_lanes();
  // What a wait is for: the waits of an action's lane, or a count that falls to zero.
  struct Goal {
    const Action* action = nullptr;
    std::int64_t lane = 0;
    const std::atomic<std::int64_t>* count = nullptr;
  };
  bool is_reached(const Goal& goal) const;
  // What a look has found beside its goal.
  struct Found {
    std::int64_t due = Transit::kNothing;  // when a signal now under way will be there, or a link have room
    bool moved = false;                    // something fired
  };
  bool look(const Goal& goal, Workbench& bench, Found* found);
  bool look_briefly(const Goal& goal, Workbench& bench);
  void await(const Goal& goal, Workbench& bench);
  void sleep(const Goal& goal, Workbench& bench);
  std::unique_ptr<Trigger> make_trigger(const Action& action) const;
  bool reads_input(const Action& action) const;
  void list_actions();
  void begin_run(const Bindings& bindings, const Counts& counts);
  RecordContext record_context(const Moment& begin) const;
  void stuck(const Goal& goal, std::chrono::nanoseconds waited) const;
  void judge(const Action& action, std::int64_t lane, const Wait& wait, std::chrono::nanoseconds waited) const;
  int signaler_of(std::int64_t counter) const;

  Plan plan_;
  Expander expander_;
  Program program_;
  Memory memory_;
  Transport& transport_;
  ThreadPool& threads_;
  CpuOptions options_;
  bool solo_;            // one thread: nothing here is shared, and no locked instruction need hold up a tile's stores
  std::int64_t glance_;  // lanes of triggers fired between two tiles
  std::int64_t turn_fires_;  // and before a wait begins again with the first trigger that is listed
  Signals signals_;
  std::optional<Links> links_;
  Wire* wire_;  // null: all ranks of the plan are reached by memory
  std::optional<Remote> remote_;
  Channels channels_;
  LaneRunner lanes_;
  std::vector<std::uint32_t> totals_;  // of this rank's counters
  std::vector<const Action*> steps_;
  std::vector<std::int64_t> first_lane_;            // of each step, counted over all; one more at the end
  std::vector<std::unique_ptr<Trigger>> triggers_;  // in listed order
  // Of trigger i: the next from i on, itself included, that may have unclaimed lanes. One more at the end.
  mutable std::vector<std::atomic<std::uint32_t>> open_;
  std::vector<Queued> queue_;       // all lanes of triggers by order; empty: the plan does not care
  std::vector<Workbench> benches_;  // one per thread
  // Of the run under way: triggers still read them when the caller prepares the next.
  Bindings bindings_;
  std::vector<std::int64_t> peers_;
  std::atomic<std::int64_t> next_lane_{0}, steps_left_{0};
  std::atomic<std::int64_t> triggers_left_{0}, input_triggers_left_{0};
  std::atomic<std::size_t> queue_first_{0};        // of this run: those before it are claimed
  std::atomic<std::uint32_t> turn_{0};             // where looks between tiles go on, so that no trigger starves
  std::uint64_t runs_ = 0;                         // started
  mutable std::atomic<std::uint64_t> late_in_{0};  // the last run in which a peer was late
};

}  // namespace weft
