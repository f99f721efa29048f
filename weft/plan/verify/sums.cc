// Promises 1 and 5: what every element holds, as a symbol. The value of a piece is the left fold of
// contributions (leaf, rank) of one logical box; folds are hash-consed, so equal sums have equal ids and
// comparing with what is owed is one comparison however long the sum.
#include <algorithm>
#include <functional>
#include <map>

#include <fmt/core.h>

#include "weft/base/index.h"
#include "weft/plan/verify/model.h"

namespace weft::verifying {
namespace {

struct Node {
  std::int32_t left,
      right;  // fold: left + right; leaf: left = -1, right = leaf * ranks + rank; finish: right = -1
  // The first fold that this one was found to grow into: nearly always the only one, so few folds need the
  // map.
  std::int32_t grown_by = kNothing, grown = 0;

  static constexpr std::int32_t kNothing = -2;
  bool is_finish() const { return left != -1 && right == -1; }
};

struct Part {
  std::int32_t box;  // relative to the piece's corner, interned
  std::int32_t node;
  std::int32_t origin;  // its logical box, interned
};

class Sums {
 public:
  Sums(Model& model, const Seen& seen)
      : m_(model), seen_(seen), parts_of_(model.acts.size(), Range{}), stacked_(model.plan->producers.size()) {
    for (const Act& act : m_.acts)
      if (act.is_step && m_.boxes[act.box].hi[0] > m_.plan->producers[act.producer].m) stacked_[act.producer] = true;
  }

  void run(const std::vector<std::int32_t>& order) {
    for (std::size_t i = 0; i < order.size() && !m_.failed(); ++i) make(order[i]);
    for (int rank = 0; rank < m_.plan->num_ranks && !m_.failed(); ++rank) check_owed(rank);
  }

 private:
  std::int32_t make_node(std::int32_t left, std::int32_t right) {
    nodes_.push_back({left, right});
    return int_size(nodes_) - 1;
  }
  std::int32_t intern(std::int32_t left, std::int32_t right) {
    if (nodes_[left].grown_by == right) return nodes_[left].grown;
    if (nodes_[left].grown_by == Node::kNothing) {
      const std::int32_t made = make_node(left, right);
      nodes_[left].grown_by = right;
      return nodes_[left].grown = made;
    }
    std::int32_t& at = node_of_.at(static_cast<std::uint64_t>(left) << 32 | static_cast<std::uint32_t>(right));
    if (at == -1) at = make_node(left, right);
    return at;
  }
  std::int32_t leaf(std::int32_t leaf, std::int32_t rank) {
    // Producers count 0, 1, ...; input buffers -1, -2, ...: fold both into one line.
    const std::int32_t source = leaf >= 0 ? 2 * leaf : -2 * leaf - 1;
    const std::int32_t id = source * m_.plan->num_ranks + rank;
    std::int32_t& known = leaf_of_.at(static_cast<std::uint32_t>(id));
    return known == -1 ? known = make_node(-1, id) : known;
  }
  std::int32_t add(std::int32_t a, std::int32_t b) { return intern(a, b); }
  std::int32_t finished(std::int32_t a) { return intern(a, -1); }

  // Is `got` the sum that is owed, or, where any order will do, a sum of the same contributions?
  bool same(std::int32_t got, std::int32_t want) {
    if (got == want) return true;
    if (m_.plan->sum != Sum::any) return false;
    std::int32_t& known = same_.at(static_cast<std::uint64_t>(got) << 32 | static_cast<std::uint32_t>(want));
    if (known == -1) known = same_contributions(got, want);
    return known == 1;
  }
  // Contribution by contribution: a plan's author could make any sum of hashes collide.
  bool same_contributions(std::int32_t got, std::int32_t want) {
    if (nodes_[got].is_finish() != nodes_[want].is_finish()) return false;
    if (nodes_[want].is_finish()) got = nodes_[got].left, want = nodes_[want].left;
    const Contributions wanted = contributions(want, kMaxContributions);
    std::int64_t most = 0;
    for (const auto& [leaf, times] : wanted) most += times;
    return contributions(got, most) == wanted;
  }
  // How often each leaf is in a fold. Empty where there are more than `most`, or an epilogue has been applied within.
  using Contributions = std::map<std::int32_t, std::int64_t>;
  Contributions contributions(std::int32_t node, std::int64_t most) {
    Contributions leaves;
    std::map<std::int32_t, std::int64_t, std::greater<>> left{{node, 1}};  // a fold has a higher number than its parts
    std::int64_t total = 0;
    while (!left.empty()) {
      m_.spend(16);
      const auto [at, times] = *left.begin();
      left.erase(left.begin());
      if (times > most || nodes_[at].is_finish()) return {};
      if (nodes_[at].left == -1) {
        leaves[at] += times;
        if ((total += times) > most) return {};
        continue;
      }
      left[nodes_[at].left] += times;
      left[nodes_[at].right] += times;
    }
    return leaves;
  }

