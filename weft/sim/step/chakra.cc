#include "weft/sim/step/chakra.h"

#include <bit>
#include <cmath>
#include <filesystem>
#include <optional>

#include <nlohmann/json.hpp>

#include "weft/base/error.h"
#include "weft/base/json.h"
#include "weft/io/sentencepiece/protobuf.h"

namespace weft::netsim {
namespace {

constexpr std::size_t kMaxTraceBytes = std::size_t{1} << 30;
constexpr std::uint64_t kMaxMicros = std::uint64_t{1} << 40;  // twelve days
constexpr const char* kKind = "Chakra trace";
enum ChakraType { kMetadata = 1, kLoad, kStore, kComp, kSend, kRecv, kColl };

struct Attribute {
  std::string name;
  std::optional<std::int64_t> number;
  std::optional<std::string> text;
};

std::int64_t zigzag(std::uint64_t value) {
  return static_cast<std::int64_t>(value >> 1) ^ -static_cast<std::int64_t>(value & 1);
}

// Numbers of the schema's one-of: int32 7, int64 9, uint32 11, uint64 13, sint32 15, sint64 17, fixed 19 to 25, bool
// 27, string 29; those between are lists, 3 and 5 are of floating point.
Attribute parse_attribute(std::string_view text, std::string_view where) {
  Attribute out;
  ProtoReader reader(text, where, kKind);
  for (ProtoField field; reader.next(field);) {
    const std::uint32_t n = field.number;
    if (n == 1) out.name = field.as_bytes(where);
    if (n == 7 || n == 9 || n == 11 || n == 13 || n == 27) out.number = field.as_int(where);
    if (n == 15 || n == 17) out.number = zigzag(static_cast<std::uint64_t>(field.as_int(where)));
    if (n == 19 || n == 23 || n == 21 || n == 25) {
      const int type = n == 19 || n == 23 ? 5 : 1;
      if (field.type != type)
        bad_input("{}: attribute \"{}\" has wire type {} instead of {}; the file is damaged", where, out.name,
                  field.type, type);
      out.number = static_cast<std::int64_t>(field.value);
    }
    if (n == 29) out.text = field.as_bytes(where);
    if (n > 32)
      bad_input("{}: attribute \"{}\" has a value of kind {}, which there is not; the file is damaged", where, out.name,
                n);
  }
  return out;
}

struct RawNode {
  std::uint64_t id = 0, type = 0, micros = 0;
  std::string name;
  std::vector<std::uint64_t> needs;
  std::vector<Attribute> attributes;
};

void add_needs(const ProtoField& field, std::string_view where, std::vector<std::uint64_t>* out) {
  if (field.type == 0) return out->push_back(field.value);
  // Packed: numbers one behind the other.
  const std::string_view bytes = field.as_bytes(where);
  std::uint64_t value = 0;
  int shift = 0;
  for (const char c : bytes) {
    value |= static_cast<std::uint64_t>(c & 0x7f) << shift;
    shift += 7;
    if ((c & 0x80) == 0) out->push_back(value), value = 0, shift = 0;
    if (shift > 63) bad_input("{}: a number of more than 10 bytes; this is no {}", where, kKind);
  }
  if (shift != 0) bad_input("{}: a list of numbers ends within one; the file is cut short", where);
}

RawNode parse_raw(std::string_view text, std::string_view where) {
  RawNode out;
  ProtoReader reader(text, where, kKind);
  for (ProtoField field; reader.next(field);) {
    if (field.number == 1) out.id = static_cast<std::uint64_t>(field.as_int(where));
    if (field.number == 2) out.name = field.as_bytes(where);
    if (field.number == 3) out.type = static_cast<std::uint64_t>(field.as_int(where));
    if (field.number == 4 || field.number == 5) add_needs(field, where, &out.needs);
    if (field.number == 7) out.micros = static_cast<std::uint64_t>(field.as_int(where));
    if (field.number == 10) out.attributes.push_back(parse_attribute(field.as_bytes(where), where));
  }
  return out;
}

// The fields of one node, each of its type.
class NodeFields {
 public:
  NodeFields(const RawNode& raw, std::string_view where)
      : raw_(raw), where_(fmt::format("{}: node {} \"{}\"", where, raw.id, raw.name)) {}

  const std::string& where() const { return where_; }
  std::optional<std::int64_t> find_number(std::string_view name) const {
    const Attribute* found = find(name);
    if (found == nullptr) return {};
    if (!found->number) bad_input("{}: attribute \"{}\" is no whole number; give one", where_, name);
    return found->number;
  }
  std::int64_t number(std::string_view name, std::int64_t min, std::int64_t max) const {
    const auto found = find_number(name);
    if (!found) bad_input("{}: attribute \"{}\" is missing; add it", where_, name);
    if (*found < min || *found > max)
      bad_input("{}: attribute \"{}\" is {}; give {} to {}", where_, name, *found, min, max);
    return *found;
  }
  std::string text(std::string_view name) const {
    const Attribute* found = find(name);
    if (found == nullptr) return {};
    if (!found->text) bad_input("{}: attribute \"{}\" is no text; give one", where_, name);
    return *found->text;
  }

