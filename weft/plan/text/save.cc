// Writing plans. Values that fit on a line stay on it, so that a wait or a piece reads as one line.
#include "weft/plan/text/save.h"

#include <nlohmann/json.hpp>

#include "weft/base/error.h"
#include "weft/base/index.h"
#include "weft/base/os/new_file.h"
#include "weft/plan/fields.h"

namespace weft {
namespace {

using Ordered = nlohmann::ordered_json;

constexpr std::size_t kLineWidth = 110;

Ordered value_of(const Expr& e) {
  if (e.node().op == Expr::Op::number) return e.node().value;
  return e.str();
}
Ordered value_of(const std::vector<Expr>& list) {
  Ordered out = Ordered::array();
  for (const Expr& e : list) out.push_back(value_of(e));
  return out;
}

// Writes the fields of one part as an object; what equals its default is left out.
class FieldWriter {
 public:
  explicit FieldWriter(const Plan& plan) : plan_(plan) {}

  template <typename T>
  Ordered object(const T& part) const {
    FieldWriter writer(plan_);
    fields(writer, part);
    return std::move(writer.out_);
  }
  template <typename T>
  Ordered objects(const std::vector<T>& parts) const {
    Ordered out = Ordered::array();
    for (const T& part : parts) out.push_back(object(part));
    return out;
  }

  void name(const char* key, const std::string& text) { out_[key] = text; }
  void expr(const char* key, const Expr& e, std::int64_t otherwise) {
    if (!e.is_number(otherwise)) out_[key] = value_of(e);
  }
  void rank(const char* key, const Expr& e) { out_[key] = value_of(e); }
  void own_rank(const char* key, const Expr& e) {
    if (e.str() != "r") rank(key, e);
  }
  void exprs(const char* key, const std::vector<Expr>& list) { out_[key] = value_of(list); }
  void box(const char* key, const BoxRule& box, bool may_be_empty = false) {
    if (may_be_empty && box.lo.empty()) return;
    Ordered& out = out_[key] = Ordered::array();
    for (std::size_t d = 0; d < box.lo.size() && d < box.hi.size(); ++d)
      out.push_back(box.lo[d].str() + ":" + box.hi[d].str());
  }
  void lets(const char* key, const std::vector<Let>& lets) {
    for (const Let& let : lets) out_[key].push_back(let.name + " = " + let.value.str());
  }
  void number(const char* key, std::int64_t value) { out_[key] = value; }
  void number(const char* key, std::int64_t value, std::int64_t otherwise, std::int64_t, std::int64_t) {
    if (value != otherwise) out_[key] = value;
  }
  void sizes(const char* key, const std::vector<std::int64_t>& list) {
    if (!list.empty()) out_[key] = list;
  }
  void tile(const char* key, const std::array<std::int64_t, 2>& tile) {
    if (tile[0] != 0 || tile[1] != 0) out_[key] = tile;
  }
  template <typename T>
  void choice(const char* key, T value) {
    out_[key] = to_string(value);
  }
  template <typename T>
  void choice(const char* key, T value, T otherwise) {
    if (value != otherwise) choice(key, value);
  }
  void flag(const char* key, bool value) {
    if (value) out_[key] = true;
  }
  void buffer(const char* key, int index) { out_[key] = name_at(plan_.buffers, index, key); }
  void counter(const char* key, int index) { out_[key] = name_at(plan_.counters, index, key); }
  void producer(const char* key, int index) { number(key, index, -1, 0, 0); }
  void leaf(int leaf) {
    if (leaf >= 0)
      out_["producer"] = leaf;
    else
      out_["input"] = name_at(plan_.buffers, -1 - leaf, "buffer");
  }
  template <typename T>
  void part(const char* key, const T& part) {
    out_[key] = object(part);
  }
  template <typename T>
  void list(const char* key, const std::vector<T>& parts) {
    if (!parts.empty()) out_[key] = objects(parts);
  }
  void purpose(const Counter& c) { choice("purpose", c.purpose); }
  void operands(const Producer& p) {
    choice("x", p.x());
    if (p.has_w()) choice("w", p.weight), choice("layout", p.layout());
    choice("y", p.y());
  }
  void packing(const Packing& p) {
    if (p.tile_rows != 0 || p.tile_cols != 0)
      out_["packing"] = {{"block_rows", value_of(p.block_rows)}, {"tile", {p.tile_rows, p.tile_cols}}};
  }

 private:
  template <typename List>
  static const std::string& name_at(const List& list, int index, const char* what) {
    if (index < 0 || index >= int_size(list))
      bad_input("the plan names {} {}, but has {}; only plans that verify can be saved", what, index, list.size());
    return list[index].name;
  }

  const Plan& plan_;
  Ordered out_ = Ordered::object();
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
  const FieldWriter writer(plan);
  Ordered out;
  const auto put = [&](const char* key, Ordered list) {
    if (!list.empty()) out[key] = std::move(list);
  };
  out["format"] = kPlanFormat;
  out["name"] = plan.name;
  if (plan.route) out["route"] = to_string(*plan.route);
  out["ranks"] = plan.num_ranks;
  if (plan.sum != Sum::listed) out["sum"] = to_string(plan.sum);
  if (!plan.why.empty()) out["why"] = plan.why;
  Ordered params = Ordered::array(), tables = Ordered::array();
  for (const Param& p : plan.params) params.push_back(fmt::format("{} = {}", p.name, p.value));
  for (const NamedTable& t : plan.tables) tables.push_back({{"name", t.name}, {"values", t.values}});
  put("params", std::move(params));
  put("tables", std::move(tables));
  out["producers"] = writer.objects(plan.producers);
  out["buffers"] = writer.objects(plan.buffers);
  out["outputs"] = plan.outputs();
  put("counters", writer.objects(plan.counters));
  out["rules"] = writer.objects(plan.rules);
  out["owed"] = writer.objects(plan.owed);
  std::string text;
  write(out, 0, 0, &text);
  return text + "\n";
}

void save_plan(const Plan& plan, const std::string& path) { write_file(path, to_json(plan)); }

}  // namespace weft