  // The parts that a source or owed piece is made of.
  void parts_of(const VPiece& piece, std::span<const std::int32_t> writers, std::vector<Part>* out) {
    if (m_.plan->buffers[piece.buffer].role == Role::input) {
      const Box& box = m_.boxes[piece.box];
      out->push_back({relative(box, box), leaf(-1 - piece.buffer, piece.rank), piece.box});
      return;
    }
    for (const std::int32_t w : writers) {
      const VPiece& write = m_.pieces[w];
      const Range made = parts_of_[write.act];
      m_.spend(4 * (made.size() + 1));
      const bool whole = write.box == piece.box;
      for (std::int32_t i = made.begin; i < made.end; ++i) {
        if (whole)
          out->push_back(parts_[i]);
        else
          clip(parts_[i], m_.boxes[write.box], m_.boxes[piece.box], out);
      }
    }
  }

  std::int32_t relative(const Box& box, const Box& corner) {
    Box out = box;
    for (int d = 0; d < box.dims; ++d) out.lo[d] -= corner.lo[d], out.hi[d] -= corner.lo[d];
    return m_.boxes.intern(out);
  }

  // Part of a written box, seen through another box of the same buffer.
  void clip(const Part& part, const Box& written, const Box& wanted, std::vector<Part>* out) {
    Box box = m_.boxes[part.box];
    for (int d = 0; d < box.dims; ++d) box.lo[d] += written.lo[d], box.hi[d] += written.lo[d];
    const Box common = intersect(box, wanted);
    if (common.empty()) return;
    out->push_back({relative(common, wanted), part.node, moved(part.origin, common, box)});
  }
  // The logical box of `common`, a part of `box` whose logical box is `origin`.
  std::int32_t moved(std::int32_t origin, const Box& common, const Box& box) {
    Box out = m_.boxes[origin];
    for (int d = 0; d < out.dims; ++d) {
      out.lo[d] += common.lo[d] - box.lo[d];
      out.hi[d] = out.lo[d] + common.size(d);
    }
    return m_.boxes.intern(out);
  }

  // Folds one more source into the sum so far, element by element.
  bool fold(std::vector<Part>* sum, const std::vector<Part>& next) {
    scratch_.clear();
    m_.spend(static_cast<std::int64_t>(sum->size() * next.size()));
    for (const Part& a : *sum)
      for (const Part& b : next) {
        if (a.box == b.box) {
          if (a.origin != b.origin) return false;
          scratch_.push_back({a.box, add(a.node, b.node), a.origin});
          continue;
        }
        const Box left = m_.boxes[a.box], right = m_.boxes[b.box];
        const Box common = intersect(left, right);
        if (common.empty()) continue;
        const std::int32_t origin = moved(a.origin, common, left);
        if (origin != moved(b.origin, common, right)) return false;
        scratch_.push_back({m_.boxes.intern(common), add(a.node, b.node), origin});
      }
    sum->swap(scratch_);
    return true;
  }

