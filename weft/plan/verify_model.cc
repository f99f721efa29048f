#include "weft/plan/verify_model.h"

#include <algorithm>
#include <numeric>

#include "weft/base/error.h"

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
    h = mix(h ^ mix(static_cast<std::uint64_t>(box.lo[d]) * 3 + static_cast<std::uint64_t>(box.hi[d])));
  return h | 1;
}

constexpr std::size_t kMaxProblems = 20;

}  // namespace

std::size_t FlatMap::slot(std::uint64_t key) const {
  const std::size_t mask = keys_.size() - 1;
  std::size_t at = mix(key) & mask;
  while (values_[at] != -1 && keys_[at] != key) at = (at + 1) & mask;
  return at;
}

// A key counts as present once the caller has stored a value other than -1, which callers do at once.
std::int32_t& FlatMap::at(std::uint64_t key) {
  if (2 * used_ >= keys_.size()) grow();
  const std::size_t at = slot(key);
  if (values_[at] == -1) {
    keys_[at] = key;
    ++used_;
  }
  return values_[at];
}

std::int32_t FlatMap::find(std::uint64_t key) const { return values_[slot(key)]; }

void FlatMap::grow() {
  FlatMap bigger;
  bigger.keys_.assign(keys_.size() * 2, 0);
  bigger.values_.assign(values_.size() * 2, -1);
  for (std::size_t i = 0; i < keys_.size(); ++i)
    if (values_[i] != -1) {
      const std::size_t at = bigger.slot(keys_[i]);
      bigger.keys_[at] = keys_[i];
      bigger.values_[at] = values_[i];
      ++bigger.used_;
    }
  *this = std::move(bigger);
}

std::int32_t BoxTable::intern(const Box& box) {
  std::int32_t& head = first_.at(hash(box));
  for (std::int32_t id = head; id != -1; id = next_[id])
    if (boxes_[id] == box) return id;
  const auto id = static_cast<std::int32_t>(boxes_.size());
  boxes_.push_back(box);
  next_.push_back(head);
  head = id;
  return id;
}

Model::Model(const Plan& plan_in, const Expander& expander_in, bool by_lane_in, std::vector<std::string>* out)
    : plan(&plan_in), expander(&expander_in), by_lane(by_lane_in), problems(out) {
  for (int rank = 0; rank < plan->num_ranks; ++rank)
    for (std::size_t b = 0; b < plan->buffers.size(); ++b) {
      shapes_.push_back(expander->shape(static_cast<int>(b), rank));
      block_rows_.push_back(expander->block_rows(static_cast<int>(b), rank));
    }
  for (int rank = 0; rank < plan->num_ranks && !failed(); ++rank) {
    const auto begin = static_cast<std::int32_t>(acts.size());
    add(expander->program(rank));
    acts_of.push_back({begin, static_cast<std::int32_t>(acts.size())});
  }
  if (failed()) return;
  if (!by_lane) check_blocks();
  collect_signalers();
  check_totals();
}

void Model::add(const Program& program) {
  for (std::size_t i = 0; i < program.actions.size(); ++i) {
    const Action& action = program.actions[i];
    num_tiles += action.lanes;
    if (by_lane && num_tiles > kMaxTiles)
      return problem(fmt::format("its tiles do not wait and signal alike, and are too many to check one by one (at most {})",
                                 kMaxTiles));
    if (action.lanes == 0) continue;  // an empty chunk: does nothing, signals nothing
    for (std::int64_t lane = 0; lane < (by_lane ? action.lanes : 1); ++lane) add_act(program, i, lane);
  }
}

