// Reads one part of a plan from a JSON object, field by field as weft/plan/fields.h lists them. Whatever is wrong is
// bad_input that names the file, the place and the remedy. Formats differ in three fields: see purpose and operands.
#pragma once

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "weft/base/error.h"
#include "weft/base/index.h"
#include "weft/base/json.h"
#include "weft/plan/budget.h"
#include "weft/plan/fields.h"

namespace weft::plan_text {

inline constexpr std::size_t kMaxLets = 64, kMaxList = 4096, kMaxNameBytes = 256;
inline constexpr std::int64_t kMaxTile = std::int64_t{1} << 40;
// What reading costs, in units of Budget: a character of an expression, a part, looking at a name.
inline constexpr std::int64_t kCharacterWork = 60, kPartWork = 4000, kNameWork = 16;
inline constexpr std::int64_t kCharacterBytes = 160, kPartBytes = 400;  // a part has a dozen expressions of one number

inline bool is_identifier(std::string_view name) {
  const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '.'; };
  return !name.empty() && name.size() <= kMaxNameBytes && letter(name[0]) &&
         std::all_of(name.begin(), name.end(), [&](char c) { return letter(c) || (c >= '0' && c <= '9'); });
}

// Puts the place before whatever `read` complains about.
template <typename Read>
auto placed(std::string_view where, Read&& read) -> decltype(read()) {
  try {
    return read();
  } catch (const Error& error) {
    throw Error(error.code(), fmt::format("{}: {}", where, error.what()));
  }
}

inline std::string text_of(const Json& value, const std::string& where) {
  if (!value.is_string()) bad_input("{} is no string; give one", where);
  return value.get<std::string>();
}

// What parts are read with: the plan so far, the format of the text, and what reading may cost.
struct Reading {
  const Plan& plan;
  int format;
  Budget* budget;

  // A node for every second character is the most that a text can become.
  Expr parse(std::string_view text) const {
    budget->spend(std::ssize(text), kCharacterWork);
    budget->hold(std::ssize(text) * kCharacterBytes);
    return Expr::parse(text);
  }
};

inline Expr expr_of(const Reading& reading, const Json& value, const std::string& where) {
  if (value.is_number_integer() && !(value.is_number_unsigned() && value.get<std::uint64_t>() > INT64_MAX))
    return value.get<std::int64_t>();
  if (!value.is_string()) bad_input("{} is neither a whole number nor an expression like \"(r + 1) % N\"", where);
  const std::string text = value.get<std::string>();
  return placed(where, [&] { return reading.parse(text); });
}

// "name = expression".
inline Let let_of(const Reading& reading, const Json& value, const std::string& where) {
  const std::string line = text_of(value, where);
  const std::size_t equals = line.find('=');
  std::string name = line.substr(0, equals);
  while (!name.empty() && name.back() == ' ') name.pop_back();
  if (equals == std::string::npos || !is_identifier(name))
    bad_input("{} is \"{}\"; give \"name = expression\", the name of letters, digits, _ and .", where,
              line.substr(0, 80));
  return {name, placed(where, [&] { return reading.parse(std::string_view(line).substr(equals + 1)); })};
}

inline std::string name_in(const Json& object, const char* key, std::string_view where) {
  std::string value = get_string(object, key, where);
  if (value.empty() || value.size() > kMaxNameBytes)
    bad_input("{}: \"{}\" has {} characters; give 1 to {}", where, key, value.size(), kMaxNameBytes);
  return value;
}

// Adds a part whose name no other of the list may have.
template <typename List>
void add_named(typename List::value_type part, const char* what, const std::string& where, List* list) {
  for (const auto& other : *list)
    if (other.name == part.name)
      bad_input("{}: there are two {}s named \"{}\"; names are unique", where, what, part.name);
  list->push_back(std::move(part));
}

// Calls `add` with every item of a list that may be left out, and with where it stands.
template <typename Add>
void each_item(const Json& object, const char* key, std::size_t most, std::string_view where, Add&& add) {
  if (!find_field(object, key, where)) return;
  const Json& list = get_array(object, key, where);
  if (list.size() > most) bad_input("{}: \"{}\" has {} items; at most {} are read", where, key, list.size(), most);
  for (std::size_t i = 0; i < list.size(); ++i) add(list[i], fmt::format("{}: {}[{}]", where, key, i));
}

