// Reading plans: nothing in the text is trusted.
#include <algorithm>

#include <nlohmann/json.hpp>

#include "weft/base/error.h"
#include "weft/base/index.h"
#include "weft/base/json.h"
#include "weft/plan/text/save.h"

namespace weft {
namespace {

constexpr std::size_t kMaxTextBytes = std::size_t{64} << 20;
constexpr std::size_t kMaxRules = 4096, kMaxBuffers = 4096, kMaxCounters = 4096, kMaxLets = 64, kMaxParams = 256;
constexpr std::size_t kMaxTables = 256, kMaxProducers = 256, kMaxOwed = 4096, kMaxList = 4096;
constexpr std::size_t kMaxTableEntries = std::size_t{4} << 20;
constexpr std::size_t kMaxNameBytes = 256;
constexpr std::int64_t kMaxTile = std::int64_t{1} << 40;

bool is_identifier(std::string_view name) {
  const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '.'; };
  return !name.empty() && name.size() <= kMaxNameBytes && letter(name[0]) &&
         std::all_of(name.begin(), name.end(), [&](char c) { return letter(c) || (c >= '0' && c <= '9'); });
}

class Reader {
 public:
  explicit Reader(std::string_view where) : where_(where) {}

  Plan plan(const Json& json) {
    check_format(json);
    check_fields(json,
                 {"format", "name", "ranks", "sum", "why", "params", "tables", "producers", "buffers", "counters",
                  "rules", "owed"},
                 where_);
    plan_.name = name(json, where_);
    plan_.num_ranks = static_cast<int>(get_int(json, "ranks", where_, 1, 65536));
    if (find_field(json, "sum", where_)) plan_.sum = parsed(json, "sum", where_, parse_sum);
    if (find_field(json, "why", where_)) plan_.why = get_string(json, "why", where_);
    each(json, "params", kMaxParams, where_, [&](const Json& v, const std::string& at) { param(v, at); });
    each(json, "tables", kMaxTables, where_, [&](const Json& v, const std::string& at) { table(v, at); });
    each(json, "producers", kMaxProducers, where_,
         [&](const Json& v, const std::string& at) { plan_.producers.push_back(producer(v, at)); });
    each(json, "buffers", kMaxBuffers, where_, [&](const Json& v, const std::string& at) { buffer(v, at); });
    each(json, "counters", kMaxCounters, where_, [&](const Json& v, const std::string& at) { counter(v, at); });
    each(json, "rules", kMaxRules, where_,
         [&](const Json& v, const std::string& at) { plan_.rules.push_back(rule(v, at)); });
    each(json, "owed", kMaxOwed, where_,
         [&](const Json& v, const std::string& at) { plan_.owed.push_back(owed(v, at)); });
    return std::move(plan_);
  }

 private:
  void check_format(const Json& json) {
    const std::int64_t format = get_int(json, "format", where_);
    if (format != kPlanFormat)
      bad_input("{}: the plan has format {}, but this Weft reads format {}; build the plan again with this Weft",
                where_, format, kPlanFormat);
  }

  // Calls `add` with every item of a list that may be left out, and with where it stands.
  template <typename Add>
  void each(const Json& object, const char* key, std::size_t most, std::string_view where, Add&& add) {
    if (!find_field(object, key, where)) return;
    const Json& list = get_array(object, key, where);
    if (list.size() > most) bad_input("{}: \"{}\" has {} items; at most {} are read", where, key, list.size(), most);
    for (std::size_t i = 0; i < list.size(); ++i) add(list[i], fmt::format("{}: {}[{}]", where, key, i));
  }

  std::string text(const Json& value, const std::string& where) {
    if (!value.is_string()) bad_input("{} is no string; give one", where);
    return value.get<std::string>();
  }

  // Runs `read` and puts the place before whatever it complains about.
  template <typename Read>
  auto at(std::string_view where, Read&& read) -> decltype(read()) {
    try {
      return read();
    } catch (const Error& error) {
      throw Error(error.code(), fmt::format("{}: {}", where, error.what()));
    }
  }
  template <typename T>
  T parsed(const Json& object, const char* key, std::string_view where, T (*parse)(std::string_view)) {
    const std::string value = get_string(object, key, where);
    return at(fmt::format("{}: \"{}\"", where, key), [&] { return parse(value); });
  }