  void make(std::int32_t a) {
    const Act& act = m_.acts[a];
    if (act.targets.size() == 0) return;
    sum_.clear();
    bool begun = false, matched = true;
    const auto include = [&](const std::vector<Part>& parts) {
      if (begun)
        matched = matched && fold(&sum_, parts);
      else
        sum_ = parts;
      begun = true;
    };
    for (std::int32_t p = act.sources.begin; p < act.sources.end; ++p) {
      next_.clear();
      parts_of(m_.pieces[p], writers_of(p), &next_);
      include(next_);
    }
    if (act.is_step && act.reads.size() > 0 && !check_operands(act))
      return m_.problem(fmt::format("{} reads other rows than those its box is made from", m_.name(act)));
    if (act.is_step) {
      const Box box = m_.boxes[act.box];
      include({{relative(box, box), leaf(act.producer, act.rank), act.box}});
    }
    if (!matched) return m_.problem(fmt::format("{} adds elements of different places of the output", m_.name(act)));
    const auto begin = int_size(parts_);
    for (Part& part : sum_) {
      if (act.finish && !in_place(part, act))
        return m_.problem(fmt::format("{} finishes elements of other places than its box", m_.name(act)));
      if (act.finish) part.node = finished(part.node);
      parts_.push_back(part);
    }
    parts_of_[a] = {begin, int_size(parts_)};
  }

  // Rows of an input make the same rows of the output or, where the output has more rows than one rank's input,
  // those of rank c, the c-th in a stack of all ranks' rows; and all k columns of them.
  bool check_operands(const Act& act) {
    const Producer& p = m_.plan->producers[act.producer];
    const int ranks = m_.plan->num_ranks;
    for (std::int32_t i = act.reads.begin; i < act.reads.end; ++i) {
      const Box& read = m_.boxes[m_.pieces[i].box];
      if (p.k > 0 && (read.dims != 2 || read.lo[1] != 0 || read.hi[1] != p.k)) return false;
      next_.clear();
      parts_of(m_.pieces[i], writers_of(i), &next_);
      for (const Part& part : next_) {
        const Node& node = nodes_[part.node];
        if (node.left != -1 || node.right / ranks % 2 == 0) continue;  // made by a producer: nothing says from what
        const Box &at = m_.boxes[part.box], &origin = m_.boxes[part.origin], &home = m_.boxes[act.box];
        const std::int64_t first = stacked_[act.producer] ? node.right % ranks * p.m : 0;
        if (first + origin.lo[0] != home.lo[0] + at.lo[0] || origin.lo[1] != at.lo[1]) return false;
      }
    }
    return true;
  }

  // The epilogue finds its bias by the action's box: what it finishes must lie there.
  bool in_place(const Part& part, const Act& act) const {
    const Box &box = m_.boxes[part.box], &logical = m_.boxes[part.origin], &home = m_.boxes[act.box];
    for (int d = 0; d < box.dims; ++d)
      if (logical.lo[d] != home.lo[d] + box.lo[d]) return false;
    return true;
  }

  std::span<const std::int32_t> writers_of(std::int32_t piece) const {
    return {seen_.writers.data() + seen_.first[piece], num(seen_.first[piece + 1] - seen_.first[piece])};
  }

  std::span<const std::int32_t> writes_to(int rank, std::int32_t buffer) const {
    const std::size_t b = rank * m_.plan->buffers.size() + buffer;
    return {seen_.writes.data() + seen_.first_write[b], num(seen_.first_write[b + 1] - seen_.first_write[b])};
  }

  std::int32_t expected(const Expander::Due& due) {
    // A sum by hosts is over all ranks, so numbers above theirs are free to tell it.
    const std::int32_t over = due.ranks_per_host > 1 ? m_.plan->num_ranks + due.ranks_per_host : due.contributors;
    // Side by side: a bit, 18 bits (two times 65536 ranks), 16 bits, and the leaf, as in leaf().
    const auto source = static_cast<std::uint64_t>(due.leaf >= 0 ? 2 * due.leaf : -2 * due.leaf - 1);
    const std::uint64_t key = source << 35 | static_cast<std::uint64_t>(due.first) << 19 |
                              static_cast<std::uint64_t>(over) << 1 | static_cast<std::uint64_t>(due.finished);
    std::int32_t& known = expected_.at(key);
    if (known != -1) return known;
    m_.spend(16 * std::int64_t{due.contributors});
    const std::int32_t node = due.ranks_per_host > 1 ? by_hosts(due) : flat(due);
    return known = due.finished ? finished(node) : node;
  }
  std::int32_t flat(const Expander::Due& due) {
    std::int32_t node = leaf(due.leaf, due.first);
    for (std::int32_t i = 1; i < due.contributors; ++i)
      node = add(node, leaf(due.leaf, (due.first + i) % m_.plan->num_ranks));
    return node;
  }
  // The order of a sum that goes host by host: plan.h.
  std::int32_t by_hosts(const Expander::Due& due) {
    const std::int32_t per_host = due.ranks_per_host, hosts = m_.plan->num_ranks / per_host;
    const auto from = [&](std::int32_t host, std::int32_t i) {
      return leaf(due.leaf, (due.first / per_host + host) % hosts * per_host + (due.first + i) % per_host);
    };
    std::int32_t sum = -1;
    for (std::int32_t host = 0; host + 1 < hosts; ++host) {
      std::int32_t node = from(host, 0);
      for (std::int32_t i = 1; i < per_host; ++i) node = add(node, from(host, i));
      sum = host == 0 ? node : add(sum, node);
    }
    for (std::int32_t i = 0; i < per_host; ++i) sum = sum == -1 ? from(hosts - 1, i) : add(sum, from(hosts - 1, i));
    return sum;
  }

