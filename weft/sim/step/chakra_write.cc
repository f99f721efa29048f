// Graphs as Chakra traces.
#include <algorithm>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "weft/base/json_out.h"
#include "weft/sim/step/chakra.h"

namespace weft::netsim {
namespace {

void put_varint(std::string* out, std::uint64_t value) {
  for (; value >= 128; value >>= 7) out->push_back(static_cast<char>(value | 128));
  out->push_back(static_cast<char>(value));
}
void put_number(std::string* out, std::uint32_t field, std::uint64_t value) {
  put_varint(out, std::uint64_t{field} << 3);
  put_varint(out, value);
}
void put_bytes(std::string* out, std::uint32_t field, std::string_view bytes) {
  put_varint(out, std::uint64_t{field} << 3 | 2);
  put_varint(out, bytes.size());
  out->append(bytes);
}
void put_attribute(std::string* out, std::string_view name, std::uint32_t kind, std::int64_t value) {
  std::string attribute;
  put_bytes(&attribute, 1, name);
  put_number(&attribute, kind, static_cast<std::uint64_t>(value));
  put_bytes(out, 10, attribute);
}
void put_message(std::string* out, const std::string& message) {
  put_varint(out, message.size());
  out->append(message);
}

constexpr std::uint32_t kInt32 = 7, kInt64 = 9, kBool = 27, kString = 29;

std::string group_name(const StepGraph& graph, int communicator, int group) {
  for (int c = 0; c < communicator; ++c) group += int_size(graph.communicators[at(c)].groups);
  return std::to_string(group);
}

SpaceKind kind_of_shape(const StepShape& shape) {
  for (const SpaceKind kind : {SpaceKind::reduce_scatter, SpaceKind::all_reduce, SpaceKind::all_gather,
                               SpaceKind::all_to_all, SpaceKind::broadcast})
    if (shape.name.starts_with(to_string(kind))) return kind;
  return SpaceKind::keep;
}

int comm_type(SpaceKind kind) {
  return kind == SpaceKind::all_gather       ? 2
         : kind == SpaceKind::broadcast      ? 5
         : kind == SpaceKind::all_to_all     ? 6
         : kind == SpaceKind::reduce_scatter ? 7
                                             : 0;
}

// Node n of the program is node 2 n of the trace; what it is fused with, 2 n + 1.
class TraceWriter {
 public:
  TraceWriter(const StepGraph& graph, int rank) : graph_(graph), rank_(rank), program_(graph.program(rank)) {}

  std::string write() {
    std::string metadata;
    put_bytes(&metadata, 1, "0.0.4");
    put_message(&out_, metadata);
    for (std::int32_t n = 0; n < int_size(program_.nodes); ++n) add(n);
    return std::move(out_);
  }

 private:
  void add(std::int32_t n) {
    const StepNode& node = program_.nodes[at(n)];
    std::vector<std::uint64_t> needs;
    for (std::int32_t i = node.needs.begin; i < node.needs.end; ++i) needs.push_back(2 * num(program_.needs[at(i)]));
    if (node.kind == NodeKind::compute) return add_compute(2 * num(n), graph_.name_of(node), node.takes, needs);
    if (node.kind == NodeKind::collective && graph_.shapes[at(node.shape)].seconds > 0) {
      add_compute(2 * num(n) + 1, graph_.name_of(node), sim::picoseconds(graph_.shapes[at(node.shape)].seconds), needs);
      needs = {2 * num(n) + 1};
    }
    const Communicator& where = graph_.communicators[at(node.communicator)];
    const std::int32_t group = where.group_of[at(rank_)];
    if (node.kind == NodeKind::collective) {
      const StepShape& shape = graph_.shapes[at(node.shape)];
      std::string text = begun(2 * num(n), graph_.name_of(node), 7, needs);
      put_attribute(&text, "comm_type", kInt64, comm_type(kind_of_shape(shape)));
      const std::int64_t ranks = shape.plan.num_ranks;
      put_attribute(
          &text, "comm_size", kInt64,
          kind_of_shape(shape) == SpaceKind::all_gather ? std::max<std::int64_t>(shape.bytes / ranks, 1) : shape.bytes);
      std::string name;
      put_bytes(&name, 1, "pg_name");
      put_bytes(&name, kString, group_name(graph_, node.communicator, group));
      put_bytes(&text, 10, name);
      return put_message(&out_, text);
    }
    const bool sent = node.kind == NodeKind::send;
    const std::int32_t peer = where.groups[at(group)][at(node.peer)];
    std::string text = begun(2 * num(n), graph_.name_of(node), sent ? 5 : 6, needs);
    put_attribute(&text, "comm_src", kInt32, sent ? rank_ : peer);
    put_attribute(&text, "comm_dst", kInt32, sent ? peer : rank_);
    put_attribute(&text, "comm_size", kInt64, node.bytes);
    put_attribute(&text, "comm_tag", kInt32, node.tag);
    put_message(&out_, text);
  }

  static std::string begun(std::uint64_t id, std::string_view name, int type, const std::vector<std::uint64_t>& needs) {
    std::string text;
    put_number(&text, 1, id);
    put_bytes(&text, 2, name);
    put_number(&text, 3, static_cast<std::uint64_t>(type));
    for (const std::uint64_t need : needs) put_number(&text, 5, need);
    put_attribute(&text, "is_cpu_op", kBool, 0);
    return text;
  }

  void add_compute(std::uint64_t id, std::string_view name, Time takes, const std::vector<std::uint64_t>& needs) {
    std::string text = begun(id, name, 4, needs);
    put_number(&text, 7, static_cast<std::uint64_t>((takes + 500'000) / 1'000'000));
    put_attribute(&text, "takes_ps", kInt64, takes);
    put_message(&out_, text);
  }

  const StepGraph& graph_;
  const int rank_;
  const StepProgram& program_;
  std::string out_;
};

}  // namespace

std::string chakra_text(const StepGraph& graph, int rank) { return TraceWriter(graph, rank).write(); }

std::string chakra_groups(const StepGraph& graph) {
  nlohmann::ordered_json out = nlohmann::ordered_json::object();
  for (int c = 0; c < int_size(graph.communicators); ++c)
    for (int g = 0; g < int_size(graph.communicators[at(c)].groups); ++g)
      out[group_name(graph, c, g)] = graph.communicators[at(c)].groups[at(g)];
  return json_line(out);
}

}  // namespace weft::netsim
