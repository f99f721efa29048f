// Reading plans: nothing in the text is trusted. Parts are read by their fields (field_reader.h).
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "weft/base/error.h"
#include "weft/base/index.h"
#include "weft/base/json.h"
#include "weft/plan/text/field_reader.h"
#include "weft/plan/text/save.h"

namespace weft {
namespace {

using namespace plan_text;  // NOLINT: the reader of parts

constexpr std::size_t kMaxTextBytes = std::size_t{64} << 20, kMaxValues = std::size_t{9} << 19;
constexpr std::size_t kMaxRules = 4096, kMaxBuffers = 4096, kMaxCounters = 4096, kMaxParams = 256;
constexpr std::size_t kMaxTables = 256, kMaxProducers = 256, kMaxOwed = 4096;
constexpr std::size_t kMaxTableEntries = std::size_t{4} << 20;

std::size_t text_bytes(const LoadOptions& options) { return num(options.budget * kMaxTextBytes); }

class PlanReader {
 public:
  PlanReader(std::string_view where, Budget* budget) : where_(where), budget_(budget) {}

  Plan plan(const Json& json) {
    head(json);
    each_item(json, "params", kMaxParams, where_, [&](const Json& v, const std::string& at) { param(v, at); });
    each_item(json, "tables", kMaxTables, where_, [&](const Json& v, const std::string& at) { table(v, at); });
    each_item(json, "producers", kMaxProducers, where_, [&](const Json& v, const std::string& at) {
      const auto given = read<Producer>(v, at);
      plan_.producers.push_back(placed(at, [&] { return validated(given, plan_.num_ranks); }));
    });
    each_item(json, "buffers", kMaxBuffers, where_, [&](const Json& v, const std::string& at) {
      auto buffer = read<Buffer>(v, at);
      if (buffer.shape.empty()) bad_input("{}: \"shape\" is empty; give 1 to {} sizes", at, kMaxDims);
      add_named(std::move(buffer), "buffer", at, &plan_.buffers);
    });
    if (format_ > 1) outputs(json);
    each_item(json, "counters", kMaxCounters, where_, [&](const Json& v, const std::string& at) {
      add_named(read<Counter>(v, at), "counter", at, &plan_.counters);
    });
    each_item(json, "rules", kMaxRules, where_,
              [&](const Json& v, const std::string& at) { plan_.rules.push_back(read<Rule>(v, at)); });
    each_item(json, "owed", kMaxOwed, where_,
              [&](const Json& v, const std::string& at) { plan_.owed.push_back(read<Owed>(v, at)); });
    return std::move(plan_);
  }

 private:
  template <typename T>
  T read(const Json& value, const std::string& where) const {
    return FieldReader::read<T>({plan_, format_, budget_}, value, where);
  }

  void head(const Json& json) {
    const std::int64_t format = get_int(json, "format", where_);
    if (format < 1 || format > kPlanFormat)
      bad_input("{}: the plan has format {}, but this Weft reads formats 1 to {}; build the plan again with this Weft",
                where_, format, kPlanFormat);
    format_ = static_cast<int>(format);
    std::vector<std::string_view> known = {"format", "name",      "ranks",   "sum",      "why",   "params",
                                           "tables", "producers", "buffers", "counters", "rules", "owed"};
    if (format_ > 1) known.insert(known.end(), {"route", "outputs"});
    check_fields(json, known, where_);
    plan_.name = name_in(json, "name", where_);
    plan_.num_ranks = get_small(json, "ranks", where_, 1, 65536);
    if (find_field(json, "route", where_)) route(json);
    if (find_field(json, "sum", where_)) plan_.sum = choice_of<Sum>(json, "sum", where_);
    if (find_field(json, "why", where_)) plan_.why = get_string(json, "why", where_);
  }

  void route(const Json& json) {
    plan_.route = choice_of<Route>(json, "route", where_);
    if (*plan_.route == Route::automatic)
      bad_input("{}: \"route\" is auto, but a plan has been built by one; name it, or leave it out", where_);
  }

  void param(const Json& value, const std::string& where) {
    const Let parsed = let_of({plan_, format_, budget_}, value, where);
    for (const std::string_view taken : kOwnNames)
      if (parsed.name == taken)
        bad_input("{}: \"{}\" has a meaning of its own; name the parameter otherwise", where, taken);
    if (parsed.value.node().op != Expr::Op::number) bad_input("{}: parameter \"{}\" is no number", where, parsed.name);
    add_named({parsed.name, parsed.value.node().value}, "parameter", where, &plan_.params);
  }

  void table(const Json& json, const std::string& where) {
    check_fields(json, {"name", "values"}, where);
    NamedTable out{name_in(json, "name", where), get_ints(json, "values", where)};
    if (!is_identifier(out.name))
      bad_input("{}: \"{}\" cannot be used in expressions; use letters, digits, _ and .", where, out.name);
    table_entries_ += out.values.size();
    if (table_entries_ > kMaxTableEntries)
      bad_input("{}: the tables hold more than {} numbers; use an expression", where, kMaxTableEntries);
    add_named(std::move(out), "table", where, &plan_.tables);
  }

  // All buffers whose role is output, in their order: a choice among them has a place in the format, but no reader yet.
  void outputs(const Json& json) const {
    std::vector<std::string> given;
    get_array(json, "outputs", where_);
    each_item(json, "outputs", kMaxBuffers, where_,
              [&](const Json& v, const std::string& at) { given.push_back(text_of(v, at)); });
    if (const std::vector<std::string> today = plan_.outputs(); given != today)
      bad_input("{}: \"outputs\" is [{}], but the buffers whose role is output are [{}]; list those, in their order",
                where_, fmt::join(given, ", "), fmt::join(today, ", "));
  }

  std::string where_;
  Budget* budget_;
  int format_ = kPlanFormat;
  Plan plan_;
  std::size_t table_entries_ = 0;
};

}  // namespace

Plan parse_plan(std::string_view text, std::string_view where, const LoadOptions& options) {
  Budget budget(options.budget);
  const auto values = num(options.budget * kMaxValues);
  const Json json = parse_json(text, where, {text_bytes(options), 64, values});
  return PlanReader(where, &budget).plan(json);
}

Plan load_plan(const std::string& path, const LoadOptions& options) {
  return parse_plan(read_text_file(path, text_bytes(options)), path, options);
}

}  // namespace weft
