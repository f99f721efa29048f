// An all_reduce dimension by dimension, for ranks on a torus: all that moves goes to a neighbour. Of n0 x n1 x ...
// ranks, neighbours along the last dimension have neighbouring numbers; it is gone along first. The rows of the output
// are cut into as many blocks as that dimension has places, each block into as many as the dimension before it has, and
// so on down to chunks, one per rank: chunk number and rank number have the same digits, in opposite order.
//
//   reduce   along a dimension, block p visits the places p + 1, p + 2, ..., p: each makes its tiles, adds what came,
//            and passes on. What stays is cut further for the next dimension: its tiles are made on the way there, so
//            no pass over memory is made only to add
//   gather   finished chunks go along the first dimension, then those that are there along the next
//
//   bytes   those of a ring; 2 (n0 - 1) + 2 (n1 - 1) + ... latencies in place of 2 (N - 1)
//   order   of the last dimension first: not that of flat routes, so the plan says sum = any: each contribution once,
//           in an order of its own, the same in every run
//   tiles   end where chunks do, so chunks are of equal rows
#include <fmt/format.h>

#include "weft/base/error.h"
#include "weft/collective/reduce.h"

namespace weft {
namespace {

using namespace var;  // NOLINT: the vocabulary of rules

void check_torus(const Producer& p, const Space& space, const std::vector<int>& dims) {
  const int n = space.num_ranks();
  std::int64_t product = 1;
  for (const int size : dims) product *= size < 2 ? 0 : size;
  if (dims.size() < 2 || product != n)
    bad_input("route torus is for two or more dimensions of 2 or more ranks each, but {} ranks are on {}; use ring", n,
              fmt::join(dims, " x "));
  check_equal_chunks(p, space, Route::torus);
}

bool is_one(const Expr& e) { return e.node().op == Expr::Op::number && e.node().value == 1; }
Expr times(const Expr& a, const Expr& b) { return is_one(a) ? b : is_one(b) ? a : a * b; }

// One dimension of the torus, as rules name it, and what it needs.
struct TorusDimension {
  Expr size;             // places
  Expr chunks;           // of a block along it: the product of the dimensions before it
  Expr place, up, down;  // of this rank; the ranks next to it
  int inbox = 0, full = 0, used = 0;
};

class TorusDraft {
 public:
  TorusDraft(Draft& draft, const std::vector<int>& dims) : draft_(draft) {
    const int count = int_size(dims);
    std::vector<Expr> sizes;
    for (int d = 0; d < count; ++d) {
      const std::string name = fmt::format("n{}", d);
      draft.param(name, dims[at(d)]);
      sizes.push_back(Expr::name(name));
    }
    for (int d = 0; d < count; ++d) {
      Expr before = 1, after = 1;
      for (int j = 0; j < d; ++j) before = times(before, sizes[at(j)]);
      for (int j = d + 1; j < count; ++j) after = times(after, sizes[at(j)]);
      dims_.push_back(dimension(d, sizes[at(d)], before, after));
    }
    credit_ = draft.credit_counter(count);
    y_ = draft.output(m, n);
    open_ = draft.open_counter(count);
    got_ = draft.counter("got", N * slot, 1);
  }

  void add_rules() {
    std::vector<SignalRule> opened;
    for (int d = 0; d < int_size(dims_); ++d) opened.push_back(signal(dims_[at(d)].down, open_).index(d));
    draft_.open(opened);
    for (int d = int_size(dims_) - 1; d >= 0; --d) draft_.add(reduce(d));
    for (int d = 0; d < int_size(dims_); ++d) draft_.add(gather(d));
    for (int d = int_size(dims_) - 1; d >= 0; --d) {
      const TorusDimension& along = dims_[at(d)];
      draft_.credit(wait(along.used).reaches(times(along.size - 1, along.chunks) * slot),
                    {signal(along.down, credit_).index(d)});
    }
    draft_.plan.owed = {owed_sums(draft_, y_)};
  }

 private:
  // The inbox has a slot for each chunk that comes: those of all blocks but the one that this rank begins with.
  TorusDimension dimension(int d, const Expr& size, const Expr& before, const Expr& after) {
    TorusDimension out{size, before, (is_one(after) ? r : r / after) % size, {}, {}};
    const Expr others = r - times(out.place, after);
    out.up = others + times((out.place + 1) % size, after);
    out.down = others + times((out.place - 1) % size, after);
    const Expr chunks = times(size - 1, before);
    Buffer inbox;
    inbox.name = fmt::format("inbox{}", d), inbox.shape = {chunks * cap, n};
    out.inbox = draft_.buffer(inbox);
    out.full = draft_.counter(fmt::format("full{}", d), chunks * slot, 1);
    out.used = draft_.counter(fmt::format("used{}", d), 1, chunks * slot);
    return out;
  }

  static BoxRule slot_at(const Expr& chunk) { return rows(chunk * cap, chunk * cap + cap); }

