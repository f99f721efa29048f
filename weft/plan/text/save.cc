// Writing plans. Values that fit on a line stay on it, so that a wait or a piece reads as one line.
#include "weft/plan/text/save.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include <nlohmann/json.hpp>

#include "weft/base/error.h"
#include "weft/base/index.h"

namespace weft {
namespace {

using Ordered = nlohmann::ordered_json;

constexpr std::size_t kLineWidth = 110;

Ordered value_of(const Expr& e) {
  if (e.node().op == Expr::Op::number) return e.node().value;
  return e.str();
}

// A field that is left out where it has its default value.
void put(Ordered* out, const char* key, const Expr& value, std::int64_t unless) {
  if (!value.is_number(unless)) (*out)[key] = value_of(value);
}
template <typename T>
void put(Ordered* out, const char* key, const T& value, const T& unless) {
  if (value != unless) (*out)[key] = value;
}
void put(Ordered* out, const char* key, const Ordered& list) {
  if (!list.empty()) (*out)[key] = list;
}

template <typename List>
const std::string& name_at(const List& list, int index, const char* what) {
  if (index < 0 || index >= int_size(list))
    bad_input("the plan names {} {}, but has {}; only plans that verify can be saved", what, index, list.size());
  return list[index].name;
}

Ordered box_of(const BoxRule& box) {
  Ordered out = Ordered::array();
  for (std::size_t d = 0; d < box.lo.size() && d < box.hi.size(); ++d)
    out.push_back(box.lo[d].str() + ":" + box.hi[d].str());
  return out;
}

Ordered lets_of(const std::vector<Let>& lets) {
  Ordered out = Ordered::array();
  for (const Let& let : lets) out.push_back(let.name + " = " + let.value.str());
  return out;
}

Ordered producer_of(const Producer& p) {
  const Producer plain;
  Ordered out;
  out["kind"] = to_string(p.kind);
  out["m"] = p.m;
  out["n"] = p.n;
  put(&out, "k", p.k, plain.k);
  if (!p.n_of.empty()) out["n_of"] = p.n_of;
  out["tile"] = p.tile;
  if (p.weight != plain.weight) out["weight"] = to_string(p.weight);
  put(&out, "dim", p.dim, plain.dim);
  put(&out, "rows", p.rows, plain.rows);
  if (p.pooling != plain.pooling) out["pooling"] = to_string(p.pooling);
  put(&out, "addend", p.addend, plain.addend);
  put(&out, "bias", p.bias, plain.bias);
  put(&out, "residual", p.residual, plain.residual);
  if (p.activation != plain.activation) out["activation"] = to_string(p.activation);
  return out;
}

Ordered buffer_of(const Buffer& b) {
  Ordered out;
  out["name"] = b.name;
  if (b.role != Role::internal) out["role"] = to_string(b.role);
  if (b.dtype != Dtype::f32) out["dtype"] = to_string(b.dtype);
  out["shape"] = Ordered::array();
  for (const Expr& e : b.shape) out["shape"].push_back(value_of(e));
  put(&out, "depth", b.depth, 1);
  if (b.packing.tile_rows != 0 || b.packing.tile_cols != 0)
    out["packing"] = {{"block_rows", value_of(b.packing.block_rows)},
                      {"tile", {b.packing.tile_rows, b.packing.tile_cols}}};
  return out;
}

class RuleWriter {
 public:
  explicit RuleWriter(const Plan& plan) : plan_(plan) {}

  Ordered rule(const Rule& r) const {
    Ordered out;
    out["name"] = r.name;
    out["kind"] = r.kind == ActionKind::step ? "step" : "trigger";
    put(&out, "producer", r.producer, -1);
    put(&out, "count", r.count, 1);
    put(&out, "when", r.when, 1);
    put(&out, "let", lets_of(r.let));
    put(&out, "box", box_of(r.box));
    if (r.tile[0] != 0 || r.tile[1] != 0) out["tile"] = r.tile;
    Ordered waits = Ordered::array(), signals = Ordered::array();
    for (const WaitRule& w : r.waits) waits.push_back(wait(w));
    for (const SignalRule& g : r.signals) signals.push_back(signal(g));
    put(&out, "waits", waits);
    put(&out, "reads", pieces(r.reads));
    put(&out, "sources", pieces(r.sources));
    put(&out, "targets", pieces(r.targets));
    put(&out, "signals", signals);
    put(&out, "finish", r.finish, 0);
    if (r.limit != Limit::none) out["limit"] = to_string(r.limit);
    put(&out, "limit_peer", r.limit_peer, 0);
    put(&out, "order", r.order, 0);
    put(&out, "order_step", r.order_step, 0);
    return out;
  }

  Ordered owed(const Owed& o) const {
    Ordered out;
    put(&out, "count", o.count, 1);
    put(&out, "when", o.when, 1);
    put(&out, "let", lets_of(o.let));
    out["piece"] = piece(o.piece);
    out["origin"] = Ordered::array();
    for (const Expr& e : o.origin) out["origin"].push_back(value_of(e));
    if (o.leaf >= 0)
      out["producer"] = o.leaf;
    else
      out["input"] = name_at(plan_.buffers, -1 - o.leaf, "buffer");
    put(&out, "first", o.first, 0);
    put(&out, "contributors", o.contributors, 1);
    put(&out, "ranks_per_host", o.ranks_per_host, 1);
    put(&out, "finished", o.finished, false);
    return out;
  }

