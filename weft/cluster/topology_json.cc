// Topologies as files: "kind" says which fields there are. A file without it is a Network's, and read as that.
#include <algorithm>

#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "weft/base/error.h"
#include "weft/base/json.h"
#include "weft/base/names.h"
#include "weft/cluster/data_file.h"
#include "weft/cluster/link_json.h"
#include "weft/cluster/topology.h"

namespace weft {
namespace {

constexpr Names<Spines, 2> kSpines{{{Spines::balanced, "balanced"}, {Spines::hashed, "hashed"}}};
constexpr int kMaxNodeCount = 1 << 16;

int get_size(const Json& object, std::string_view key, std::string_view where) {
  return get_small(object, key, where, 1, kMaxNodeCount);
}

// What every kind may have, beside its own.
void check_kind_fields(const Json& object, std::vector<std::string_view> own, std::string_view where) {
  own.insert(own.end(), {"name", "note", "kind", "packet_bytes", "slow_links", "slow_ranks"});
  check_fields(object, own, where);
}

Topology parse_torus(const Json& object, std::string_view where) {
  check_kind_fields(object, {"dims", "link", "links"}, where);
  std::vector<int> dims;
  for (const std::int64_t size : get_ints(object, "dims", where, 1, kMaxNodeCount))
    dims.push_back(static_cast<int>(size));
  if (!find_field(object, "links", where))
    return torus_topology(dims, std::vector<Link>(dims.size(), get_link(object, "link", where)));
  if (find_field(object, "link", where))
    bad_input("{}: both \"link\" and \"links\" are there; give one link for all dimensions, or a list", where);
  std::vector<Link> links;
  for (const Json& one : get_array(object, "links", where)) {
    const std::string inside = fmt::format("{}: entry {} of \"links\"", where, links.size());
    check_fields(one, {"bytes_per_s", "latency_s"}, inside);
    links.push_back({get_rate(one, "bytes_per_s", inside), get_seconds(one, "latency_s", inside)});
  }
  return torus_topology(dims, links);
}

Topology parse_clos(const Json& object, std::string_view where) {
  check_kind_fields(
      object, {"ranks", "ranks_per_leaf", "num_spines", "link", "uplink", "oversubscription", "spines", "seed"}, where);
  ClosOptions o;
  o.ranks = get_size(object, "ranks", where);
  o.ranks_per_leaf = get_size(object, "ranks_per_leaf", where);
  o.num_spines = get_size(object, "num_spines", where);
  o.link = get_link(object, "link", where);
  const bool by_ratio = find_field(object, "oversubscription", where) != nullptr;
  if (by_ratio == (find_field(object, "uplink", where) != nullptr))
    bad_input("{}: give either \"uplink\", a link between leaf and spine, or \"oversubscription\", as 2 for 2:1",
              where);
  if (by_ratio) {
    const double ratio = get_double(object, "oversubscription", where, 1e-3, 1e3);
    o.uplink = {o.link.bytes_per_s * o.ranks_per_leaf / (ratio * o.num_spines), o.link.latency_s};
  } else {
    o.uplink = get_link(object, "uplink", where);
  }
  if (find_field(object, "spines", where))
    o.spines = parse_name(kSpines, fmt::format("{}: \"spines\"", where), get_string(object, "spines", where));
  if (find_field(object, "seed", where))
    o.seed = static_cast<std::uint64_t>(get_int(object, "seed", where, 0, INT64_MAX));
  return clos_topology(o);
}

std::vector<std::string> get_names(const Json& object, std::string_view key, std::string_view where) {
  std::vector<std::string> out;
  for (const Json& name : get_array(object, key, where)) {
    if (!name.is_string()) bad_input("{}: entry {} of \"{}\" is no string; name a node", where, out.size(), key);
    out.push_back(name.get<std::string>());
  }
  return out;
}

Topology parse_graph(const Json& object, std::string_view where) {
  check_kind_fields(object, {"ranks", "switches", "links"}, where);
  std::vector<NamedWire> wires;
  for (const Json& one : get_array(object, "links", where)) {
    const std::string inside = fmt::format("{}: entry {} of \"links\"", where, wires.size());
    check_fields(one, {"from", "to", "bytes_per_s", "latency_s", "one_way"}, inside);
    const Link link{get_rate(one, "bytes_per_s", inside), get_seconds(one, "latency_s", inside)};
    wires.push_back({get_string(one, "from", inside), get_string(one, "to", inside), link});
    const NamedWire there = wires.back();
    if (!find_field(one, "one_way", inside) || !get_bool(one, "one_way", inside))
      wires.push_back({there.to, there.from, link});
  }
  return graph_topology(
      get_names(object, "ranks", where),
      find_field(object, "switches", where) ? get_names(object, "switches", where) : std::vector<std::string>{}, wires);
}

Topology parse_kind(const Json& object, const std::string& kind, std::string_view where) {
  if (kind == "torus") return parse_torus(object, where);
  if (kind == "clos") return parse_clos(object, where);
  if (kind == "graph") return parse_graph(object, where);
  if (kind == "rails") {
    check_kind_fields(object, {"num_hosts", "ranks_per_host", "local", "link"}, where);
    return rails_topology(get_size(object, "num_hosts", where), get_size(object, "ranks_per_host", where),
                          get_link(object, "local", where), get_link(object, "link", where));
  }
  if (kind != "ring" && kind != "switch" && kind != "full")
    bad_input(
        "unknown kind \"{}\"; use ring, torus, switch, full, clos, rails or graph, or leave it out in a file of "
        "NICs and racks",
        kind);
  check_kind_fields(object, {"ranks", "link"}, where);
  const int ranks = get_size(object, "ranks", where);
  const Link link = get_link(object, "link", where);
  return kind == "ring"   ? ring_topology(ranks, link)
         : kind == "full" ? full_topology(ranks, link)
                          : switch_topology(ranks, link);
}

std::int64_t get_packet(const Json& object, std::string_view where) {
  const Json* field = find_field(object, "packet_bytes", where);
  if (field == nullptr) return Topology{}.packet_bytes;
  if (field->is_string() && field->get<std::string>() == "whole") return kWholeMessage;
  if (field->is_string())
    bad_input("{}: \"packet_bytes\" is {}; give a number of bytes, or \"whole\" to store before sending on", where,
              field->dump());
  return get_int(object, "packet_bytes", where, 0, std::int64_t{1} << 40);
}

void add_exceptions(const Json& object, std::string_view where, Topology* out) {
  if (find_field(object, "slow_links", where))
    for (const Json& one : get_array(object, "slow_links", where)) {
      const std::string inside = fmt::format("{}: in \"slow_links\"", where);
      check_fields(one, {"from", "to", "factor"}, inside);
      slow_wire(out, get_string(one, "from", inside), get_string(one, "to", inside),
                get_double(one, "factor", inside, 1e-6, 1e6), inside);
    }
  if (find_field(object, "slow_ranks", where))
    for (const Json& one : get_array(object, "slow_ranks", where)) {
      const std::string inside = fmt::format("{}: in \"slow_ranks\"", where);
      check_fields(one, {"rank", "factor"}, inside);
      slow_rank(out, get_small(one, "rank", inside, 0, kMaxNodeCount), get_double(one, "factor", inside, 1e-6, 1e6),
                inside);
    }
}

}  // namespace

Topology parse_topology(std::string_view json, std::string_view where) {
  const Json object = parse_json(json, where);
  if (!find_field(object, "kind", where)) return nics_topology(parse_network(json, where));
  const std::string kind = get_string(object, "kind", where);
  Topology out;
  try {
    out = parse_kind(object, kind, where);
  } catch (const Error& error) {  // builders know nothing of files
    const std::string what = error.what();
    if (what.rfind(where, 0) == 0) throw;
    bad_input("{}: {}", where, what);
  }
  out.name = get_string(object, "name", where);
  out.packet_bytes = get_packet(object, where);
  add_exceptions(object, where, &out);
  return out;
}

Topology load_topology(const std::string& name_or_path) {
  constexpr const char* kFolder = "clusters/topologies";
  std::string path;
  try {
    path = find_data_file(kFolder, "network", name_or_path);
  } catch (const Error&) {
    const std::vector<std::string> nics = data_file_names("clusters/networks");
    if (std::find(nics.begin(), nics.end(), name_or_path) == nics.end())
      bad_input("unknown network \"{}\"; use one of {}, or the path of a file", name_or_path,
                fmt::join(topology_names(), ", "));
    path = find_data_file("clusters/networks", "network", name_or_path);
  }
  return parse_topology(read_text_file(path, std::size_t{64} << 20), path);
}

std::vector<std::string> topology_names() {
  std::vector<std::string> names = data_file_names("clusters/topologies");
  for (std::string& name : data_file_names("clusters/networks")) names.push_back(std::move(name));
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace weft