  // The chunk of turn `turn` along dimension d: this rank's place in the dimensions after it, and in the others the
  // places from `first` before its own on, the first dimension fastest.
  std::vector<Let> chunk_lets(int d, int first, const Expr& turn) const {
    std::vector<Let> out;
    Expr number = 0;
    for (int j = int_size(dims_) - 1; j >= 0; --j) {
      const TorusDimension& along = dims_[at(j)];
      Expr place_of = along.place;
      if (j <= d) {
        const std::string name = fmt::format("p{}", j);
        out.push_back({name, (along.place - first - (is_one(along.chunks) ? turn : turn / along.chunks)) % along.size});
        place_of = Expr::name(name);
      }
      place_of = times(place_of, along.chunks);
      number = j + 1 == int_size(dims_) ? place_of : number + place_of;
    }
    out.push_back({"c", number});
    out.push_back({"a", cut(m, N, c)});
    out.push_back({"b", cut(m, N, c + 1)});
    return out;
  }

  // The slot of dimension `e`, gone along before d, that has this turn's chunk: its last block is this rank's own, and
  // of that what the dimensions between kept comes last.
  Expr slot_of_earlier(int e, int d) const {
    Expr out = times(dims_[at(e)].size - 2, dims_[at(e)].chunks);
    for (int between = d + 1; between < e; ++between)
      out = out + times(dims_[at(between)].size - 1, dims_[at(between)].chunks);
    return out + s;
  }

  // Blocks of the other places, the one that the next rank passes on last; along the first dimension, its own chunk in
  // the end. All ranks of a line have the same order, so slots are numbered by turns.
  Rule reduce(int d) const {
    const TorusDimension& along = dims_[at(d)];
    const bool is_last = d == 0;
    Rule rule = draft_.step(fmt::format("reduce{}", d), rows(a, b));
    rule.count = is_last ? along.size : times(along.size - 1, along.chunks);
    rule.let = chunk_lets(d, 1, s);
    const Expr takes = gt(s, is_one(along.chunks) ? Expr(0) : along.chunks - 1),
               passes = is_last ? lt(s, along.size - 1) : Expr(1), own = is_last ? eq(s, along.size - 1) : Expr(0);
    rule.waits = {wait(along.full).index((s - along.chunks) * slot).per_lane().when(takes),
                  wait(credit_).index(d).lag(1).when(passes)};
    rule.sources = {piece(along.inbox, slot_at(s - along.chunks)).when(takes)};
    rule.targets = {piece(along.inbox, slot_at(s)).of(along.up).when(passes)};
    rule.signals = {signal(along.up, along.full).index(s * slot).per_lane().when(passes),
                    signal(r, along.used).when(takes)};
    for (int e = d + 1; e < int_size(dims_); ++e) {
      const TorusDimension& earlier = dims_[at(e)];
      rule.waits.push_back(wait(earlier.full).index(slot_of_earlier(e, d) * slot).per_lane());
      rule.sources.push_back(piece(earlier.inbox, slot_at(slot_of_earlier(e, d))));
      rule.signals.push_back(signal(r, earlier.used));
    }
    if (is_last) {
      rule.waits.push_back(wait(open_).index(0).when(own));
      for (const Expr& to : {r, along.up}) {
        rule.targets.push_back(piece(y_, rows(a, b)).of(to).when(own));
        rule.signals.push_back(signal(to, got_).index(c * slot).per_lane().when(own));
      }
    }
    rule.finish = draft_.producer.has_epilogue() ? own : Expr(0);
    return rule;
  }

  // What is here goes on to the next rank; what has come all the way is only waited for. Along the first dimension the
  // step that made a chunk has sent it.
  Rule gather(int d) const {
    const TorusDimension& along = dims_[at(d)];
    const int first = d == 0 ? 1 : 0;
    Rule rule = draft_.trigger(fmt::format("gather{}", d), rows(a, b));
    rule.count = d == 0 ? along.size - 1 : along.size * along.chunks;
    rule.let = chunk_lets(d, first, s);
    const Expr onward = lt(d == 0 ? s + 1 : s / along.chunks, along.size - 1);
    rule.waits = {wait(got_).index(c * slot).per_lane(), wait(open_).index(d).when(onward)};
    rule.sources = {piece(y_, rows(a, b)).when(onward)};
    rule.targets = {piece(y_, rows(a, b)).of(along.up).when(onward)};
    rule.signals = {signal(along.up, got_).index(c * slot).per_lane().when(onward)};
    return rule;
  }

  Draft& draft_;
  std::vector<TorusDimension> dims_;
  int credit_ = 0, y_ = 0, open_ = 0, got_ = 0;
};

}  // namespace

std::vector<int> torus_of(const Space& space) {
  if (!space.options.torus.empty()) return space.options.torus;
  const int n = space.num_ranks();
  int columns = 1;
  for (int size = 1; size * size <= n; ++size)
    if (n % size == 0) columns = size;
  return {n / columns, columns};
}

Plan build_torus_all_reduce(Producer p, const Space& space) {
  const std::vector<int> dims = torus_of(space);
  check_torus(p, space, dims);
  p.tile[0] = rows_of_tiles(p.m / space.num_ranks(), p.tile[0]);
  Draft draft = reduce_draft("all_reduce", p, space, Route::torus);
  draft.plan.sum = Sum::any;
  TorusDraft(draft, dims).add_rules();
  return draft.plan;
}

}  // namespace weft
