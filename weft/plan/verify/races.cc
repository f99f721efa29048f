// Promises 3 and 4: one local pass. A signal covers what its action wrote to the signalled rank, so every
// reader must itself wait for the counter that its writer signals; nothing is inferred through third ranks.
//
//   read after write    the reader waits, lag 0, for the writer's signal
//   write after write   an element has one writer per run; runs of one rank follow each other (the drain rule)
//   write after read    a remote writer of run e + depth waits for something that the reader's rank did after reading:
//                       anything of a later run (lag < depth), or the reader of run e itself, or an action behind it
//   the caller's reads  of an output: as above, but only `anything of a later run` will do
//   arrival             every remote write is waited for by some action of the rank that it goes to
//   run-ahead           a counter raised from several ranks cannot mix the signals of two runs
#include <algorithm>
#include <bit>
#include <numeric>

#include <fmt/core.h>

#include "weft/base/index.h"
#include "weft/plan/verify/model.h"

namespace weft::verifying {
namespace {

class Races {
 public:
  explicit Races(Model& model)
      : m_(model),
        num_buffers_(model.plan->buffers.size()),
        known_(model.acts.size()),
        stamp_(model.acts.size()),
        arrived_(model.acts.size(), -1) {}

  Seen run() {
    bucket_writes();
    for (std::size_t b = 0; b + 1 < seen_.first_write.size() && !m_.failed(); ++b) check_disjoint(b);
    if (!m_.failed()) check_reads();
    if (!m_.failed()) check_rewrites();
    if (!m_.failed()) check_run_ahead();
    return std::move(seen_);
  }

 private:
  struct Stamp {
    std::int32_t by = -1;  // the act whose waits were stamped
    std::int32_t wait = 0, signaler_per = 0;
  };

  std::size_t bucket(const VPiece& p) const { return p.rank * num_buffers_ + p.buffer; }
  const Box& box(std::int32_t piece) const { return m_.boxes[m_.pieces[piece].box]; }

  void bucket_writes() {
    std::vector<std::int32_t>& first = seen_.first_write;
    first.assign(m_.acts_of.size() * num_buffers_ + 1, 0);
    for (const Act& act : m_.acts)
      for (const VPiece& p : m_.pieces_of(act.targets)) ++first[bucket(p) + 1];
    std::partial_sum(first.begin(), first.end(), first.begin());
    seen_.writes.resize(first.back());
    auto at = first;
    for (const Act& act : m_.acts)
      for (std::int32_t p = act.targets.begin; p < act.targets.end; ++p) seen_.writes[at[bucket(m_.pieces[p])]++] = p;
  }

  // Sorted along the dimension that tells the boxes apart best, so that neighbours are all there is to
  // compare.
  void check_disjoint(std::size_t b) {
    const auto begin = seen_.writes.begin() + seen_.first_write[b],
               end = seen_.writes.begin() + seen_.first_write[b + 1];
    if (end - begin < 2) return;
    m_.spend((end - begin) * box(*begin).dims * std::bit_width(num(end - begin)));
    int best = 0;
    std::size_t most = 0;
    for (int d = 0; d < box(*begin).dims && most < num(end - begin); ++d) {
      starts_.clear();
      for (auto it = begin; it != end; ++it) starts_.push_back({box(*it).lo[d], *it});
      std::sort(starts_.begin(), starts_.end());
      std::size_t distinct = 1;
      for (std::size_t i = 1; i < starts_.size(); ++i) distinct += starts_[i].first != starts_[i - 1].first;
      if (distinct <= most) continue;
      most = distinct, best = d;
      sorted_.swap(starts_);
    }
    for (std::size_t i = 0; i < sorted_.size(); ++i) {
      const Box& one = box(sorted_[i].second);
      std::size_t j = i + 1;
      for (; j < sorted_.size() && sorted_[j].first < one.hi[best]; ++j)
        if (overlaps(one, box(sorted_[j].second))) return complain_overlap(sorted_[i].second, sorted_[j].second);
      m_.spend(static_cast<std::int64_t>(j - i));
    }
  }
  void complain_overlap(std::int32_t i, std::int32_t j) {
    const VPiece& p = m_.pieces[i];
    m_.problem(fmt::format("{} and {} both write {} of \"{}\" on rank {}", name_of(i), name_of(j),
                           to_string(intersect(box(i), box(j))), m_.plan->buffers[p.buffer].name, p.rank));
  }
  std::string name_of(std::int32_t piece) const { return m_.name(m_.acts[m_.pieces[piece].act]); }