  Expr expr(const Json& value, const std::string& where) {
    if (value.is_number_integer() && !(value.is_number_unsigned() && value.get<std::uint64_t>() > INT64_MAX))
      return value.get<std::int64_t>();
    if (!value.is_string()) bad_input("{} is neither a whole number nor an expression like \"(r + 1) % N\"", where);
    const std::string text = value.get<std::string>();
    return at(where, [&] { return Expr::parse(text); });
  }
  void expr(const Json& object, const char* key, const std::string& where, Expr* out) {
    if (const Json* value = find_field(object, key, where)) *out = expr(*value, fmt::format("{}: \"{}\"", where, key));
  }
  int integer(const Json& object, const char* key, const std::string& where, int otherwise, int min, int max) {
    return find_field(object, key, where) ? static_cast<int>(get_int(object, key, where, min, max)) : otherwise;
  }
  bool flag(const Json& object, const char* key, const std::string& where) {
    return find_field(object, key, where) && get_bool(object, key, where);
  }
  std::array<std::int64_t, 2> tile(const Json& object, const char* key, const std::string& where) {
    const auto sizes = get_ints(object, key, where, 0, kMaxTile);
    if (sizes.size() != 2) bad_input("{}: \"{}\" has {} sizes; give rows and columns", where, key, sizes.size());
    return {sizes[0], sizes[1]};
  }

  std::string name(const Json& object, std::string_view where) {
    std::string value = get_string(object, "name", where);
    if (value.empty() || value.size() > kMaxNameBytes)
      bad_input("{}: \"name\" has {} characters; give 1 to {}", where, value.size(), kMaxNameBytes);
    return value;
  }
  template <typename List>
  std::string new_name(const Json& object, const List& list, const char* what, const std::string& where) {
    return unused(name(object, where), list, what, where);
  }
  template <typename List>
  std::string unused(std::string name, const List& list, const char* what, const std::string& where) {
    for (const auto& other : list)
      if (other.name == name) bad_input("{}: there are two {}s named \"{}\"; names are unique", where, what, name);
    return name;
  }
  int buffer_index(const Json& object, const char* key, const std::string& where) {
    const std::string name = get_string(object, key, where);
    const int index = plan_.buffer(name);
    if (index < 0) bad_input("{}: \"{}\" is \"{}\", which is no buffer of the plan", where, key, name);
    return index;
  }
  int counter_index(const Json& object, const std::string& where) {
    const std::string name = get_string(object, "counter", where);
    const int index = plan_.counter(name);
    if (index < 0) bad_input("{}: \"counter\" is \"{}\", which is no counter of the plan", where, name);
    return index;
  }

  // "name = expression".
  Let let(const Json& value, const std::string& where) {
    const std::string line = text(value, where);
    const std::size_t equals = line.find('=');
    std::string name = line.substr(0, equals);
    while (!name.empty() && name.back() == ' ') name.pop_back();
    if (equals == std::string::npos || !is_identifier(name))
      bad_input("{} is \"{}\"; give \"name = expression\", the name of letters, digits, _ and .", where,
                line.substr(0, 80));
    return {name, at(where, [&] { return Expr::parse(std::string_view(line).substr(equals + 1)); })};
  }
  std::vector<Let> lets(const Json& object, const std::string& where) {
    std::vector<Let> out;
    each(object, "let", kMaxLets, where, [&](const Json& v, const std::string& at) {
      Let next = let(v, at);
      next.name = unused(next.name, out, "let", at);
      out.push_back(std::move(next));
    });
    return out;
  }

  void param(const Json& value, const std::string& where) {
    const Let parsed = let(value, where);
    for (const char* taken : {"r", "N", "s", "j", "i"})
      if (parsed.name == taken)
        bad_input("{}: \"{}\" has a meaning of its own; name the parameter otherwise", where, taken);
    if (parsed.value.node().op != Expr::Op::number) bad_input("{}: parameter \"{}\" is no number", where, parsed.name);
    plan_.params.push_back({unused(parsed.name, plan_.params, "parameter", where), parsed.value.node().value});
  }

  void table(const Json& json, const std::string& where) {
    check_fields(json, {"name", "values"}, where);
    NamedTable out{new_name(json, plan_.tables, "table", where), get_ints(json, "values", where)};
    if (!is_identifier(out.name))
      bad_input("{}: \"{}\" cannot be used in expressions; use letters, digits, _ and .", where, out.name);
    table_entries_ += out.values.size();
    if (table_entries_ > kMaxTableEntries)
      bad_input("{}: the tables hold more than {} numbers; use an expression", where, kMaxTableEntries);
    plan_.tables.push_back(std::move(out));
  }

