#include "weft/plan/verify/model.h"

#include <algorithm>
#include <numeric>

#include "weft/base/error.h"
#include "weft/base/index.h"

namespace weft::verifying {
namespace {

std::uint64_t mix(std::uint64_t x) {
  x ^= x >> 33;
  x *= 0xff51afd7ed558ccdULL;
  x ^= x >> 33;
  x *= 0xc4ceb9fe1a85ec53ULL;
  return x ^ (x >> 33);
}

std::uint64_t hash(const Box& box) {
  std::uint64_t h = static_cast<std::uint64_t>(box.dims) + 1;
  for (int d = 0; d < box.dims; ++d)
    h = mix(mix(h ^ static_cast<std::uint64_t>(box.lo[d])) + static_cast<std::uint64_t>(box.hi[d]));
  return h | 1;
}

constexpr std::size_t kMaxProblems = 20;
constexpr std::size_t kMaxReserved = std::size_t{1} << 23;
constexpr std::int64_t kManyLanes = 4096;  // are weighed before they are made
// What the passes keep beside each record of the model.
constexpr std::int64_t kActElsewhere = 32, kWaitElsewhere = 8, kPieceElsewhere = 16, kSignalElsewhere = 12;
constexpr std::int64_t kCounterElsewhere = 48;

}  // namespace

std::int32_t BoxTable::intern(const Box& box) {
  if (last_ != -1 && boxes_[last_] == box) return last_;
  std::int32_t& head = first_.at(hash(box));
  for (std::int32_t id = head; id != -1; id = next_[id], ++looks_)
    if (boxes_[id] == box) return last_ = id;
  const auto id = last_ = int_size(boxes_);
  boxes_.push_back(box);
  next_.push_back(head);
  head = id;
  return id;
}

Model::Model(const Plan& plan_in, const Expander& expander_in, bool by_lane_in, Budget* budget_in,
             std::vector<std::string>* out)
    : plan(&plan_in),
      expander(&expander_in),
      by_lane(by_lane_in),
      budget(budget_in),
      problems(out),
      assumptions_(plan_in, expander_in),
      block_of_(plan_in.num_ranks) {
  if (std::string fault = assumptions_.of_plan(); !fault.empty()) {
    certain = true;
    problem(std::move(fault));
  }
  Program program;
  for (int rank = 0; rank < plan->num_ranks && !failed(); ++rank) {
    const auto begin = int_size(acts);
    const std::int64_t before = budget->work();
    expander->program(rank, &program);
    if (rank == 0) reserve(program);
    add(program);
    weigh();
    if (rank == 0) budget->expect(budget->work() - before, plan->num_ranks);
    acts_of.push_back({begin, int_size(acts)});
  }
  if (failed()) return;
  sort_counters();
  if (!by_lane) check_blocks();
  collect_signalers();
  check_totals();
}

// Ranks are much alike: the first tells how much the others will bring. A hostile plan's may say anything.
void Model::reserve(const Program& program) {
  const std::size_t ranks = plan->num_ranks, named = program.waits.size() + program.signals.size() / 2;
  const auto size = [&](std::size_t of_one) { return std::min(of_one * ranks, kMaxReserved); };
  acts.reserve(size(program.actions.size()));
  waits.reserve(size(program.waits.size()));
  pieces.reserve(size(program.pieces.size()));
  signals.reserve(size(program.signals.size()));
  counters.reserve(size(named));
  block_of_.assign(ranks, FlatMap<std::uint32_t>(size(named) / ranks));
}

// Charges what is kept beyond what was charged before.
void Model::weigh() {
  const auto bytes_of = [](const auto& list, std::int64_t elsewhere) {
    constexpr std::int64_t kSize = sizeof(list[0]);
    // Memory that was reserved and not touched costs nothing; what has grown was there twice.
    return std::min(static_cast<std::int64_t>(list.capacity()), 2 * std::ssize(list)) * kSize +
           std::ssize(list) * elsewhere;
  };
  const std::int64_t bytes = bytes_of(acts, kActElsewhere) + bytes_of(waits, kWaitElsewhere) +
                             bytes_of(pieces, kPieceElsewhere) + bytes_of(signals, kSignalElsewhere) +
                             bytes_of(counters, kCounterElsewhere);
  if (bytes > held_) hold(bytes - held_), held_ = bytes;
  hold_boxes();
}

// For so many more records. A vector that grows is there twice for a while.
void Model::make_room(std::size_t more_acts, std::size_t more_waits, std::size_t more_pieces,
                      std::size_t more_signals) {
  const auto grow = [&](auto* list, std::size_t more) {
    if (list->size() + more <= list->capacity()) return;
    const std::size_t room = std::max(list->size() + more, 2 * list->capacity());
    budget->check(static_cast<std::int64_t>(room * sizeof(*list->data())));
    list->reserve(room);
  };
  grow(&acts, more_acts);
  grow(&waits, more_waits);
  grow(&pieces, more_pieces);
  grow(&signals, more_signals);
  budget->check(static_cast<std::int64_t>((more_waits + more_signals) * sizeof(CounterBlock)));
}

void Model::hold_boxes() {
  const std::int64_t bytes = boxes.bytes();
  if (bytes > held_boxes_) hold(bytes - held_boxes_), held_boxes_ = bytes;
  spend(boxes.looks() - looks_);
  looks_ = boxes.looks();
}

// Before they are made: what an action's lanes, looked at together or one by one, will cost.
void Model::charge(const Program& program, const Action& action, std::int64_t lanes) {
  const std::int64_t pieces_of_one = action.reads.size() + action.sources.size() + action.targets.size();
  const std::int64_t records = 1 + action.waits.size() + pieces_of_one + action.signals.size();
  budget->spend(lanes, kRecord * records + std::ssize(tiles));
  for (std::int32_t p = action.reads.begin; p < action.targets.end; ++p) {  // reads, sources, targets lie together
    const Packing& packing = plan->buffers[program.pieces[at(p)].buffer].packing;
    if (packing.tile_rows > 0 && (packing.tile_rows != action.tile[0] || packing.tile_cols != action.tile[1]))
      spend(2 * std::min(action.lanes, kManyLanes));  // assumptions look at such lanes one by one
  }
  if (!by_lane) return;  // the rank has been charged as a whole
  budget->check(lanes * (records * std::int64_t{sizeof(VPiece)} + std::int64_t{sizeof(Act)}));
  make_room(num(lanes), num(lanes * action.waits.size()), num(lanes * pieces_of_one),
            num(lanes * action.signals.size()));
  if (lanes > kManyLanes) budget->check(lanes * pieces_of_one * BoxTable::kBytes);
}

void Model::add(const Program& program) {
  if (!by_lane) make_room(program.actions.size(), program.waits.size(), program.pieces.size(), program.signals.size());
  for (std::size_t i = 0; i < program.actions.size() && problems->size() < kMaxProblems; ++i) {
    const Action& action = program.actions[i];
    num_tiles += action.lanes;
    if (action.lanes == 0) continue;  // an empty chunk: does nothing, signals nothing
    const std::int64_t lanes = by_lane ? action.lanes : 1;
    charge(program, action, lanes);
    if (const std::string fault = assumptions_.of_action(program, action); !fault.empty()) {
      certain = true;
      problem(fmt::format("{} {}", describe(*plan, program, i), fault));
      continue;
    }
    for (std::int64_t lane = 0; lane < lanes && !failed(); ++lane) {
      add_act(program, i, lane);
      if (acts.size() % num(kManyLanes) == 0) weigh();
    }
  }
}

void Model::add_act(const Program& program, std::size_t index, std::int64_t lane) {
  const Action& action = program.actions[index];
  Act act{program.rank,
          static_cast<std::int32_t>(index),
          action.rule,
          action.s,
          static_cast<std::int32_t>(lane),
          action.producer,
          -1,
          0,
          by_lane ? 1 : static_cast<std::uint32_t>(action.lanes),
          action.kind == ActionKind::step,
          action.finish,
          {},
          {},
          {},
          {},
          {}};
  const auto me = int_size(acts);
  const auto cut_piece = [&](const Box& box) { return by_lane ? lane_box(box, action.tile, lane) : box; };
  if (action.box.dims > 0) act.box = boxes.intern(cut_piece(action.box));
  act.limit = action.limit, act.limit_peer = action.limit_peer, act.first_row = action.box.lo[0];
  act.tile = tile_id(by_lane ? std::array<std::int64_t, 2>{0, 0} : action.tile);
  const auto place = [&](std::int32_t per) {  // the counter block that a wait or signal names
    return by_lane || per == 0 ? std::int64_t{1} : ceil_div(action.lanes, per);
  };
  const auto shift = [&](std::int32_t per) { return by_lane && per > 0 ? static_cast<std::int32_t>(lane / per) : 0; };
  act.waits.begin = int_size(waits);
  for (const Wait& w : program.of(action)) {
    waits.push_back({block(act.rank, w.counter + shift(w.per), place(w.per)), w.at, w.lag, by_lane ? 0 : w.per});
    if (counters[waits.back().counter].span != place(w.per)) throw Misaligned{};
  }
  act.waits.end = int_size(waits);
  const auto add_pieces = [&](std::span<const Piece> list, bool by_rows) {
    Range range{int_size(pieces), 0};
    for (const Piece& p : list) {
      const Box box = by_rows && by_lane ? lane_rows(p.box, action, lane) : by_rows ? p.box : cut_piece(p.box);
      pieces.push_back({me, p.rank, p.buffer, boxes.intern(box)});
    }
    range.end = int_size(pieces);
    return range;
  };
  act.reads = add_pieces(program.reads(action), true);
  act.sources = add_pieces(program.sources(action), false);
  act.targets = add_pieces(program.targets(action), false);
  act.signals.begin = int_size(signals);
  ask_for_blocks(program, action.signals);
  for (const Signal& g : program.signals_of(action))
    signals.push_back({block(g.rank, g.counter + shift(g.per), place(g.per)), g.rank, by_lane ? 0 : g.per});
  act.signals.end = int_size(signals);
  acts.push_back(act);
}

// Counters of other ranks lie far apart, and many actions signal one of each: those of the actions to come are asked
// for in time.
void Model::ask_for_blocks(const Program& program, Range now) {
  constexpr std::int32_t kAhead = 16;
  const std::int32_t end = std::min(now.end + kAhead, int_size(program.signals));
  for (std::int32_t i = now.begin == 0 ? 0 : now.begin + kAhead; i < end; ++i) {
    const Signal& g = program.signals[at(i)];
    block_of_[at(g.rank)].prefetch(static_cast<std::uint32_t>(g.counter));
  }
}

std::int32_t Model::tile_id(const std::array<std::int64_t, 2>& tile) {
  const auto found = std::find(tiles.begin(), tiles.end(), tile);
  if (found != tiles.end()) return static_cast<std::int32_t>(found - tiles.begin());
  tiles.push_back(tile);
  return int_size(tiles) - 1;
}

std::int32_t Model::block(std::int32_t rank, std::int32_t id, std::int64_t span) {
  std::int32_t& at = block_of_[rank].at(static_cast<std::uint32_t>(id));
  if (at == -1) {
    at = int_size(counters);
    counters.push_back({rank, id, static_cast<std::int32_t>(span)});
  }
  return at;
}

void Model::sort_counters() {
  std::vector<std::int32_t> first(plan->num_ranks + 1, 0);
  for (const CounterBlock& c : counters) ++first[c.rank + 1];
  std::partial_sum(first.begin(), first.end(), first.begin());
  for (int rank = 0; rank < plan->num_ranks; ++rank) counters_of_.push_back({first[rank], first[rank]});
  std::vector<std::uint64_t> keys(counters.size());  // the id above the index, so that no comparison looks elsewhere
  for (std::size_t i = 0; i < counters.size(); ++i)
    keys[counters_of_[counters[i].rank].end++] = static_cast<std::uint64_t>(counters[i].id) << 32 | i;
  for (const Range range : counters_of_) std::sort(keys.begin() + range.begin, keys.begin() + range.end);
  for (const std::uint64_t key : keys) sorted_.push_back(static_cast<std::int32_t>(key & 0xffffffff));
}

// Two blocks that overlap without being equal mean that lanes are not used alike.
void Model::check_blocks() {
  for (const Range range : counters_of_)
    for (std::int32_t i = range.begin + 1; i < range.end; ++i) {
      const CounterBlock& before = counters[sorted_[i - 1]];
      if (before.id + before.span > counters[sorted_[i]].id) throw Misaligned{};
    }
}

void Model::collect_signalers() {
  std::vector<std::int32_t> count(counters.size() + 1, 0);
  for (const VSignal& g : signals) ++count[g.counter + 1];
  std::partial_sum(count.begin(), count.end(), count.begin());
  signalers.resize(signals.size());
  for (std::size_t c = 0; c < counters.size(); ++c) counters[c].signalers = {count[c], count[c]};
  for (std::size_t a = 0; a < acts.size(); ++a)
    for (const VSignal& g : signals_of(acts[a])) {
      CounterBlock& c = counters[g.counter];
      const auto per = static_cast<std::uint32_t>(g.per);
      if (per == 0 ? c.span != 1
                   : acts[a].lanes % per != 0 || acts[a].lanes / per != static_cast<std::uint32_t>(c.span))
        throw Misaligned{};
      const auto last = c.signalers.end - 1;
      if (c.signalers.size() > 0 && signalers[last].act == static_cast<std::int32_t>(a)) {
        if (signalers[last].per != g.per) throw Misaligned{};
        ++signalers[last].adds;
        continue;
      }
      c.from = c.from == CounterBlock::kNobody || c.from == acts[a].rank ? acts[a].rank : CounterBlock::kSeveral;
      signalers[c.signalers.end++] = {static_cast<std::int32_t>(a), g.per, 1};
    }
}

// Every counter of a block must have the total of the first.
void Model::find_totals(int rank) {
  std::vector<std::int32_t> ids;
  const Range range = counters_of_[rank];
  for (std::int32_t i = range.begin; i < range.end; ++i) ids.push_back(counters[sorted_[i]].id);
  const std::vector<std::uint32_t> totals = expander->counter_totals(rank, ids);
  for (std::int32_t i = range.begin; i < range.end; ++i) {
    CounterBlock& c = counters[sorted_[i]];
    c.total = totals[i - range.begin];
    if (c.span == 1 || expander->same_totals(c.id, rank)) continue;
    spend(c.span);
    budget->scratch(std::int64_t{c.span} * 12);
    ids.resize(c.span);
    std::iota(ids.begin(), ids.end(), c.id);
    for (const std::uint32_t total : expander->counter_totals(rank, ids))
      if (total != c.total) throw Misaligned{};
  }
}

void Model::check_totals() {
  for (int rank = 0; rank < plan->num_ranks; ++rank) find_totals(rank);
  for (const CounterBlock& c : counters) {
    std::uint64_t growth = 0;
    for (const Signaler& g : signalers_of(c))
      growth += std::uint64_t{g.adds} * (g.per > 0 ? static_cast<std::uint32_t>(g.per) : acts[g.act].lanes);
    if (growth != c.total)
      problem(fmt::format("counter {} of rank {} grows by {} a run, but declares {}", counter_name(c), c.rank, growth,
                          c.total));
  }
  for (const Act& act : acts)
    for (std::int32_t w = act.waits.begin; w < act.waits.end; ++w) {
      ask_for_counter(w);
      check_wait(act, waits[at(w)]);
    }
}

// Executors compare modulo 2^32: what a wait can be away from its counter must stay below half of that.
void Model::check_wait(const Act& act, const VWait& w) {
  const CounterBlock& c = counters[w.counter];
  if (w.at <= c.total && (std::int64_t{w.lag} + 1) * c.total + w.at <= INT32_MAX) return;
  if (problems->size() >= kMaxProblems) return;
  if (w.at > c.total)
    return problem(fmt::format("{} waits for {} to reach {}, but it grows by only {} a run", name(act), counter_name(c),
                               w.at, c.total));
  certain = true;
  problem(fmt::format("{} waits for {} to reach {} with lag {}, and it grows by {} a run: more than 2^31 in {} runs",
                      name(act), counter_name(c), w.at, w.lag, c.total, w.lag + 1));
}

bool Model::ends_before(const Act& earlier, const Act& later) const {
  spend(earlier.signals.size());
  for (const VSignal& g : signals_of(earlier)) {
    if (g.rank != later.rank || g.per != 0) continue;
    spend(earlier.signals.size() + later.waits.size());
    const auto adds = std::count_if(signals_of(earlier).begin(), signals_of(earlier).end(),
                                    [&](const VSignal& other) { return other.counter == g.counter; });
    for (const VWait& w : waits_of(later))
      if (w.counter == g.counter && w.lag == 0 && w.per == 0 && implies(w, {0, 0, static_cast<std::uint32_t>(adds)}))
        return true;
  }
  return false;
}

std::string Model::name(const Act& act) const {
  // Numbered as a person would count them: the n-th step or trigger of its rank.
  const Program program = expander->program(act.rank);
  const std::string text = describe(*plan, program, act.index);
  return by_lane && program.actions[act.index].lanes > 1 ? fmt::format("tile {} of {}", act.lane, text) : text;
}

std::string Model::counter_name(const CounterBlock& c) const { return expander->counter_name(c.id, c.rank); }

void Model::problem(std::string text) const {
  if (problems->size() < kMaxProblems) problems->push_back(std::move(text));
}

}  // namespace weft::verifying