// How a choice is read from its name, by type.
inline void parse_into(std::string_view name, ActionKind* out) { *out = parse_action_kind(name); }
inline void parse_into(std::string_view name, Activation* out) { *out = parse_activation(name); }
inline void parse_into(std::string_view name, Dtype* out) { *out = parse_dtype(name); }
inline void parse_into(std::string_view name, Limit* out) { *out = parse_limit(name); }
inline void parse_into(std::string_view name, Pooling* out) { *out = parse_pooling(name); }
inline void parse_into(std::string_view name, ProducerKind* out) { *out = parse_producer_kind(name); }
inline void parse_into(std::string_view name, Purpose* out) { *out = parse_purpose(name); }
inline void parse_into(std::string_view name, Role* out) { *out = parse_role(name); }
inline void parse_into(std::string_view name, Route* out) { *out = parse_route(name); }
inline void parse_into(std::string_view name, Sum* out) { *out = parse_sum(name); }
inline void parse_into(std::string_view name, WeightLayout* out) { *out = parse_weight_layout(name); }

template <typename T>
T choice_of(const Json& object, const char* key, std::string_view where) {
  const std::string value = get_string(object, key, where);
  T out{};
  placed(fmt::format("{}: \"{}\"", where, key), [&] { parse_into(value, &out); });
  return out;
}

// Format 1 has no purposes: there the names "open" and "credit" stand for them, numbered where plans were composed.
inline Purpose purpose_in_format_1(const std::string& name) {
  const std::size_t dot = std::min(name.find('.'), name.size());
  const bool numbered = name.find_first_not_of("0123456789", dot + 1) == std::string::npos && dot + 1 != name.size();
  for (const Purpose purpose : {Purpose::open, Purpose::credit})
    if (numbered && name.substr(0, dot) == to_string(purpose)) return purpose;
  return Purpose::data;
}

// Reads the fields of one part from an object. A field that no list of fields names is refused.
class FieldReader {
 public:
  FieldReader(const Reading& reading, const Json& object, const std::string& where)
      : reading_(reading), plan_(reading.plan), format_(reading.format), object_(object), where_(where) {}

  template <typename T>
  static T read(const Reading& reading, const Json& object, const std::string& where) {
    reading.budget->spend(kPartWork);
    reading.budget->hold(sizeof(T) + kPartBytes);
    FieldReader reader(reading, object, where);
    T part;
    fields(reader, part);
    check_fields(object, reader.known_, where);
    return part;
  }

  void name(const char* key, std::string& out) { out = name_in(object_, know(key), where_); }
  void expr(const char* key, Expr& out, std::int64_t) {
    if (const Json* value = find(key)) out = expr_of(reading_, *value, place(key));
  }
  void rank(const char* key, Expr& out) {
    if (!find(key)) bad_input("{}: \"rank\" is missing; say whose counter is raised", where_);
    expr(key, out, 0);
  }
  void own_rank(const char* key, Expr& out) { expr(key, out, 0); }
  void exprs(const char* key, std::vector<Expr>& out) {
    get_array(object_, know(key), where_);
    each_item(object_, key, kMaxDims, where_,
              [&](const Json& v, const std::string& at) { out.push_back(expr_of(reading_, v, at)); });
  }
  void box(const char* key, BoxRule& out, bool may_be_empty = false) {
    if (may_be_empty && !find(key)) return;
    get_array(object_, know(key), where_);
    each_item(object_, key, kMaxDims, where_, [&](const Json& v, const std::string& at) {
      const std::string span = text_of(v, at);
      const std::size_t colon = span.find(':');
      if (colon == std::string::npos) bad_input("{} is \"{}\"; give \"lo:hi\"", at, span.substr(0, 80));
      out.lo.push_back(placed(at, [&] { return reading_.parse(std::string_view(span).substr(0, colon)); }));
      out.hi.push_back(placed(at, [&] { return reading_.parse(std::string_view(span).substr(colon + 1)); }));
    });
  }
  void lets(const char* key, std::vector<Let>& out) {
    each_item(object_, know(key), kMaxLets, where_,
              [&](const Json& v, const std::string& at) { add_named(let_of(reading_, v, at), "let", at, &out); });
  }
  void number(const char* key, std::int64_t& out) { out = get_int(object_, know(key), where_); }
  template <typename T>
  void number(const char* key, T& out, std::int64_t, std::int64_t min, std::int64_t max) {
    if (find(key)) out = static_cast<T>(get_int(object_, key, where_, min, max));
  }
  void sizes(const char* key, std::vector<std::int64_t>& out) {
    if (find(key)) out = get_ints(object_, key, where_);
  }
  void tile(const char* key, std::array<std::int64_t, 2>& out) {
    if (!find(key)) return;
    const auto sizes = get_ints(object_, key, where_, 0, kMaxTile);
    if (sizes.size() != 2) bad_input("{}: \"{}\" has {} sizes; give rows and columns", where_, key, sizes.size());
    out = {sizes[0], sizes[1]};
  }
  template <typename T>
  void choice(const char* key, T& out) {
    out = choice_of<T>(object_, know(key), where_);
  }
  template <typename T>
  void choice(const char* key, T& out, T) {
    if (find(key)) choice(key, out);
  }
  void weight(const char* key, Dtype& out) {  // which may be in blocks
    const std::string name = get_string(object_, know(key), where_);
    placed(fmt::format("{}: \"{}\"", where_, key), [&] { out = parse_weight_dtype(name); });
  }
  void flag(const char* key, bool& out) { out = find(key) && get_bool(object_, key, where_); }
  void buffer(const char* key, int& out) {
    reading_.budget->spend(kNameWork * std::ssize(plan_.buffers));
    out = index_of(key, plan_.buffer(get_string(object_, know(key), where_)));
  }
  void counter(const char* key, int& out) {
    reading_.budget->spend(kNameWork * std::ssize(plan_.counters));
    out = index_of(key, plan_.counter(get_string(object_, know(key), where_)));
  }
  void producer(const char* key, int& out) { number(key, out, -1, -1, int_size(plan_.producers) - 1); }
  void leaf(int& out) {
    if (find("input") && find("producer")) bad_input("{}: both \"producer\" and \"input\" are given; give one", where_);
    if (find("input")) {
      buffer("input", out);
      out = -1 - out;
    } else {
      out = get_small(object_, know("producer"), where_, 0, int_size(plan_.producers) - 1);
    }
  }
  template <typename T>
  void part(const char* key, T& out) {
    out = read<T>(reading_, get_object(object_, know(key), where_), fmt::format("{}: {}", where_, key));
  }
  template <typename T>
  void list(const char* key, std::vector<T>& out) {
    each_item(object_, know(key), kMaxList, where_,
              [&](const Json& v, const std::string& at) { out.push_back(read<T>(reading_, v, at)); });
  }

