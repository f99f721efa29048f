#include "weft/exec/cpu/executor.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include "weft/base/clock.h"
#include "weft/base/error.h"
#include "weft/base/index.h"
#include "weft/base/thread_pool.h"
#include "weft/exec/cpu/hooks.h"
#include "weft/plan/assumptions.h"
#include "weft/transport/local/local.h"
#include "weft/transport/transport.h"

namespace weft {
namespace {

// Where a lane moves much, fewer fire between two tiles, and not after every tile: eight copies of 256 KB in a row take
// the caches and the memory from the next tiles (ag-gemm 2048 x 128 x 1024: 1.09 x compute with eight, 1.06 to 1.08
// with one, 1.05 with one after every second tile).
constexpr std::int64_t kRarely = 2;
constexpr std::int64_t kGlanceBytes = std::int64_t{1} << 18;

// A thread that waits fires so much, then begins again with the first trigger that is listed: one that became ready
// meanwhile does not wait for all that others have to send. Many small lanes are not worth it after each.
constexpr std::int64_t kMostTurnFires = 64;

// The most that a lane of a trigger moves, in bytes, as f32.
std::int64_t largest_lane(const Program& program) {
  std::int64_t most = 1;
  for (const Action& action : program.actions)
    if (action.kind == ActionKind::trigger && action.targets.size() > 0 && action.lanes > 0)
      most = std::max(most, lane_box(action.box, action.tile, 0).volume() * 4);
  return most;
}

// Waits that all lanes have in common go first, so that a trigger can remember how many of them are met.
Program with_shared_waits_first(Program program) {
  for (const Action& action : program.actions)
    std::stable_partition(program.waits.begin() + action.waits.begin, program.waits.begin() + action.waits.end,
                          [](const Wait& wait) { return wait.per == 0; });
  return program;
}

// A tile that takes longer than this (ticks, about 1 ms) leaves the wire to its own thread meanwhile.
constexpr std::int64_t kLongTile = 3'000'000;

// Looks at this op alone before a wait begins to look at the rank's others and at the clock: what two ranks in step
// wait for is a fraction of a microsecond away.
constexpr int kFirstLooks = 64;

// Records a wait when it ends, by success or by an exception.
struct WaitRecord {
  WaitRecord(Recorder* recorder, std::int32_t action, std::int64_t lane, std::uint32_t run)
      : recorder(recorder), event{EventKind::wait, action, static_cast<std::int32_t>(lane), run, ticks(), 0, 0, 0} {}
  ~WaitRecord() {
    event.end = ticks();
    recorder->add(event);
  }
  WaitRecord(const WaitRecord&) = delete;
  WaitRecord& operator=(const WaitRecord&) = delete;
  Recorder* recorder;
  Event event;
};

// Whether the plan says in which order its triggers should go.
bool has_order(const Program& program) {
  return std::any_of(program.actions.begin(), program.actions.end(), [](const Action& a) {
    return a.kind == ActionKind::trigger && (a.order != 0 || a.order_step != 0);
  });
}

std::optional<Links> links_of(const CpuOptions& options, const Program& program, const Memory& memory,
                              const Expander& expander, Transport& transport) {
  if (!options.pace) return {};
  return Links(*options.pace, program.rank, memory, options.transits, expander, transport, has_order(program));
}

Wire* wire_of(Transport& transport, const Memory& memory) {
  const auto reached = [&](int rank) { return transport.reaches(rank); };
  return std::all_of(memory.world_rank.begin(), memory.world_rank.end(), reached) ? nullptr : transport.wire();
}

std::optional<Remote> remote_of(Wire* wire, const CpuOptions& options, int rank, const Memory& memory,
                                Transport& transport) {
  if (wire == nullptr) return {};
  return std::optional<Remote>(std::in_place, memory, options.segment, rank, transport);
}

}  // namespace

CpuExecutor::CpuExecutor(const Plan& plan, int rank, Memory memory, Transport& transport, ThreadPool& threads,
                         CpuOptions options)
    : plan_(plan),
      expander_(plan_),
      program_(with_shared_waits_first(expander_.program(rank))),
      memory_(std::move(memory)),
      transport_(transport),
      threads_(threads),
      options_(std::move(options)),
      solo_(threads.size() == 1),
      glance_(std::clamp<std::int64_t>(kGlanceBytes / largest_lane(program_), 1, kGlance)),
      turn_fires_(std::clamp<std::int64_t>(kGlanceBytes / largest_lane(program_), 1, kMostTurnFires)),
      signals_(expander_, program_, memory_, threads.size(), options_.signalling),
      links_(links_of(options_, program_, memory_, expander_, transport_)),
      wire_(wire_of(transport_, memory_)),
      remote_(remote_of(wire_, options_, rank, memory_, transport_)),
      channels_(memory_, program_,
                {&signals_, remote_ ? &*remote_ : nullptr, links_ ? &*links_ : nullptr, options_.hooks}),
      lanes_(plan_, program_, memory_, channels_) {
  assert(assumptions_hold(plan_, expander_, program_));  // verify() has proved it
  for (std::int64_t c = 0; c < expander_.num_counters(rank); ++c)
    totals_.push_back(expander_.counter_total(static_cast<int>(c), rank));
  peers_.reserve(num(plan_.num_ranks));
  list_actions();
  for (int t = 0; t < threads.size(); ++t) benches_.push_back(lanes_.workbench(options_.detail));
  if (options_.first_run > 0) begin_at(options_.first_run);
}

// Everything stands as if so many runs had been.
void CpuExecutor::begin_at(std::uint64_t run) {
  runs_ = run;
  for (std::size_t c = 0; c < totals_.size(); ++c)
    memory_.counter(program_.rank, static_cast<std::int64_t>(c)).store(mark() * totals_[c]);
  signals_.begin_at(expander_, mark());
  for (const auto& trigger : triggers_)
    for (std::int64_t lane = 0; lane < trigger->action->lanes; ++lane) trigger->claimed[at(lane)].store(mark());
}

// Steps and triggers as they are listed, without those that have no lanes.
void CpuExecutor::list_actions() {
  first_lane_.push_back(0);
  for (const Action& action : program_.actions) {
    if (action.lanes == 0) continue;
    if (action.kind == ActionKind::step) {
      steps_.push_back(&action);
      first_lane_.push_back(first_lane_.back() + action.lanes);
    } else {
      triggers_.push_back(make_trigger(action));
    }
  }
  if (has_order(program_)) queue_lanes();
  open_ = std::vector<std::atomic<std::uint32_t>>(triggers_.size() + 1);
  for (std::uint32_t t = 0; t <= triggers_.size(); ++t) open_[t].store(t, std::memory_order_relaxed);
}

std::unique_ptr<CpuExecutor::Trigger> CpuExecutor::make_trigger(const Action& action) const {
  auto trigger = std::make_unique<Trigger>();
  trigger->action = &action;
  trigger->index = static_cast<std::uint32_t>(triggers_.size());
  trigger->reads_input = reads_input(action);
  for (const Piece& p : program_.targets(action))
    if (channels_.to(p.rank).may_fill()) trigger->may_fill.push_back(&channels_.to(p.rank));
  const auto waits = program_.of(action);
  trigger->shared_waits =
      static_cast<std::uint32_t>(std::count_if(waits.begin(), waits.end(), [](const Wait& w) { return w.per == 0; }));
  trigger->claimed = std::make_unique<std::atomic<std::uint32_t>[]>(num(action.lanes));
  return trigger;
}

// Whether a trigger reads the caller's memory: an input, or the bias or residual of the epilogue.
bool CpuExecutor::reads_input(const Action& action) const {
  const auto is_input = [&](const Piece& p) { return plan_.buffers[p.buffer].role == Role::input; };
  const auto sources = program_.sources(action);
  if (std::any_of(sources.begin(), sources.end(), is_input)) return true;
  if (!action.finish) return false;
  const Producer& producer = plan_.producers[num(std::max(action.producer, 0))];
  return producer.bias || producer.residual;
}

void CpuExecutor::begin_run(const Bindings& bindings, const Counts& counts) {
  bindings_.producers.assign(bindings.producers.begin(), bindings.producers.end());
  bindings_.buffers.assign(bindings.buffers.begin(), bindings.buffers.end());
  peers_.assign(counts.peers.begin(), counts.peers.end());  // triggers look at them after the caller's are gone
  lanes_.begin(&bindings_, {counts.rows, peers_}, runs_);
  ++runs_;
  if (options_.hooks != nullptr) options_.hooks->begin_run(program_.rank);
  next_lane_.store(0, std::memory_order_relaxed);
  queue_first_.store(0, std::memory_order_relaxed);
  std::int64_t all = 0, reading = 0;
  for (std::uint32_t t = 0; t < triggers_.size(); ++t) open_[t].store(t, std::memory_order_relaxed);
  for (auto& trigger : triggers_) {
    trigger->met.store(0, std::memory_order_relaxed);
    trigger->first.store(0, std::memory_order_relaxed);
    all += trigger->action->lanes;
    if (trigger->reads_input) reading += trigger->action->lanes;
  }
  input_triggers_left_.store(reading, std::memory_order_relaxed);
  triggers_left_.store(all, std::memory_order_release);
  steps_left_.store(first_lane_.back(), std::memory_order_relaxed);
}

void CpuExecutor::start(const Bindings& bindings, const Counts& counts) {
  if (!finished()) finish();
  begin_run(bindings, counts);
  threads_.run([this](int thread) {
    try {
      work(thread);
    } catch (...) {
      abort_with_current_exception(transport_);  // or this rank's other threads would wait for this one's tiles
      throw;
    }
  });
  await({.count = &input_triggers_left_}, benches_[0]);
}

void CpuExecutor::post(const Bindings& bindings, const Counts& counts) {
  if (first_lane_.back() > 0)
    bad_input("plan \"{}\" has steps, which somebody has to make; run it and do not post it", plan_.name);
  if (!finished()) finish();
  begin_run(bindings, counts);
  poll();
}

void CpuExecutor::work(int thread) {
  Workbench& bench = benches_[at(thread)];
  fire_some(bench);  // opens its outputs before anything else
  WireAttention attention(wire_);
  std::size_t step = 0;
  for (;;) {
    const std::int64_t next = add<std::int64_t>(next_lane_, 1);
    if (next >= first_lane_.back()) break;
    while (next >= first_lane_[step + 1]) ++step;
    const Action& action = *steps_[step];
    const std::int64_t lane = next - first_lane_[step];
    if (options_.hooks != nullptr) options_.hooks->pause(program_.rank, false);
    if (!met(action, lane)) await({&action, lane}, bench);
    const std::int64_t begin = wire_ != nullptr ? ticks() : 0;
    if (lane == 0) transport_.publish_progress(static_cast<std::uint32_t>(step));
    lanes_.run(action, lane, bench);
    if (add<std::int64_t>(steps_left_, -1) == 1 && !solo_) ring_if_asleep(*memory_.bells[program_.rank]);
    if (wire_ != nullptr) {
      attention.set(ticks() - begin < kLongTile);
      wire_->progress();
    }
    if (glance_ > 1 || next % kRarely == 0) fire_some(bench);
    if (thread == 0) glance_at_others();
  }
  // The caller's thread stays until all tiles are made: only it moves the rank's other ops meanwhile.
  if (thread == 0) await({.count = &steps_left_}, bench);
}

bool CpuExecutor::is_reached(const Goal& goal) const {
  return goal.action != nullptr ? met(*goal.action, goal.lane) : goal.count->load(std::memory_order_seq_cst) == 0;
}

// Moves all that can be moved without waiting, as far as the goal needs it.
bool CpuExecutor::look(const Goal& goal, Workbench& bench, Found* found) {
  if (is_reached(goal)) return true;
  if (wire_ != nullptr) wire_->progress();
  while (fire_all(bench)) {
    found->moved = true;
    if (is_reached(goal)) return true;
  }
  found->due = links_ ? std::min(links_->deliver(), bench.held_until) : Transit::kNothing;
  if (&bench == benches_.data()) found->due = std::min(found->due, poll_others());
  return is_reached(goal);
}

bool CpuExecutor::look_briefly(const Goal& goal, Workbench& bench) {
  if (transport_.crowded() || wire_ != nullptr) return false;
  for (int look = 0; look < kFirstLooks; ++look) {
    cpu_pause();
    if (is_reached(goal) || (fire_all(bench) && is_reached(goal))) return true;
  }
  return false;
}

// Returns when the goal is reached, and fires triggers meanwhile.
void CpuExecutor::await(const Goal& goal, Workbench& bench) {
  if (options_.hooks != nullptr) {
    Found ignored;
    while (!look(goal, bench, &ignored)) options_.hooks->pause(program_.rank, true);
    return;
  }
  if (is_reached(goal)) return;
  std::optional<WaitRecord> record;
  const auto index = goal.action == nullptr ? -1 : goal.action - program_.actions.data();
  if (bench.record.on()) record.emplace(&bench.record, static_cast<std::int32_t>(index), goal.lane, mark() - 1);
  if (!look_briefly(goal, bench)) sleep(goal, bench);
}

// Spins, then sleeps between looks, until the goal is reached or stuck() gives up.
void CpuExecutor::sleep(const Goal& goal, Workbench& bench) {
  Found found;
  wait_until(
      transport_, options_.patience, [&] { return look(goal, bench, &found); },
      [&](std::chrono::nanoseconds waited) { stuck(goal, waited); }, [&] { return sleep_until(found.due); },
      [&] { return std::exchange(found.moved, false); });
}

// Ops that were started and not yet asked for their output: their triggers fire between the tiles of this one.
void CpuExecutor::glance_at_others() {
  if (options_.live == nullptr) return;
  for (CpuExecutor* other : *options_.live)
    if (other != this && !other->finished()) other->fire_some(other->benches_[0]);
}

// This op's wait moves the wire, where it has one: each look at it is a system call.
std::int64_t CpuExecutor::poll_others() {
  std::int64_t due = Transit::kNothing;
  if (options_.live != nullptr)
    for (CpuExecutor* other : *options_.live)
      if (other != this) due = std::min(due, wire_ != nullptr ? other->poll_triggers() : other->poll());
  return due;
}

void CpuExecutor::finish() {
  if (!finished()) await({.count = &triggers_left_}, benches_[0]);
}

std::int64_t CpuExecutor::poll() {
  if (wire_ != nullptr) wire_->progress();
  const std::int64_t due = poll_triggers();
  if (wire_ != nullptr) wire_->flush();
  return due;
}

std::int64_t CpuExecutor::poll_triggers() {
  // Called while another op of the same thread waits: benches_[0] is not in use by this op then.
  while (fire_all(benches_[0])) {
  }
  return links_ ? std::min(links_->deliver(), benches_[0].held_until) : Transit::kNothing;
}

const std::byte* CpuExecutor::buffer(int buffer) const {
  const void* given = bindings_.buffers.empty() ? nullptr : bindings_.buffers[at(buffer)];
  if (given != nullptr) return static_cast<const std::byte*>(given);
  return memory_.copy(program_.rank, buffer, runs_ == 0 ? 0 : runs_ - 1);
}

Sent CpuExecutor::sent() const {
  Sent all;
  for (const Workbench& bench : benches_) {
    all.bytes += bench.sent.bytes;
    all.signals += bench.sent.signals;
  }
  return all;
}

RecordContext CpuExecutor::record_context(const Moment& begin) const {
  return {plan_, program_, memory_.world_rank, begin, Moment::now()};
}

void CpuExecutor::add_slices(const Moment& begin, TraceText* out) const {
  const RecordContext context = record_context(begin);
  for (std::size_t t = 0; t < benches_.size(); ++t)
    weft::add_slices(context, static_cast<int>(t), benches_[t].record, out);
}

std::string CpuExecutor::last_events(const Moment& begin, std::size_t lines) const {
  std::vector<const Recorder*> recorders;
  for (const Workbench& bench : benches_) recorders.push_back(&bench.record);
  return weft::last_events(record_context(begin), recorders, lines);
}

}  // namespace weft