 private:
  Ordered wait(const WaitRule& w) const {
    Ordered out;
    out["counter"] = name_at(plan_.counters, w.counter, "counter");
    put(&out, "index", w.index, 0);
    put(&out, "at", w.at, 1);
    put(&out, "lag", w.lag, 0);
    put(&out, "per", w.per, 0);
    put(&out, "each", w.each, 1);
    put(&out, "when", w.when, 1);
    return out;
  }
  Ordered signal(const SignalRule& g) const {
    Ordered out;
    out["rank"] = value_of(g.rank);
    out["counter"] = name_at(plan_.counters, g.counter, "counter");
    put(&out, "index", g.index, 0);
    put(&out, "per", g.per, 0);
    put(&out, "each", g.each, 1);
    put(&out, "when", g.when, 1);
    return out;
  }
  Ordered piece(const PieceRule& p) const {
    Ordered out;
    if (p.rank.str() != "r") out["rank"] = value_of(p.rank);
    out["buffer"] = name_at(plan_.buffers, p.buffer, "buffer");
    out["box"] = box_of(p.box);
    put(&out, "each", p.each, 1);
    put(&out, "when", p.when, 1);
    return out;
  }
  Ordered pieces(const std::vector<PieceRule>& list) const {
    Ordered out = Ordered::array();
    for (const PieceRule& p : list) out.push_back(piece(p));
    return out;
  }

  const Plan& plan_;
};

std::string scalar(const Ordered& v) { return v.dump(-1, ' ', false, Ordered::error_handler_t::replace); }

// The value on one line; stops early once it is longer than any line.
void write_flat(const Ordered& v, std::string* out, std::size_t limit) {
  if (!v.is_structured()) {
    *out += scalar(v);
    return;
  }
  *out += v.is_object() ? '{' : '[';
  bool first = true;
  for (const auto& item : v.items()) {
    if (out->size() > limit) return;
    if (!first) *out += ", ";
    first = false;
    if (v.is_object()) *out += scalar(item.key()) + ": ";
    write_flat(item.value(), out, limit);
  }
  *out += v.is_object() ? '}' : ']';
}

void write(const Ordered& v, std::size_t indent, std::size_t used, std::string* out) {
  std::string flat;
  write_flat(v, &flat, kLineWidth);
  if (!v.is_structured() || (indent > 0 && used + flat.size() <= kLineWidth)) {
    *out += flat;
    return;
  }
  const bool numbers = v.is_array() && v.front().is_number();
  const std::string margin(indent + 2, ' ');
  *out += v.is_object() ? "{" : "[";
  std::size_t column = kLineWidth;  // numbers fill their lines, everything else has a line of its own
  bool first = true;
  for (const auto& item : v.items()) {
    if (!first) *out += ",";
    first = false;
    const std::string head = v.is_object() ? scalar(item.key()) + ": " : "";
    if (numbers && column + 24 < kLineWidth)
      *out += " ";
    else
      *out += "\n" + margin, column = margin.size();
    const std::size_t begin = out->size();
    *out += head;
    write(item.value(), indent + 2, margin.size() + head.size() + 1, out);
    column += out->size() - begin + 2;
  }
  *out += "\n" + std::string(indent, ' ') + (v.is_object() ? "}" : "]");
}

}  // namespace

std::string to_json(const Plan& plan) {
  Ordered out;
  out["format"] = kPlanFormat;
  out["name"] = plan.name;
  out["ranks"] = plan.num_ranks;
  if (plan.sum != Sum::listed) out["sum"] = to_string(plan.sum);
  if (!plan.why.empty()) out["why"] = plan.why;
  Ordered params = Ordered::array(), tables = params, producers = params, buffers = params, counters = params;
  Ordered rules = params, owed = params;
  for (const Param& p : plan.params) params.push_back(fmt::format("{} = {}", p.name, p.value));
  for (const NamedTable& t : plan.tables) tables.push_back({{"name", t.name}, {"values", t.values}});
  for (const Producer& p : plan.producers) producers.push_back(producer_of(p));
  for (const Buffer& b : plan.buffers) buffers.push_back(buffer_of(b));
  for (const Counter& c : plan.counters) {
    Ordered counter{{"name", c.name}};
    put(&counter, "count", c.count, 1);
    put(&counter, "total", c.total, 1);
    counters.push_back(counter);
  }
  const RuleWriter writer(plan);
  for (const Rule& r : plan.rules) rules.push_back(writer.rule(r));
  for (const Owed& o : plan.owed) owed.push_back(writer.owed(o));
  put(&out, "params", params);
  put(&out, "tables", tables);
  out["producers"] = producers;
  out["buffers"] = buffers;
  put(&out, "counters", counters);
  out["rules"] = rules;
  out["owed"] = owed;
  std::string text;
  write(out, 0, 0, &text);
  return text + "\n";
}

void save_plan(const Plan& plan, const std::string& path) {
  const std::string text = to_json(plan);
  const std::string aside = fmt::format("{}.{}.part", path, getpid());
  std::FILE* file = std::fopen(aside.c_str(), "wb");
  if (!file) fail(Code::io, "cannot write \"{}\": {}; give a path in a folder that exists", path, std::strerror(errno));
  const bool written = std::fwrite(text.data(), 1, text.size(), file) == text.size();
  const bool closed = std::fclose(file) == 0;
  if (written && closed && std::rename(aside.c_str(), path.c_str()) == 0) return;
  const int error = errno;
  std::remove(aside.c_str());
  fail(Code::io, "cannot write \"{}\": {}", path, std::strerror(error));
}

}  // namespace weft