  void stamp_waits(std::int32_t a) {
    const Act& act = m_.acts[a];
    for (std::int32_t w = act.waits.begin; w < act.waits.end; ++w) {
      const VWait& wait = m_.waits[w];
      m_.ask_for_counter(w);
      if (wait.lag != 0) continue;
      m_.spend(m_.counters[wait.counter].signalers.size());
      for (const Signaler& s : m_.signalers_of(m_.counters[wait.counter]))
        if (m_.implies(wait, s)) {
          stamp_[s.act] = {a, w, s.per};
          arrived_[s.act] = act.rank;
        }
    }
  }

  void check_reads() {
    seen_.first.assign(m_.pieces.size() + 1, 0);
    for (std::size_t rank = 0; rank < m_.acts_of.size() && !m_.failed(); ++rank) {
      Places places(m_, seen_, static_cast<int>(rank));
      for (std::int32_t a = m_.acts_of[rank].begin; a < m_.acts_of[rank].end && !m_.failed(); ++a) {
        stamp_waits(a);
        const Act& act = m_.acts[a];
        for (std::int32_t p = act.reads.begin; p < act.targets.end; ++p) {  // reads, sources, targets lie together
          seen_.first[p] = int_size(seen_.writers);
          if (p < act.sources.end) check_read(a, p, p < act.reads.end, places);
        }
      }
      check_arrivals(rank);
    }
    seen_.first.back() = int_size(seen_.writers);
  }

  void check_read(std::int32_t a, std::int32_t p, bool by_rows, Places& places) {
    const VPiece& piece = m_.pieces[p];
    if (m_.plan->buffers[piece.buffer].role == Role::input) return;
    const auto see = [&](std::int32_t write) {
      m_.spend(4);
      m_.hold(3 * std::int64_t{sizeof(write)});  // kept here and for its writer
      seen_.writers.push_back(write);
      check_seen(a, p, write, by_rows);
    };
    if (const std::int32_t match = places.find(piece.buffer, piece.box); match >= 0) return see(match);
    std::int64_t covered = 0;
    for (const std::int32_t write : places.near(piece.buffer, box(p))) {
      covered += intersect(box(write), box(p)).volume();
      see(write);
    }
    if (covered != box(p).volume())
      m_.problem(fmt::format("{} reads {} of \"{}\", of which {} elements are written by nobody", m_.name(m_.acts[a]),
                             to_string(box(p)), m_.plan->buffers[piece.buffer].name, box(p).volume() - covered));
  }

  void check_seen(std::int32_t a, std::int32_t read, std::int32_t write, bool by_rows) {
    const Act &reader = m_.acts[a], &writer = m_.acts[m_.pieces[write].act];
    const Stamp& stamp = stamp_[m_.pieces[write].act];
    if (stamp.by != a)
      return m_.problem(fmt::format("{} reads {} of \"{}\" without waiting for {}, which writes it", m_.name(reader),
                                    to_string(box(read)), m_.plan->buffers[m_.pieces[read].buffer].name,
                                    m_.name(writer)));
    const VWait& wait = m_.waits[stamp.wait];
    if (m_.counters[wait.counter].span > 1 &&
        !lanes_match(reader, read, wait.per, writer, write, stamp.signaler_per, by_rows))
      throw Misaligned{};
  }

  // Lane by lane: does the counter that a lane waits for belong to the lane that made what it touches?
  bool lanes_match(const Act& x, std::int32_t x_piece, std::int32_t x_per, const Act& w, std::int32_t w_piece,
                   std::int32_t w_per, bool by_rows) const {
    if (m_.pieces[x_piece].box != m_.pieces[w_piece].box) return false;
    if (!by_rows) return x.tile == w.tile && x_per == w_per;
    const Grid x_grid = grid_of(m_.boxes[x.box], m_.tile_of(x)), w_grid = grid_of(m_.boxes[w.box], m_.tile_of(w));
    return m_.tile_of(x)[0] == m_.tile_of(w)[0] && x_per == x_grid.cols && w_per == w_grid.cols;
  }

  void check_arrivals(std::size_t rank) {
    for (std::size_t b = rank * num_buffers_; b < (rank + 1) * num_buffers_; ++b)
      for (std::int32_t i = seen_.first_write[b]; i < seen_.first_write[b + 1]; ++i) {
        const std::int32_t write = seen_.writes[i], by = m_.pieces[write].act;
        const Act& writer = m_.acts[by];
        if (writer.rank == static_cast<std::int32_t>(rank) || arrived_[by] == static_cast<std::int32_t>(rank)) continue;
        return m_.problem(fmt::format("{} writes {} of \"{}\" on rank {}, but no action there waits for it",
                                      m_.name(writer), to_string(box(write)), m_.plan->buffers[b % num_buffers_].name,
                                      rank));
      }
  }