  void purpose(Counter& out) {
    if (format_ == 1)
      out.purpose = purpose_in_format_1(out.name);
    else
      choice("purpose", out.purpose);
  }
  // A gemm has a choice of layout, some producers of types (validated() says which); else they follow from the kind.
  void operands(Producer& out) {
    if (format_ == 1) return choice("weight", out.weight, Dtype::f32);
    const bool any_layout = out.kind == ProducerKind::gemm, any_type = out.may_be_narrow();
    any_type ? choice("x", out.input) : only("x", out.x(), out.kind);
    if (out.has_w())
      weight("w", out.weight), any_layout ? choice("layout", out.weights) : only("layout", out.layout(), out.kind);
    any_type ? choice("y", out.output) : only("y", out.y(), out.kind);
  }
  void packing(Packing& out) {
    if (!find("packing")) return;
    const Json& packing = get_object(object_, "packing", where_);
    FieldReader inner(reading_, packing, place("packing"));
    std::array<std::int64_t, 2> sizes{};
    inner.expr("block_rows", out.block_rows, 0);
    inner.tile("tile", sizes);
    check_fields(packing, inner.known_, inner.where_);
    if (sizes[0] < 1 || sizes[1] < 1)
      bad_input("{}: tile is {} x {}; give positive sizes", inner.where_, sizes[0], sizes[1]);
    out.tile_rows = sizes[0];
    out.tile_cols = sizes[1];
  }

 private:
  const char* know(const char* key) {
    known_.emplace_back(key);
    return key;
  }
  const Json* find(const char* key) { return find_field(object_, know(key), where_); }
  std::string place(const char* key) const { return fmt::format("{}: \"{}\"", where_, key); }
  int index_of(const char* key, int index) const {
    if (index < 0)
      bad_input("{} is \"{}\", which is no {} of the plan", place(key), get_string(object_, key, where_),
                std::string_view(key) == "counter" ? "counter" : "buffer");
    return index;
  }
  template <typename T>
  void only(const char* key, T today, ProducerKind kind) {
    T value{};
    choice(key, value);
    if (value != today)
      bad_input("{} is {}, but the {} of a {} is {} in this Weft; give {}", place(key), to_string(value), key,
                to_string(kind), to_string(today), to_string(today));
  }

  const Reading reading_;
  const Plan& plan_;
  int format_;
  const Json& object_;
  std::string where_;
  std::vector<std::string_view> known_;
};

}  // namespace weft::plan_text