void Model::add_act(const Program& program, std::size_t index, std::int64_t lane) {
  const Action& action = program.actions[index];
  Act act{program.rank, static_cast<std::int32_t>(index), action.rule, action.s, static_cast<std::int32_t>(lane),
          action.producer, -1, 0, by_lane ? 1 : static_cast<std::uint32_t>(action.lanes),
          action.kind == ActionKind::step, action.finish, {}, {}, {}, {}, {}};
  const auto me = static_cast<std::int32_t>(acts.size());
  const auto cut_piece = [&](const Box& box) { return by_lane ? lane_box(box, action.tile, lane) : box; };
  if (action.box.dims > 0) act.box = boxes.intern(cut_piece(action.box));
  act.tile = tile_id(by_lane ? std::array<std::int64_t, 2>{0, 0} : action.tile);
  const auto place = [&](std::int32_t per) {  // the counter block that a wait or signal names
    return by_lane || per == 0 ? std::int64_t{1} : ceil_div(action.lanes, per);
  };
  const auto shift = [&](std::int32_t per) { return by_lane && per > 0 ? static_cast<std::int32_t>(lane / per) : 0; };
  act.waits.begin = static_cast<std::int32_t>(waits.size());
  for (const Wait& w : program.of(action))
    waits.push_back({block(act.rank, w.counter + shift(w.per), place(w.per)), w.at, w.lag, by_lane ? 0 : w.per});
  act.waits.end = static_cast<std::int32_t>(waits.size());
  const auto add_pieces = [&](std::span<const Piece> list, bool by_rows) {
    Range range{static_cast<std::int32_t>(pieces.size()), 0};
    for (const Piece& p : list) {
      const Box box = by_rows && by_lane ? lane_rows(p.box, action, lane) : by_rows ? p.box : cut_piece(p.box);
      pieces.push_back({me, p.rank, p.buffer, boxes.intern(box)});
    }
    range.end = static_cast<std::int32_t>(pieces.size());
    return range;
  };
  check_pieces(program, action, act);
  if (failed()) return;
  act.reads = add_pieces(program.reads(action), true);
  act.sources = add_pieces(program.sources(action), false);
  act.targets = add_pieces(program.targets(action), false);
  act.signals.begin = static_cast<std::int32_t>(signals.size());
  for (const Signal& g : program.signals_of(action))
    signals.push_back({block(g.rank, g.counter + shift(g.per), place(g.per)), g.rank, by_lane ? 0 : g.per});
  act.signals.end = static_cast<std::int32_t>(signals.size());
  acts.push_back(act);
  for (const VPiece& p : pieces_of(act.reads)) check_piece(act, p, false);
  for (const VPiece& p : pieces_of(act.sources)) check_piece(act, p, false);
  for (const VPiece& p : pieces_of(act.targets)) check_piece(act, p, true);
}

void Model::check_pieces(const Program& program, const Action& action, const Act& act) {
  for (const auto list : {program.sources(action), program.targets(action)})
    for (const Piece& p : list)
      if (action.box.dims == 0 || !same_shape(p.box, action.box))
        return problem(fmt::format("{} works on {}, but one of its pieces is {} of \"{}\"", name(act), to_string(action.box),
                                   to_string(p.box), plan->buffers[p.buffer].name));
  for (const Piece& p : program.reads(action))
    if (action.box.dims == 0 || p.box.size(0) != action.box.size(0))
      return problem(fmt::format("{} makes {} rows from {} rows of \"{}\"", name(act), action.box.size(0), p.box.size(0),
                                 plan->buffers[p.buffer].name));
  if (!act.is_step && program.sources(action).empty() && !program.targets(action).empty())
    problem(fmt::format("{} has targets but nothing to store", name(act)));
}

void Model::check_piece(const Act& act, const VPiece& piece, bool write) {
  const Buffer& buffer = plan->buffers[piece.buffer];
  const auto& shape = shapes_[piece.rank * plan->buffers.size() + piece.buffer];
  const Box& box = boxes[piece.box];
  for (int d = 0; d < box.dims; ++d)
    if (box.hi[d] > shape[d])
      return problem(fmt::format("{} touches {} of \"{}\" on rank {}, which has only {} in dimension {}", name(act),
                                 to_string(box), buffer.name, piece.rank, shape[d], d));
  if (!write && piece.rank != act.rank)
    return problem(fmt::format("{} reads \"{}\" of rank {}; a rank reads only its own memory", name(act), buffer.name, piece.rank));
  if (write && buffer.role == Role::input)
    return problem(fmt::format("{} writes the input \"{}\"", name(act), buffer.name));
  if (buffer.packing.tile_rows > 0) check_packing(act, piece);
}

// A lane of a packed buffer must lie inside one of its tiles.
void Model::check_packing(const Act& act, const VPiece& piece) {
  const Packing& packing = plan->buffers[piece.buffer].packing;
  const std::int64_t block_rows = block_rows_[piece.rank * plan->buffers.size() + piece.buffer];
  const Box& box = boxes[piece.box];
  const auto& tile = tile_of(act);
  bool ok = block_rows > 0 && packing.tile_cols > 0 && box.dims == 2;
  if (ok) {
    const std::int64_t row = box.lo[0] % block_rows;
    const std::int64_t lane_rows = tile[0] > 0 ? std::min(tile[0], box.size(0)) : box.size(0);
    const std::int64_t lane_cols = tile[1] > 0 ? std::min(tile[1], box.size(1)) : box.size(1);
    ok = row + box.size(0) <= block_rows && row % packing.tile_rows + lane_rows <= packing.tile_rows &&
         box.lo[1] % packing.tile_cols + lane_cols <= packing.tile_cols;
    if (ok && box.size(0) > lane_rows) ok = tile[0] == packing.tile_rows && row % packing.tile_rows == 0;
    if (ok && box.size(1) > lane_cols) ok = tile[1] == packing.tile_cols && box.lo[1] % packing.tile_cols == 0;
  }
  if (!ok)
    problem(fmt::format("{} cuts {} of the packed buffer \"{}\" across its tiles", name(act), to_string(box),
                        plan->buffers[piece.buffer].name));
}