  // What the waits of one act say about other ranks: the smallest lag, and who signalled.
  struct Credit {
    std::int32_t act, lag, wait, per;
  };
  void collect_credits(const Act& act) {
    credits_.clear();
    for (std::int32_t w = act.waits.begin; w < act.waits.end; ++w) {
      m_.ask_for_counter(w);
      m_.spend(m_.counters[m_.waits[w].counter].signalers.size());
      for (const Signaler& s : m_.signalers_of(m_.counters[m_.waits[w].counter]))
        if (m_.implies(m_.waits[w], s)) credits_.push_back({s.act, m_.waits[w].lag, w, s.per});
    }
    for (const Credit& c : credits_) {
      std::int32_t& lag = min_lag_[m_.acts[c.act].rank];
      lag = std::min(lag, c.lag);
    }
  }
  void clear_credits() {
    for (const Credit& c : credits_) min_lag_[m_.acts[c.act].rank] = kNoLag;
  }

  void check_rewrites() {
    std::vector<std::int32_t> first(m_.pieces.size() + 1, 0), readers(seen_.writers.size());
    for (const std::int32_t w : seen_.writers) ++first[w + 1];
    std::partial_sum(first.begin(), first.end(), first.begin());
    auto at = first;
    for (std::size_t p = 0; p < m_.pieces.size(); ++p)
      for (std::int32_t i = seen_.first[p]; i < seen_.first[p + 1]; ++i)
        readers[at[seen_.writers[i]]++] = static_cast<std::int32_t>(p);
    min_lag_.assign(m_.acts_of.size(), kNoLag);
    for (const Act& act : m_.acts) {
      if (std::none_of(m_.pieces.begin() + act.targets.begin, m_.pieces.begin() + act.targets.end,
                       [&](const VPiece& p) { return p.rank != act.rank; }))
        continue;
      collect_credits(act);
      for (std::int32_t p = act.targets.begin; p < act.targets.end; ++p)
        if (m_.pieces[p].rank != act.rank)
          check_rewrite(act, p, {readers.data() + first[p], num(first[p + 1] - first[p])});
      clear_credits();
      if (m_.failed()) return;
    }
  }

  void check_rewrite(const Act& act, std::int32_t write, std::span<const std::int32_t> readers) {
    const VPiece& piece = m_.pieces[write];
    const Buffer& buffer = m_.plan->buffers[piece.buffer];
    const std::int32_t lag = min_lag_[piece.rank];
    if (lag < buffer.depth) return;
    const auto complain = [&](const std::string& whom) {
      m_.problem(fmt::format("{} writes {} of \"{}\" on rank {} again without a credit from {} (depth {})",
                             m_.name(act), to_string(box(write)), buffer.name, piece.rank, whom, buffer.depth));
    };
    if (buffer.role == Role::output) return complain("the rank's opening of the run");
    if (lag > buffer.depth) return complain("that rank");
    for (const std::int32_t read : readers)
      if (!credited(act, write, read, buffer.depth)) return complain(m_.name(m_.acts[m_.pieces[read].act]));
  }

  // A reader of many slots is asked about once a slot, always with the giver of its rank's credits.
  bool ends_before(std::int32_t earlier, std::int32_t later) {
    Known& known = known_[earlier];
    if (known.later != later) known = {later, m_.ends_before(m_.acts[earlier], m_.acts[later])};
    return known.ends_before;
  }

  bool credited(const Act& act, std::int32_t write, std::int32_t read, int depth) {
    const Act& reader = m_.acts[m_.pieces[read].act];
    m_.spend(std::ssize(credits_));
    for (const Credit& c : credits_) {
      const Act& giver = m_.acts[c.act];
      if (c.lag != depth || giver.rank != reader.rank) continue;
      if (&giver != &reader) {
        if (ends_before(m_.pieces[read].act, c.act)) return true;
        continue;
      }
      const VWait& wait = m_.waits[c.wait];
      if (m_.counters[wait.counter].span == 1) return true;
      // Rows are read whole by every lane of their row of tiles: all of them have to say that they are done.
      const bool by_rows = read < reader.reads.end;
      if (!lanes_match(reader, read, c.per, act, write, wait.per, by_rows)) throw Misaligned{};
      return true;
    }
    return false;
  }

