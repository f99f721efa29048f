#include "weft/plan/structure.h"

#include "weft/base/error.h"
#include "weft/base/index.h"

namespace weft {
namespace {

constexpr std::int64_t kMaxFamilies = std::int64_t{1} << 22;  // buffers and counters of all ranks

void check_extent(const char* of, std::string_view name, std::int64_t size) {
  if (size < 0 || size > kMaxElements) bad_input("the {} of {} is {}; sizes are 0 to {}", of, name, size, kMaxElements);
}

void check_tile(std::string_view name, std::int64_t rows, std::int64_t cols) {
  check_extent("tile's rows", name, rows);
  check_extent("tile's columns", name, cols);
}

void check_dims(std::string_view what, const std::string& name, std::size_t dims, std::size_t least) {
  if (dims < least || dims > num(kMaxDims))
    bad_input("{} \"{}\" has {} dimensions; use {} to {}", what, name, dims, least, kMaxDims);
}

void check_bounds_of(std::string_view what, const std::string& name, const BoxRule& box) {
  if (box.lo.size() != box.hi.size())
    bad_input("{} \"{}\" has a box of {} lower and {} upper bounds; give as many of each", what, name, box.lo.size(),
              box.hi.size());
  check_dims(what, name, box.lo.size(), 0);
}

void check(const Producer& p, int num_ranks) {
  const std::string_view name = to_string(p.kind);
  check_extent("rows (m)", name, p.m);
  check_extent("columns (n)", name, p.n);
  check_extent("depth (k)", name, p.k);
  check_extent("dim", name, p.dim);
  check_extent("table rows", name, p.rows);
  check_tile(name, p.tile[0], p.tile[1]);
  if (!p.n_of.empty() && p.n_of.size() != num(num_ranks))
    bad_input("columns of the {} are given for {} ranks, but there are {}; give one number per rank", name,
              p.n_of.size(), num_ranks);
  for (const std::int64_t n : p.n_of) check_extent("columns of a rank", name, n);
}

void check(const Buffer& b) {
  if (b.depth < 1 || b.depth > kMaxCopies)
    bad_input("buffer \"{}\" has depth {}; use 1 to {}", b.name, b.depth, kMaxCopies);
  check_dims("buffer", b.name, b.shape.size(), 1);
  check_tile(b.name, b.packing.tile_rows, b.packing.tile_cols);
  if ((b.packing.tile_rows > 0) != (b.packing.tile_cols > 0))
    bad_input("buffer \"{}\" is packed in tiles of {} x {}; give positive sizes, or 0 x 0", b.name, b.packing.tile_rows,
              b.packing.tile_cols);
}

void check_pieces(const Plan& plan, const Rule& rule) {
  const int buffers = int_size(plan.buffers);
  for (const auto* list : {&rule.reads, &rule.sources, &rule.targets})
    for (const PieceRule& p : *list) {
      if (p.buffer < 0 || p.buffer >= buffers)
        bad_input("rule \"{}\" names buffer {} of {}", rule.name, p.buffer, buffers);
      check_bounds_of("a piece of rule", rule.name, p.box);
      if (const Buffer& buffer = plan.buffers[p.buffer]; p.box.lo.size() != buffer.shape.size())
        bad_input("rule \"{}\" gives buffer \"{}\" of {} dimensions a box of another number of dimensions, {}",
                  rule.name, buffer.name, buffer.shape.size(), p.box.lo.size());
    }
}

void check_counters(const Plan& plan, const Rule& rule) {
  const int families = int_size(plan.counters);
  for (const WaitRule& w : rule.waits)
    if (w.counter < 0 || w.counter >= families || w.lag < 0 || w.lag > kMaxLag)
      bad_input("rule \"{}\" waits for counter {} with lag {}; there are {} counters, lags are 0 to {}", rule.name,
                w.counter, w.lag, families, kMaxLag);
  for (const SignalRule& g : rule.signals)
    if (g.counter < 0 || g.counter >= families)
      bad_input("rule \"{}\" signals counter {} of {}", rule.name, g.counter, families);
}

void check(const Plan& plan, const Rule& rule) {
  const int producers = int_size(plan.producers);
  check_bounds_of("rule", rule.name, rule.box);
  check_tile(rule.name, rule.tile[0], rule.tile[1]);
  check_pieces(plan, rule);
  check_counters(plan, rule);
  if (rule.kind == ActionKind::step && (rule.producer < 0 || rule.producer >= producers || rule.box.lo.size() != 2))
    bad_input("step \"{}\" needs a producer of the plan and a box of rows and columns", rule.name);
  if (rule.producer < -1 || rule.producer >= producers)
    bad_input("rule \"{}\" names producer {} of {}", rule.name, rule.producer, producers);
  if (!rule.finish.is_number(0) && producers == 0)
    bad_input(
        "rule \"{}\" finishes what it stores, but the plan has no producer whose epilogue that could be; leave "
        "\"finish\" out",
        rule.name);
}

void check(const Plan& plan, const Owed& o) {
  const int buffers = int_size(plan.buffers), producers = int_size(plan.producers);
  if (o.piece.buffer < 0 || o.piece.buffer >= buffers)
    bad_input("plan \"{}\" owes a piece of buffer {} of {}", plan.name, o.piece.buffer, buffers);
  if (o.leaf >= producers || o.leaf < -buffers)
    bad_input("plan \"{}\" owes tiles of {} {}, which it has not", plan.name, o.leaf >= 0 ? "producer" : "buffer",
              o.leaf >= 0 ? o.leaf : -1 - std::int64_t{o.leaf});
  if (o.epilogue < -1 || o.epilogue >= producers)
    bad_input("plan \"{}\" owes the epilogue of producer {} of {}", plan.name, o.epilogue, producers);
  if (o.finished && producers == 0)
    bad_input("plan \"{}\" owes finished elements, but has no producer whose epilogue that could be", plan.name);
  const Buffer& buffer = plan.buffers[o.piece.buffer];
  check_bounds_of("a piece owed of", buffer.name, o.piece.box);
  if (o.piece.box.lo.size() != buffer.shape.size() || o.origin.size() != buffer.shape.size())
    bad_input("plan \"{}\" owes {} dimensions of \"{}\" from an origin of {}, but the buffer has {}", plan.name,
              o.piece.box.lo.size(), buffer.name, o.origin.size(), buffer.shape.size());
}

}  // namespace

void check_structure(const Plan& plan) {
  if (plan.num_ranks < 1 || plan.num_ranks > kMaxRanksOfAPlan)
    bad_input("plan \"{}\" is for {} ranks; use 1 to {}", plan.name, plan.num_ranks, kMaxRanksOfAPlan);
  const std::int64_t families = static_cast<std::int64_t>(plan.counters.size() + plan.buffers.size());
  if (families > kMaxFamilies / plan.num_ranks)
    bad_input("plan \"{}\" has {} buffers and counters on each of {} ranks; at most {} in all", plan.name, families,
              plan.num_ranks, kMaxFamilies);
  for (const Producer& p : plan.producers) check(p, plan.num_ranks);
  for (const Buffer& b : plan.buffers) check(b);
  for (const Rule& rule : plan.rules) check(plan, rule);
  for (const Owed& o : plan.owed) check(plan, o);
}

}  // namespace weft
