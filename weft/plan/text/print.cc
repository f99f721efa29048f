#include "weft/plan/text/print.h"

#include <algorithm>

#include <fmt/core.h>

#include "weft/base/units.h"
#include "weft/plan/price/traffic.h"
#include "weft/plan/program.h"

namespace weft {
namespace {

constexpr std::size_t kWidth = 110;
constexpr std::size_t kMaxListed = 48;  // of a kind; a page has no more
constexpr int kMaxCountedRanks = 256;   // expanding more for the totals would take longer than reading the page

using Row = std::vector<std::string>;

// Words of `text` after `head`, on as many lines as it takes.
void wrap(const std::string& head, const std::string& text, std::size_t margin, std::string* out) {
  std::string line = head;
  bool fresh = true;
  for (std::size_t at = 0; at < text.size();) {
    std::size_t end = text.find(' ', at);
    if (end == std::string::npos) end = text.size();
    const std::string word = text.substr(at, end - at);
    at = end + (end < text.size());
    if (!fresh && line.size() + 1 + word.size() > kWidth) {
      *out += line + "\n";
      line = std::string(margin, ' ');
      fresh = true;
    }
    line += (fresh ? "" : " ") + word;
    fresh = false;
  }
  *out += line + "\n";
}

void strip(std::string* line) {
  while (!line->empty() && line->back() == ' ') line->pop_back();
}

// Rows in columns. A cell too long for its column pushes the rest of its row to the right; a last cell that
// leaves the page is wrapped under its own column, or goes to the next line where that is too far right.
std::string columns(const std::vector<Row>& rows, std::size_t indent, std::size_t widest) {
  std::vector<std::size_t> width;
  for (const Row& row : rows)
    for (std::size_t c = 0; c < row.size(); ++c) {
      if (width.size() <= c) width.push_back(0);
      if (row[c].size() <= widest) width[c] = std::max(width[c], row[c].size());
    }
  std::string out;
  for (const Row& row : rows) {
    std::string line;
    std::size_t column = indent;
    for (std::size_t c = 0; c < row.size(); column += width[c++] + 2) {
      if (row[c].empty()) continue;
      if (line.size() < column)
        line.resize(column, ' ');
      else if (!line.empty())
        line += "  ";
      if (line.size() + row[c].size() > kWidth && line.size() > kWidth / 2) {
        strip(&line);
        out += line + "\n";
        line = std::string(indent + width[0] + 4, ' ');
      }
      const std::string head = line;
      line.clear();
      wrap(head, row[c], head.size() + 2, &line);
      line.pop_back();
      if (const std::size_t last = line.find_last_of('\n'); last != std::string::npos) {
        out += line.substr(0, last + 1);
        line = line.substr(last + 1);
      }
    }
    strip(&line);
    out += line + "\n";
  }
  return out;
}

std::string plural(std::int64_t count, const char* what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

std::string more(std::size_t count, const char* what) {
  return count > kMaxListed ? fmt::format("  ... and {} more {}\n", count - kMaxListed, what) : "";
}

std::string bytes(std::int64_t count) { return format_bytes(count); }

std::string show(const BoxRule& box) {
  std::string text = "[";
  for (std::size_t d = 0; d < box.lo.size(); ++d)
    text += fmt::format("{}{}:{}", d ? ", " : "", box.lo[d].str(), box.hi[d].str());
  return text + "]";
}

std::string show(const Producer& p) {
  std::string text = fmt::format("{} {} x {}", to_string(p.kind), p.m, p.n);
  if (p.k > 0) text += fmt::format(" x {}", p.k);
  if (p.dim > 0) text += fmt::format(", tables of {} x {}, pooled by {}", p.rows, p.dim, to_string(p.pooling));
  if (!p.n_of.empty()) text += ", columns by rank";
  text += fmt::format(", tiles {} x {}", p.tile[0], p.tile[1]);
  if (p.weight != Dtype::f32) text += fmt::format(", weights {}", to_string(p.weight));
  if (p.input != Dtype::f32) text += fmt::format(", x {}", to_string(p.input));
  if (p.output != Dtype::f32) text += fmt::format(", y {}", to_string(p.output));
  if (p.weights != WeightLayout::kn) text += ", w (n, k)";
  if (p.addend) text += ", addend";
  if (p.bias) text += ", bias";
  if (p.activation != Activation::none) text += fmt::format(", {}", to_string(p.activation));
  if (p.residual) text += ", residual";
  return text;
}

class Printer {
 public:
  explicit Printer(const Plan& plan) : plan_(plan), expander_(plan) {}

  std::string page() {
    header();
    buffers();
    counters();
    for (std::size_t i = 0; i < plan_.rules.size() && i < kMaxListed; ++i) rule(plan_.rules[i]);
    out_ += more(plan_.rules.size(), "rules");
    owed();
    totals();
    if (!plan_.why.empty()) wrap("why     ", plan_.why, 8, &out_);
    return std::move(out_);
  }

 private:
  void header() {
    out_ += fmt::format("plan \"{}\" for {} {}, sums {}\n", plan_.name, plan_.num_ranks,
                        plan_.num_ranks == 1 ? "rank" : "ranks",
                        plan_.sum == Sum::listed ? "in listed order" : "in any order");
    for (std::size_t p = 0; p < plan_.producers.size() && p < kMaxListed; ++p)
      wrap("  " + producer(static_cast<int>(p)) + "  ", show(plan_.producers[p]), 6, &out_);
    std::string params;
    for (std::size_t i = 0; i < plan_.params.size() && i < kMaxListed; ++i)
      params += fmt::format("{}{}={}", i ? ", " : "", plan_.params[i].name, plan_.params[i].value);
    if (!params.empty()) wrap("  with   ", params, 9, &out_);
    std::string tables;
    for (std::size_t i = 0; i < plan_.tables.size() && i < kMaxListed; ++i)
      tables += fmt::format("{}{}[{}]", i ? ", " : "", plan_.tables[i].name, plan_.tables[i].values.size());
    if (!tables.empty()) wrap("  tables ", tables, 9, &out_);
  }
  std::string producer(int index) const {
    return plan_.producers.size() == 1 ? "makes" : fmt::format("makes ({})", index);
  }

  void buffers() {
    std::vector<Row> rows{{"buffer", "role", "type", "rank 0", "bytes", "shape of rank r"}};
    for (std::size_t b = 0; b < plan_.buffers.size() && b < kMaxListed; ++b) {
      const Buffer& buffer = plan_.buffers[b];
      std::string sizes, shape;
      std::int64_t elements = buffer.depth;
      for (const std::int64_t size : expander_.shape(static_cast<int>(b), 0)) {
        sizes += fmt::format("{}{}", sizes.empty() ? "" : " x ", size);
        elements *= size;
      }
      for (const Expr& e : buffer.shape) shape += (shape.empty() ? "" : ", ") + e.str();
      if (buffer.depth > 1) shape += fmt::format("; {} copies", buffer.depth);
      if (buffer.packing.tile_rows > 0)
        shape += fmt::format("; packed {} x {} in blocks of {} rows", buffer.packing.tile_rows,
                             buffer.packing.tile_cols, buffer.packing.block_rows.str());
      rows.push_back({buffer.name, std::string(to_string(buffer.role)), std::string(to_string(buffer.dtype)), sizes,
                      bytes(row_bytes(buffer.dtype, elements)), shape});
    }
    out_ += "\n" + columns(rows, 2, 40) + more(plan_.buffers.size(), "buffers");
  }

  void counters() {
    if (plan_.counters.empty()) return;
    std::vector<Row> rows{{"counter", "rank 0", "how many", "grows in a run by"}};
    for (std::size_t c = 0; c < plan_.counters.size() && c < kMaxListed; ++c) {
      const std::int64_t begin = expander_.counter_base(static_cast<int>(c), 0);
      const std::int64_t end = c + 1 < plan_.counters.size() ? expander_.counter_base(static_cast<int>(c) + 1, 0)
                                                             : expander_.num_counters(0);
      const Counter& counter = plan_.counters[c];
      rows.push_back({counter.name, fmt::format("{}", end - begin), counter.count.str(), counter.total.str()});
    }
    out_ += "\n" + columns(rows, 2, 40) + more(plan_.counters.size(), "counters");
  }

  static std::string when(const Expr& each, const Expr& condition) {
    std::string text;
    if (!each.is_number(1)) text += fmt::format("for j < {}", each.str());
    if (!condition.is_number(1)) text += fmt::format("{}if {}", text.empty() ? "" : " ", condition.str());
    return text;
  }
  std::string counter(int family, const Expr& index, const Expr& per) const {
    const Counter& c = plan_.counters.at(family);
    if (c.count.is_number(1) && per.is_number(0)) return c.name;
    if (per.is_number(0)) return fmt::format("{}[{}]", c.name, index.str());
    const bool plain = per.node().kids.empty();
    const std::string lane = per.is_number(1) ? "lane" : "lane / " + (plain ? per.str() : "(" + per.str() + ")");
    return index.is_number(0) ? fmt::format("{}[{}]", c.name, lane)
                              : fmt::format("{}[{} + {}]", c.name, index.str(), lane);
  }
  static std::string at_rank(const Expr& rank) { return rank.str() == "r" ? "here" : "at " + rank.str(); }
  Row piece(const char* verb, const PieceRule& p) const {
    return {verb, plan_.buffers.at(p.buffer).name + show(p.box), verb == std::string("store") ? at_rank(p.rank) : "",
            when(p.each, p.when)};
  }

  void rule(const Rule& rule) {
    std::string head = fmt::format("{} {}", rule.kind == ActionKind::step ? "step" : "trigger", rule.name);
    if (!rule.count.is_number(1)) head += fmt::format("  for s < {}", rule.count.str());
    if (!rule.when.is_number(1)) head += fmt::format("  if {}", rule.when.str());
    out_ += "\n";
    wrap("", head, 4, &out_);
    std::size_t widest = 0;
    for (const Let& let : rule.let) widest = std::max(widest, let.name.size());
    for (std::size_t i = 0; i < rule.let.size(); ++i)
      wrap(fmt::format("  {:8}{:{}} = ", i ? "" : "let", rule.let[i].name, widest), rule.let[i].value.str(), 14, &out_);
    std::vector<Row> rows;
    for (const WaitRule& w : rule.waits)
      rows.push_back({"wait", fmt::format("{} >= {}", counter(w.counter, w.index, w.per), w.at.str()), lag(w.lag),
                      when(w.each, w.when)});
    for (const PieceRule& p : rule.reads) rows.push_back(piece("read", p));
    for (const PieceRule& p : rule.sources) rows.push_back(piece("add", p));
    if (!rule.box.lo.empty()) rows.push_back({rule.kind == ActionKind::step ? "make" : "move", about(rule)});
    if (!rule.finish.is_number(0)) rows.push_back({"finish", "apply the epilogue", "", finish(rule.finish)});
    for (const PieceRule& p : rule.targets) rows.push_back(piece("store", p));
    for (const SignalRule& g : rule.signals)
      rows.push_back({"signal", counter(g.counter, g.index, g.per), at_rank(g.rank), when(g.each, g.when)});
    if (!rule.order.is_number(0) || !rule.order_step.is_number(0))
      rows.push_back(
          {"order", rule.order.str(), rule.order_step.is_number(0) ? "" : "+ lane * " + rule.order_step.str()});
    out_ += columns(rows, 2, 56);
  }
  static std::string lag(int lag) {
    return lag == 0 ? "" : lag == 1 ? "of the run before" : fmt::format("of {} runs before", lag);
  }
  static std::string finish(const Expr& e) { return e.is_number(1) ? "" : "if " + e.str(); }
  std::string about(const Rule& rule) const {
    std::string text = show(rule.box);
    if (rule.kind == ActionKind::step && plan_.producers.size() > 1) text += fmt::format(" of ({})", rule.producer);
    if (rule.tile[0] > 0 || rule.tile[1] > 0) {
      const auto side = [](std::int64_t size) { return size > 0 ? fmt::format("{}", size) : std::string("all"); };
      text += fmt::format(" in lanes of {} x {}", side(rule.tile[0]), side(rule.tile[1]));
    }
    if (rule.limit == Limit::rows) text += ", up to the rows of the run";
    if (rule.limit == Limit::peer) text += fmt::format(", up to the rows of peer {}", rule.limit_peer.str());
    return text;
  }

  void owed() {
    out_ += "\nowed to rank r\n";
    for (std::size_t i = 0; i < plan_.owed.size() && i < kMaxListed; ++i) {
      const Owed& o = plan_.owed[i];
      std::string piece = plan_.buffers.at(o.piece.buffer).name + show(o.piece.box);
      if (!o.count.is_number(1)) piece += fmt::format("  for s < {}", o.count.str());
      if (!o.when.is_number(1)) piece += fmt::format("  if {}", o.when.str());
      for (std::size_t l = 0; l < o.let.size(); ++l)
        piece += fmt::format("{}{} = {}", l ? ", " : "  with ", o.let[l].name, o.let[l].value.str());
      wrap("  ", piece, 4, &out_);
      wrap("    = ", promise(o), 8, &out_);
    }
    out_ += more(plan_.owed.size(), "promises") + "\n";
  }
  std::string promise(const Owed& o) const {
    std::string what = o.leaf < 0                    ? plan_.buffers.at(-1 - o.leaf).name
                       : plan_.producers.size() == 1 ? "the output"
                                                     : fmt::format("output ({})", o.leaf);
    std::string origin;
    for (const Expr& e : o.origin) origin += (origin.empty() ? "" : ", ") + e.str();
    what += fmt::format(" at [{}]", origin);
    if (o.contributors.is_number(1))
      what += fmt::format(" of rank {}", o.first.str());
    else
      what = fmt::format("sum of {} over {} ranks, rank {} first", what, o.contributors.str(), o.first.str());
    if (!o.ranks_per_host.is_number(1)) what += fmt::format(", by hosts of {}", o.ranks_per_host.str());
    return what + (o.finished ? ", then the epilogue" : "");
  }

  struct Totals {
    std::int64_t steps = 0, triggers = 0, tiles = 0, stored = 0, sent = 0;
  };
  void count(int rank, Totals* totals) const {
    const Program program = expander_.program(rank);
    for (const Action& a : program.actions) {
      ++(a.kind == ActionKind::step ? totals->steps : totals->triggers);
      if (a.kind == ActionKind::step) totals->tiles += a.lanes;
      for (const Piece& p : program.targets(a))
        (p.rank == rank ? totals->stored : totals->sent) += bytes_of(p.box, plan_.buffers[p.buffer].dtype);
    }
  }
  static Row row(const char* who, const Totals& t) {
    return {who, plural(t.steps, "step") + " of " + plural(t.tiles, "tile"), plural(t.triggers, "trigger"),
            fmt::format("{} stored on the spot", bytes(t.stored)), fmt::format("{} sent", bytes(t.sent))};
  }
  void totals() {
    Totals first, all;
    count(0, &first);
    std::vector<Row> rows{row("rank 0", first)};
    if (plan_.num_ranks <= kMaxCountedRanks && plan_.num_ranks > 1) {
      for (int rank = 0; rank < plan_.num_ranks; ++rank) count(rank, &all);
      rows.push_back(row("all", all));
    }
    out_ += columns(rows, 0, 40);
  }

  const Plan& plan_;
  Expander expander_;
  std::string out_;
};

}  // namespace

std::string print(const Plan& plan) { return Printer(plan).page(); }

}  // namespace weft