  // Few counters are raised from several ranks, and of those that are, a bit is nearer than the record.
  void check_run_ahead() {
    std::vector<bool> shared(m_.counters.size());
    bool any = false;
    for (std::size_t c = 0; c < shared.size(); ++c)
      if (!m_.counters[c].one_rank()) shared[c] = any = true;
    if (!any) return;
    for (const Act& act : m_.acts)
      for (const VWait& wait : m_.waits_of(act)) {
        if (!shared[at(wait.counter)]) continue;
        const CounterBlock& c = m_.counters[wait.counter];
        m_.spend(c.signalers.size());
        for (const Signaler& s : m_.signalers_of(c)) {
          const Act& signaler = m_.acts[s.act];
          if (wait.lag == 0 && (signaler.rank == act.rank || held_back(signaler, act))) continue;
          return m_.problem(
              fmt::format("{} waits for {}, which several ranks raise, and {} could raise it for the next run first",
                          m_.name(act), m_.counter_name(c), m_.name(signaler)));
        }
      }
  }

  // Can `signaler` of run e + 1 not signal before `waiter` of run e has stopped waiting?
  bool held_back(const Act& signaler, const Act& waiter) const {
    for (const VWait& w : m_.waits_of(signaler)) {
      m_.spend(1);
      if (w.lag > 1 || !m_.counters[w.counter].one_rank()) continue;
      m_.spend(m_.counters[w.counter].signalers.size());
      for (const Signaler& s : m_.signalers_of(m_.counters[w.counter])) {
        const Act& giver = m_.acts[s.act];
        if (giver.rank != waiter.rank || !m_.implies(w, s)) continue;
        if (w.lag == 0 || (&giver == &waiter && m_.counters[w.counter].span == 1) || m_.ends_before(waiter, giver))
          return true;
      }
    }
    return false;
  }

  static constexpr std::int32_t kNoLag = 1 << 20;
  struct Known {
    std::int32_t later = -1;
    bool ends_before = false;
  };
  Model& m_;
  std::size_t num_buffers_;
  std::vector<Known> known_;                                            // of each act
  std::vector<std::pair<std::int64_t, std::int32_t>> starts_, sorted_;  // where writes begin in one dimension
  std::vector<Stamp> stamp_;
  std::vector<std::int32_t> arrived_;
  std::vector<Credit> credits_;
  std::vector<std::int32_t> min_lag_;
  Seen seen_;
};

}  // namespace

Places::Places(const Model& model, const Seen& seen, int rank)
    : m_(model),
      seen_(seen),
      rank_(rank),
      piece_at_(num(seen.first_write[at(rank + 1) * model.plan->buffers.size()] -
                    seen.first_write[at(rank) * model.plan->buffers.size()])),
      by_row_(model.plan->buffers.size()) {
  for (std::size_t b = at(rank) * by_row_.size(); b < at(rank + 1) * by_row_.size(); ++b)
    for (std::int32_t i = seen.first_write[b]; i < seen.first_write[b + 1]; ++i) {
      const VPiece& piece = model.pieces[seen.writes[i]];
      piece_at_.at(key(piece.buffer, piece.box)) = seen.writes[i];
    }
}

void Places::sort_rows(std::int32_t buffer) {
  ByRow& rows = by_row_[at(buffer)];
  const std::size_t b = at(rank_) * by_row_.size() + at(buffer);
  for (std::int32_t i = seen_.first_write[b]; i < seen_.first_write[b + 1]; ++i) {
    const Box& box = m_.boxes[m_.pieces[seen_.writes[i]].box];
    rows.starts.push_back({box.lo[0], seen_.writes[i]});
    rows.tallest = std::max(rows.tallest, box.size(0));
  }
  m_.spend(std::ssize(rows.starts) * std::bit_width(rows.starts.size()));
  m_.budget->scratch(4 * std::ssize(rows.starts) * std::int64_t{sizeof(rows.starts[0])});
  std::sort(rows.starts.begin(), rows.starts.end());
}

std::span<const std::int32_t> Places::near(std::int32_t buffer, const Box& box) {
  const ByRow& rows = by_row_[at(buffer)];
  if (rows.starts.empty()) sort_rows(buffer);
  found_.clear();
  auto next = std::lower_bound(rows.starts.begin(), rows.starts.end(), std::pair{box.lo[0] - rows.tallest, -1});
  for (; next != rows.starts.end() && next->first < box.hi[0]; ++next) {
    m_.spend(1);
    if (overlaps(m_.boxes[m_.pieces[next->second].box], box)) found_.push_back(next->second);
  }
  return found_;
}

Seen check_races(Model& model) { return Races(model).run(); }

}  // namespace weft::verifying