  Producer producer(const Json& json, const std::string& where) {
    check_fields(json,
                 {"kind", "m", "n", "k", "n_of", "tile", "weight", "dim", "rows", "pooling", "addend", "bias",
                  "residual", "activation"},
                 where);
    Producer out;
    out.kind = parsed(json, "kind", where, parse_producer_kind);
    out.m = get_int(json, "m", where);
    out.n = get_int(json, "n", where);
    for (const auto& [key, field] : {std::pair{"k", &out.k}, {"dim", &out.dim}, {"rows", &out.rows}})
      if (find_field(json, key, where)) *field = get_int(json, key, where, 0);
    if (find_field(json, "n_of", where)) out.n_of = get_ints(json, "n_of", where);
    if (find_field(json, "tile", where)) out.tile = tile(json, "tile", where);
    if (find_field(json, "weight", where)) out.weight = parsed(json, "weight", where, parse_dtype);
    if (find_field(json, "pooling", where)) out.pooling = parsed(json, "pooling", where, parse_pooling);
    out.addend = flag(json, "addend", where);
    out.bias = flag(json, "bias", where);
    out.residual = flag(json, "residual", where);
    if (find_field(json, "activation", where)) out.activation = parsed(json, "activation", where, parse_activation);
    return at(where, [&] { return validated(out, plan_.num_ranks); });
  }

  std::vector<Expr> exprs(const Json& object, const char* key, const std::string& where) {
    std::vector<Expr> out;
    get_array(object, key, where);
    each(object, key, kMaxDims, where, [&](const Json& v, const std::string& at) { out.push_back(expr(v, at)); });
    return out;
  }

  void buffer(const Json& json, const std::string& where) {
    check_fields(json, {"name", "role", "dtype", "shape", "depth", "packing"}, where);
    Buffer out;
    out.name = new_name(json, plan_.buffers, "buffer", where);
    if (find_field(json, "role", where)) out.role = parsed(json, "role", where, parse_role);
    if (find_field(json, "dtype", where)) out.dtype = parsed(json, "dtype", where, parse_dtype);
    out.shape = exprs(json, "shape", where);
    if (out.shape.empty()) bad_input("{}: \"shape\" is empty; give 1 to {} sizes", where, kMaxDims);
    out.depth = integer(json, "depth", where, 1, 1, 64);
    if (find_field(json, "packing", where)) {
      const std::string inner = where + ": packing";
      const Json& packing = get_object(json, "packing", where);
      check_fields(packing, {"block_rows", "tile"}, inner);
      expr(packing, "block_rows", inner, &out.packing.block_rows);
      const auto sizes = tile(packing, "tile", inner);
      if (sizes[0] < 1 || sizes[1] < 1)
        bad_input("{}: tile is {} x {}; give positive sizes", inner, sizes[0], sizes[1]);
      out.packing.tile_rows = sizes[0];
      out.packing.tile_cols = sizes[1];
    }
    plan_.buffers.push_back(std::move(out));
  }

  void counter(const Json& json, const std::string& where) {
    check_fields(json, {"name", "count", "total"}, where);
    Counter out;
    out.name = new_name(json, plan_.counters, "counter", where);
    expr(json, "count", where, &out.count);
    expr(json, "total", where, &out.total);
    plan_.counters.push_back(std::move(out));
  }

  BoxRule box(const Json& object, const std::string& where) {
    BoxRule out;
    get_array(object, "box", where);
    each(object, "box", kMaxDims, where, [&](const Json& v, const std::string& place) {
      const std::string span = text(v, place);
      const std::size_t colon = span.find(':');
      if (colon == std::string::npos) bad_input("{} is \"{}\"; give \"lo:hi\"", place, span.substr(0, 80));
      out.lo.push_back(at(place, [&] { return Expr::parse(std::string_view(span).substr(0, colon)); }));
      out.hi.push_back(at(place, [&] { return Expr::parse(std::string_view(span).substr(colon + 1)); }));
    });
    return out;
  }

  PieceRule piece(const Json& json, const std::string& where) {
    check_fields(json, {"rank", "buffer", "box", "each", "when"}, where);
    PieceRule out;
    expr(json, "rank", where, &out.rank);
    out.buffer = buffer_index(json, "buffer", where);
    out.box = box(json, where);
    expr(json, "each", where, &out.each);
    expr(json, "when", where, &out.when);
    return out;
  }
  void pieces(const Json& json, const char* key, const std::string& where, std::vector<PieceRule>* out) {
    each(json, key, kMaxList, where, [&](const Json& v, const std::string& at) { out->push_back(piece(v, at)); });
  }