 private:
  const Attribute* find(std::string_view name) const {
    for (const Attribute& one : raw_.attributes)
      if (one.name == name) return &one;
    return nullptr;
  }
  const RawNode& raw_;
  std::string where_;
};

constexpr std::int64_t kMaxCount = std::int64_t{1} << 60;

double compute_seconds(const RawNode& raw, const NodeFields& fields, const TraceOptions& options) {
  if (const auto exact = fields.find_number("takes_ps"))
    return sim::to_seconds(fields.number("takes_ps", 0, kMaxCount));
  if (raw.micros > kMaxMicros) bad_input("{}: takes {} us; give at most {}", fields.where(), raw.micros, kMaxMicros);
  if (raw.micros > 0) return static_cast<double>(raw.micros) * 1e-6;
  const bool has_ops = fields.find_number("num_ops").value_or(0) != 0,
             has_bytes = fields.find_number("tensor_size").value_or(0) != 0;
  if (!has_ops && !(has_bytes && raw.type != kComp))
    bad_input("{}: neither duration_micros nor \"num_ops\" says how long it takes; add one", fields.where());
  if (options.flops_per_s <= 0 || options.bytes_per_s <= 0)
    bad_input("{}: takes its time from a rank's rates; give --chip or --cluster", fields.where());
  const auto ops = has_ops ? static_cast<double>(fields.number("num_ops", 0, kMaxCount)) : 0;
  const auto bytes = has_bytes ? static_cast<double>(fields.number("tensor_size", 0, kMaxCount)) : 0;
  return std::max(ops / options.flops_per_s, bytes / options.bytes_per_s);
}

SpaceKind collective_of(std::int64_t type, const NodeFields& fields) {
  switch (type) {
    case 0:
      return SpaceKind::all_reduce;
    case 2:
      return SpaceKind::all_gather;
    case 5:
      return SpaceKind::broadcast;
    case 6:
      return SpaceKind::all_to_all;
    case 7:
      return SpaceKind::reduce_scatter;
    default:
      bad_input("{}: comm_type {} is not simulated; use 0 (all_reduce), 2, 5, 6 or 7", fields.where(), type);
  }
}

TraceNode node_from(const RawNode& raw, std::string_view where, int rank, const TraceOptions& options) {
  if (raw.name.size() > 4096) bad_input("{}: node {} has a name of {} bytes; use 4096", where, raw.id, raw.name.size());
  const NodeFields fields(raw, where);
  TraceNode out;
  out.id = raw.id, out.name = raw.name, out.needs = raw.needs;
  constexpr std::int64_t kMaxSize = std::int64_t{1} << 50;
  if (raw.type == kComp || raw.type == kLoad || raw.type == kStore) {
    out.seconds = compute_seconds(raw, fields, options);
  } else if (raw.type == kSend || raw.type == kRecv) {
    out.kind = raw.type == kSend ? NodeKind::send : NodeKind::receive;
    out.bytes = fields.number("comm_size", 1, kMaxSize);
    const char *own = raw.type == kSend ? "comm_src" : "comm_dst", *other = raw.type == kSend ? "comm_dst" : "comm_src";
    if (const auto self = fields.find_number(own); self && *self != rank)
      bad_input("{}: \"{}\" is {}, but this is the trace of rank {}; make them equal", fields.where(), own, *self,
                rank);
    out.peer = fields.number(other, 0, 1 << 20);
    out.tag = fields.find_number("comm_tag").value_or(0);
  } else if (raw.type == kColl) {
    out.kind = NodeKind::collective;
    out.collective = collective_of(fields.number("comm_type", 0, 9), fields);
    out.bytes = fields.number("comm_size", 1, kMaxSize);
    out.group = fields.text("pg_name");
  } else if (raw.type > kColl) {
    bad_input("{}: a node of type {}; use 1 to {}", fields.where(), raw.type, static_cast<int>(kColl));
  }
  return out;
}

}  // namespace

RankTrace parse_chakra(std::string_view text, std::string_view where, int rank, const TraceOptions& options) {
  RankTrace out;
  out.where = where;
  ProtoReader reader(text, where, kKind);
  std::string_view message;
  if (!reader.next_message(message)) bad_input("{}: empty; a {} begins with its metadata", where, kKind);
  ProtoReader metadata(message, where, kKind);
  for (ProtoField field; metadata.next(field);)
    if (field.number > 2)
      bad_input("{}: begins with a field {} where metadata belong; this is no {}", where, field.number, kKind);
  while (reader.next_message(message)) out.nodes.push_back(node_from(parse_raw(message, where), where, rank, options));
  return out;
}

TraceGroups parse_chakra_groups(std::string_view json, std::string_view where) {
  const Json object = parse_json(json, where);
  if (!object.is_object()) bad_input("{}: no object of groups; give {{\"0\": [0, 1]}}", where);
  TraceGroups out;
  for (const auto& [name, members] : object.items()) {
    for (const std::int64_t rank : get_ints(object, name, where, 0, 1 << 20))
      out[name].push_back(static_cast<std::int32_t>(rank));
    if (out[name].empty()) bad_input("{}: group \"{}\" has no ranks; list them", where, name);
  }
  return out;
}

StepGraph load_chakra(const std::string& prefix, const std::string& groups_path, const TraceOptions& options) {
  std::vector<RankTrace> ranks;
  std::error_code error;
  for (int rank = 0;; ++rank) {
    const std::string path = fmt::format("{}.{}.et", prefix, rank);
    if (!std::filesystem::exists(path, error)) break;
    ranks.push_back(parse_chakra(read_text_file(path, kMaxTraceBytes), path, rank, options));
  }
  if (ranks.empty()) bad_input("no file {}.0.et; give the part before .RANK.et", prefix);
  TraceGroups groups;
  if (!groups_path.empty())
    groups = parse_chakra_groups(read_text_file(groups_path, std::size_t{64} << 20), groups_path);
  // An all_gather's comm_size is what one rank gives.
  for (RankTrace& trace : ranks)
    for (TraceNode& node : trace.nodes) {
      if (node.collective != SpaceKind::all_gather) continue;
      const auto found = groups.find(node.group);
      node.bytes *= found == groups.end() ? int_size(ranks) : int_size(found->second);
    }
  return graph_of_trace(prefix, std::move(ranks), groups, options);
}

}  // namespace weft::netsim