  void check_owed(int rank) {
    const Places places(m_, seen_, rank);
    for (const Expander::Due& due : m_.expander->owed(rank)) {
      m_.spend(16);
      const VPiece piece{-1, rank, due.piece.buffer, m_.boxes.intern(due.piece.box)};
      const std::int32_t match = places.find(piece.buffer, piece.box);
      next_.clear();
      if (match >= 0)
        parts_of(piece, {&match, 1}, &next_);
      else
        parts_of(piece, writes_to(rank, piece.buffer), &next_);
      if (!check_due(due, piece)) return;
    }
  }

  bool check_due(const Expander::Due& due, const VPiece& piece) {
    const std::int32_t want = expected(due);
    const std::string& buffer = m_.plan->buffers[piece.buffer].name;
    std::int64_t covered = 0;
    for (const Part& part : next_) {
      const Box box = m_.boxes[part.box], logical = m_.boxes[part.origin];
      covered += box.volume();
      bool placed = true;
      for (int d = 0; d < box.dims; ++d) placed = placed && logical.lo[d] == due.origin[d] + box.lo[d];
      if (placed && same(part.node, want)) continue;
      m_.problem(fmt::format("rank {} is owed {} of \"{}\" as {}, but gets {}{}", piece.rank, to_string(due.piece.box),
                             buffer, show(want), show(part.node),
                             placed ? "" : " of another place, " + to_string(logical)));
      return false;
    }
    if (covered == due.piece.box.volume()) return true;
    m_.problem(fmt::format("rank {} is owed {} of \"{}\", of which {} elements are never written", piece.rank,
                           to_string(due.piece.box), buffer, due.piece.box.volume() - covered));
    return false;
  }

  // "(rank 1 + rank 2) + rank 0", long sums shortened.
  std::string show(std::int32_t node, int depth = 0) const {
    const Node& n = nodes_[node];
    if (n.left == -1) return fmt::format("rank {}", n.right % m_.plan->num_ranks);
    if (n.right == -1) return fmt::format("epilogue({})", show(n.left, depth + 1));
    const std::string left = depth > 8 ? "..." : show(n.left, depth + 1);
    const bool bracket = nodes_[n.right].left != -1;
    const std::string right = bracket && depth > 8 ? "..." : show(n.right, depth + 1);
    return bracket ? fmt::format("{} + ({})", left, right) : fmt::format("{} + {}", left, right);
  }

  Model& m_;
  const Seen& seen_;
  std::vector<Node> nodes_;
  static constexpr std::int64_t kMaxContributions = 65536;  // one per rank
  FlatMap<std::uint64_t> node_of_, expected_, same_;
  FlatMap<std::uint32_t> leaf_of_;
  std::vector<Part> parts_, sum_, next_, scratch_;
  std::vector<Range> parts_of_;  // what each act made; the same for all its targets
  std::vector<bool> stacked_;    // producers whose output is of more rows than one rank's input
};

}  // namespace

void check_sums(Model& model, const std::vector<std::int32_t>& order, const Seen& seen) {
  Sums(model, seen).run(order);
}

}  // namespace weft::verifying