  WaitRule wait(const Json& json, const std::string& where) {
    check_fields(json, {"counter", "index", "at", "lag", "per", "each", "when"}, where);
    WaitRule out;
    out.counter = counter_index(json, where);
    expr(json, "index", where, &out.index);
    expr(json, "at", where, &out.at);
    out.lag = integer(json, "lag", where, 0, 0, 64);
    expr(json, "per", where, &out.per);
    expr(json, "each", where, &out.each);
    expr(json, "when", where, &out.when);
    return out;
  }

  SignalRule signal(const Json& json, const std::string& where) {
    check_fields(json, {"rank", "counter", "index", "per", "each", "when"}, where);
    SignalRule out;
    if (!find_field(json, "rank", where)) bad_input("{}: \"rank\" is missing; say whose counter is raised", where);
    expr(json, "rank", where, &out.rank);
    out.counter = counter_index(json, where);
    expr(json, "index", where, &out.index);
    expr(json, "per", where, &out.per);
    expr(json, "each", where, &out.each);
    expr(json, "when", where, &out.when);
    return out;
  }

  Rule rule(const Json& json, const std::string& where) {
    check_fields(json,
                 {"name", "kind", "producer", "count", "when", "let", "box", "tile", "waits", "reads", "sources",
                  "targets", "signals", "finish", "limit", "limit_peer", "order", "order_step"},
                 where);
    Rule out;
    out.name = name(json, where);
    const std::string kind = get_string(json, "kind", where);
    if (kind != "step" && kind != "trigger") bad_input("{}: \"kind\" is \"{}\"; give step or trigger", where, kind);
    out.kind = kind == "step" ? ActionKind::step : ActionKind::trigger;
    out.producer = integer(json, "producer", where, -1, -1, int_size(plan_.producers) - 1);
    expr(json, "count", where, &out.count);
    expr(json, "when", where, &out.when);
    out.let = lets(json, where);
    if (find_field(json, "box", where)) out.box = box(json, where);
    if (find_field(json, "tile", where)) out.tile = tile(json, "tile", where);
    each(json, "waits", kMaxList, where,
         [&](const Json& v, const std::string& at) { out.waits.push_back(wait(v, at)); });
    pieces(json, "reads", where, &out.reads);
    pieces(json, "sources", where, &out.sources);
    pieces(json, "targets", where, &out.targets);
    each(json, "signals", kMaxList, where,
         [&](const Json& v, const std::string& at) { out.signals.push_back(signal(v, at)); });
    expr(json, "finish", where, &out.finish);
    if (find_field(json, "limit", where)) out.limit = parsed(json, "limit", where, parse_limit);
    expr(json, "limit_peer", where, &out.limit_peer);
    expr(json, "order", where, &out.order);
    expr(json, "order_step", where, &out.order_step);
    return out;
  }

  Owed owed(const Json& json, const std::string& where) {
    check_fields(json,
                 {"count", "when", "let", "piece", "origin", "producer", "input", "first", "contributors",
                  "ranks_per_host", "finished"},
                 where);
    Owed out;
    expr(json, "count", where, &out.count);
    expr(json, "when", where, &out.when);
    out.let = lets(json, where);
    out.piece = piece(get_object(json, "piece", where), where + ": piece");
    out.origin = exprs(json, "origin", where);
    expr(json, "first", where, &out.first);
    expr(json, "contributors", where, &out.contributors);
    expr(json, "ranks_per_host", where, &out.ranks_per_host);
    if (find_field(json, "input", where)) {
      if (find_field(json, "producer", where))
        bad_input("{}: both \"producer\" and \"input\" are given; give one", where);
      out.leaf = -1 - buffer_index(json, "input", where);
    } else {
      out.leaf = static_cast<int>(get_int(json, "producer", where, 0, int_size(plan_.producers) - 1));
    }
    out.finished = flag(json, "finished", where);
    return out;
  }

  std::string where_;
  Plan plan_;
  std::size_t table_entries_ = 0;
};

}  // namespace

Plan parse_plan(std::string_view text, std::string_view where) {
  return Reader(where).plan(parse_json(text, where, {kMaxTextBytes, 64}));
}

Plan load_plan(const std::string& path) { return parse_plan(read_text_file(path, kMaxTextBytes), path); }

}  // namespace weft
