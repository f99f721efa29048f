#include "weft/cluster/cluster.h"

#include <algorithm>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "weft/base/error.h"
#include "weft/base/json.h"
#include "weft/base/json_out.h"
#include "weft/base/names.h"
#include "weft/base/units.h"
#include "weft/cluster/link_json.h"

namespace weft {
namespace {

constexpr int kMaxRanksOfACluster = 1 << 20;

nlohmann::ordered_json to_value(const Link& link) {
  return {{"bytes_per_s", link.bytes_per_s}, {"latency_s", link.latency_s}};
}

constexpr Names<Fabric, 2> kFabrics{{{Fabric::nic, "nic"}, {Fabric::pairs, "pairs"}}};

Fabric get_fabric(const Json& object, std::string_view where) {
  const std::string text = get_string(object, "fabric", where);
  for (const auto& [fabric, name] : kFabrics)
    if (name == text) return fabric;
  bad_input("{}: \"fabric\" is \"{}\"; use nic or pairs", where, text);
}

}  // namespace

std::string_view to_string(Fabric fabric) { return name_of(kFabrics, fabric); }

int Cluster::host_of(int rank) const {
  if (rank < 0 || rank >= size())
    bad_input("no rank {} in cluster \"{}\" of {} ranks; use 0 to {}", rank, name, size(), size() - 1);
  return rank / ranks_per_host;
}

Cluster parse_cluster(std::string_view json, std::string_view where) {
  const Json object = parse_json(json, where);
  check_fields(object,
               {"name",
                "note",
                "num_hosts",
                "ranks_per_host",
                "local",
                "network",
                "fabric",
                "flops_per_s",
                "library_flops_per_s",
                "read_bytes_per_s",
                "write_bytes_per_s",
                "tile_bytes_per_s",
                "gather_bytes_per_s",
                "gather_cached_bytes_per_s",
                "cache_bytes",
                "cache_bytes_per_s",
                "shared_cache_bytes",
                "row_s",
                "signal_s",
                "step_s",
                "run_s",
                "wire_message_s",
                "wire_byte_s"},
               where);
  Cluster cluster;
  cluster.name = get_string(object, "name", where);
  cluster.num_hosts = get_small(object, "num_hosts", where, 1, kMaxRanksOfACluster);
  cluster.ranks_per_host = get_small(object, "ranks_per_host", where, 1, kMaxRanksOfACluster / cluster.num_hosts);
  cluster.local = get_link(object, "local", where);
  cluster.network = get_link(object, "network", where);
  cluster.fabric = get_fabric(object, where);
  cluster.flops_per_s = get_rate(object, "flops_per_s", where);
  if (object.contains("library_flops_per_s"))
    cluster.library_flops_per_s = get_double(object, "library_flops_per_s", where, 0, kMaxRate);
  cluster.read_bytes_per_s = get_rate(object, "read_bytes_per_s", where);
  cluster.write_bytes_per_s = get_rate(object, "write_bytes_per_s", where);
  cluster.tile_bytes_per_s = get_rate(object, "tile_bytes_per_s", where);
  cluster.gather_bytes_per_s = get_rate(object, "gather_bytes_per_s", where);
  cluster.gather_cached_bytes_per_s = get_rate(object, "gather_cached_bytes_per_s", where);
  cluster.cache_bytes = get_double(object, "cache_bytes", where, 0, kMaxRate);
  cluster.cache_bytes_per_s = get_rate(object, "cache_bytes_per_s", where);
  cluster.shared_cache_bytes = get_double(object, "shared_cache_bytes", where, 0, kMaxRate);
  cluster.row_s = get_seconds(object, "row_s", where);
  cluster.signal_s = get_seconds(object, "signal_s", where);
  cluster.step_s = get_seconds(object, "step_s", where);
  cluster.run_s = get_seconds(object, "run_s", where);
  cluster.wire_message_s = get_seconds(object, "wire_message_s", where);
  cluster.wire_byte_s = get_seconds(object, "wire_byte_s", where);
  return cluster;
}

Cluster load_cluster(const std::string& path) {
  return parse_cluster(read_text_file(path, std::size_t{1} << 20), path);
}

std::string to_json(const Cluster& cluster) {
  const nlohmann::ordered_json value = {
      {"name", cluster.name},
      {"num_hosts", cluster.num_hosts},
      {"ranks_per_host", cluster.ranks_per_host},
      {"local", to_value(cluster.local)},
      {"network", to_value(cluster.network)},
      {"fabric", to_string(cluster.fabric)},
      {"flops_per_s", cluster.flops_per_s},
      {"library_flops_per_s", cluster.library_flops_per_s},
      {"read_bytes_per_s", cluster.read_bytes_per_s},
      {"write_bytes_per_s", cluster.write_bytes_per_s},
      {"tile_bytes_per_s", cluster.tile_bytes_per_s},
      {"gather_bytes_per_s", cluster.gather_bytes_per_s},
      {"gather_cached_bytes_per_s", cluster.gather_cached_bytes_per_s},
      {"cache_bytes", cluster.cache_bytes},
      {"cache_bytes_per_s", cluster.cache_bytes_per_s},
      {"shared_cache_bytes", cluster.shared_cache_bytes},
      {"row_s", cluster.row_s},
      {"signal_s", cluster.signal_s},
      {"step_s", cluster.step_s},
      {"run_s", cluster.run_s},
      {"wire_message_s", cluster.wire_message_s},
      {"wire_byte_s", cluster.wire_byte_s},
  };
  return json_lines(value);
}

Cluster default_cluster(int num_ranks) {
  if (num_ranks < 1 || num_ranks > kMaxRanksOfACluster)
    bad_input("a cluster of {} ranks; use 1 to {}", num_ranks, kMaxRanksOfACluster);
  Cluster cluster;
  cluster.name = "local";
  cluster.ranks_per_host = num_ranks;
  cluster.local = {.bytes_per_s = 19e9, .latency_s = 0.1e-6};
  cluster.network = {.bytes_per_s = 1.25e9, .latency_s = 10e-6};
  cluster.flops_per_s = 112e9;
  cluster.read_bytes_per_s = 15e9;
  cluster.write_bytes_per_s = 9.8e9;
  cluster.tile_bytes_per_s = 25e9;
  cluster.gather_bytes_per_s = 10e9;
  cluster.gather_cached_bytes_per_s = 20e9;
  cluster.cache_bytes = 2e6;
  cluster.cache_bytes_per_s = 35e9;
  cluster.shared_cache_bytes = 16e6;
  cluster.row_s = 1.8e-9;
  cluster.signal_s = 0.1e-6;
  cluster.step_s = 0.05e-6;
  cluster.run_s = 0.05e-6;
  return cluster;
}

Cluster with_wire(Cluster cluster) {
  if (cluster.wire_message_s == 0) cluster.wire_message_s = 4e-6, cluster.wire_byte_s = 0.6e-9;
  return cluster;
}

Cluster by_fastest_product(Cluster cluster) {
  cluster.flops_per_s = cluster.fastest_flops_per_s();
  return cluster;
}

// What waking up for a message costs a rank that sleeps in its waits, having less than a core. 4 hosts of half a core,
// collectives of 1 KB: 209 to 290 us by direct and chain, 250 to 310 by one_shot, 390 to 590 by two_shot.
constexpr double kWakeUpSeconds = 15e-6;

Cluster with_cores(Cluster cluster, double cores_a_rank) {
  if (cluster.wire_message_s > 0 && cores_a_rank < 1) cluster.wire_message_s += kWakeUpSeconds;
  for (double* rate : {&cluster.flops_per_s, &cluster.read_bytes_per_s, &cluster.write_bytes_per_s,
                       &cluster.tile_bytes_per_s, &cluster.gather_bytes_per_s, &cluster.gather_cached_bytes_per_s,
                       &cluster.cache_bytes_per_s, &cluster.local.bytes_per_s})
    *rate = std::clamp(*rate * cores_a_rank, kMinRate, kMaxRate);
  cluster.library_flops_per_s = std::min(cluster.library_flops_per_s * cores_a_rank, kMaxRate);  // 0 stays none
  cluster.row_s /= cores_a_rank;
  cluster.step_s /= cores_a_rank;
  cluster.wire_message_s /= cores_a_rank;
  cluster.wire_byte_s /= cores_a_rank;
  return cluster;
}

Link parse_link(std::string_view text) {
  if (text == "shm") return default_cluster().local;
  try {
    Link link;
    std::string_view figures = text;
    const std::size_t last = text.rfind(',');
    for (const auto& [fabric, name] : kFabrics)
      if (last != std::string_view::npos && text.substr(last + 1) == name)
        link.fabric = fabric, figures = text.substr(0, last);
    const std::size_t comma = figures.find(',');
    link.bytes_per_s = parse_rate(figures.substr(0, comma));
    if (comma != std::string_view::npos) link.latency_s = parse_duration(figures.substr(comma + 1));
    return link;
  } catch (const Error& error) {
    bad_input("cannot read link \"{}\": {}; or use shm", text, error.what());
  }
}

std::string to_string(const Link& link) {
  return fmt::format("{},{}{}", format_rate(link.bytes_per_s), format_duration(link.latency_s),
                     link.fabric == Fabric::nic ? ",nic" : "");
}

}  // namespace weft