std::int32_t Model::tile_id(const std::array<std::int64_t, 2>& tile) {
  const auto found = std::find(tiles.begin(), tiles.end(), tile);
  if (found != tiles.end()) return static_cast<std::int32_t>(found - tiles.begin());
  tiles.push_back(tile);
  return static_cast<std::int32_t>(tiles.size()) - 1;
}

std::int32_t Model::block(std::int32_t rank, std::int32_t id, std::int64_t span) {
  std::int32_t& at = block_of_.at((static_cast<std::uint64_t>(rank) << 32 | static_cast<std::uint32_t>(id)) + 1);
  if (at == -1) {
    at = static_cast<std::int32_t>(counters.size());
    counters.push_back({rank, id, static_cast<std::int32_t>(span), 0, true, {}});
  } else if (counters[at].span != span) {
    throw Misaligned{};
  }
  return at;
}

// Two blocks that overlap without being equal mean that lanes are not used alike.
void Model::check_blocks() {
  std::vector<std::int32_t> order(counters.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](std::int32_t a, std::int32_t b) {
    return std::pair(counters[a].rank, counters[a].id) < std::pair(counters[b].rank, counters[b].id);
  });
  for (std::size_t i = 1; i < order.size(); ++i) {
    const CounterBlock &a = counters[order[i - 1]], &b = counters[order[i]];
    if (a.rank == b.rank && a.id + a.span > b.id) throw Misaligned{};
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
      if (g.per > 0 && acts[a].lanes % static_cast<std::uint32_t>(g.per) != 0) throw Misaligned{};
      const auto last = c.signalers.end - 1;
      if (c.signalers.size() > 0 && signalers[last].act == static_cast<std::int32_t>(a)) {
        if (signalers[last].per != g.per) throw Misaligned{};
        ++signalers[last].adds;
        continue;
      }
      if (c.signalers.size() > 0 && acts[signalers[last].act].rank != acts[a].rank) c.one_rank = false;
      signalers[c.signalers.end++] = {static_cast<std::int32_t>(a), g.per, 1};
    }
}

void Model::check_totals() {
  for (CounterBlock& c : counters) {
    c.total = expander->counter_total(c.id, c.rank);
    std::uint64_t growth = 0;
    for (const Signaler& g : signalers_of(c))
      growth += std::uint64_t{g.adds} * (g.per > 0 ? static_cast<std::uint32_t>(g.per) : acts[g.act].lanes);
    bool same = true;  // every counter of the block has the total of the first
    if (c.span > 1 && std::any_of(plan->counters.begin(), plan->counters.end(),
                                  [](const Counter& family) { return family.total.mentions("i"); }))
      for (std::int32_t i = 1; i < c.span && same; ++i) same = expander->counter_total(c.id + i, c.rank) == c.total;
    if (!same) throw Misaligned{};
    if (growth != c.total)
      problem(fmt::format("counter {} of rank {} grows by {} a run, but declares {}", counter_name(c), c.rank, growth, c.total));
  }
  for (const Act& act : acts)
    for (const VWait& w : waits_of(act))
      if (w.at > counters[w.counter].total)
        problem(fmt::format("{} waits for {} to reach {}, but it grows by only {} a run", name(act),
                            counter_name(counters[w.counter]), w.at, counters[w.counter].total));
}

bool Model::ends_before(const Act& earlier, const Act& later) const {
  for (const VSignal& g : signals_of(earlier)) {
    if (g.rank != later.rank || g.per != 0) continue;
    const auto adds = std::count_if(signals_of(earlier).begin(), signals_of(earlier).end(),
                                    [&](const VSignal& other) { return other.counter == g.counter; });
    for (const VWait& w : waits_of(later))
      if (w.counter == g.counter && w.lag == 0 && w.per == 0 &&
          implies(w, {0, 0, static_cast<std::uint32_t>(adds)}))
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
