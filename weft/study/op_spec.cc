#include "weft/study/op_spec.h"

#include <algorithm>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "weft/base/error.h"
#include "weft/base/index.h"
#include "weft/collective/build.h"
#include "weft/mesh/box.h"
#include "weft/world/op.h"
#include "weft/world/world.h"

namespace weft {
namespace {

struct SpaceName {
  std::string_view name;
  SpaceKind kind;
};
constexpr SpaceName kSpaces[] = {
    {"rs", SpaceKind::reduce_scatter},
    {"ar", SpaceKind::all_reduce},
    {"ag", SpaceKind::all_gather},
    {"a2a", SpaceKind::all_to_all},
    {"bcast", SpaceKind::broadcast},
    {"keep", SpaceKind::keep},
    {"reduce-scatter", SpaceKind::reduce_scatter},
    {"all-reduce", SpaceKind::all_reduce},
    {"all-gather", SpaceKind::all_gather},
    {"all-to-all", SpaceKind::all_to_all},
    {"broadcast", SpaceKind::broadcast},
};
struct ProducerName {
  std::string_view name;
  ProducerKind kind;
};
constexpr ProducerName kProducers[] = {
    {"gemm", ProducerKind::gemm},
    {"gemv", ProducerKind::gemv},
    {"embedding-bag", ProducerKind::embedding_bag},
    {"embedding", ProducerKind::embedding_bag},
    {"copy", ProducerKind::copy},
};

bool find_space(std::string_view name, SpaceKind* kind) {
  for (const SpaceName& one : kSpaces)
    if (one.name == name) return *kind = one.kind, true;
  return false;
}

bool find_pair(std::string_view name, OpName* parsed) {
  for (const ProducerName& one : kProducers) {
    if (name.size() <= one.name.size() || !name.starts_with(one.name) || name[one.name.size()] != '-') continue;
    parsed->producer = one.kind;
    if (find_space(name.substr(one.name.size() + 1), &parsed->space)) return true;
  }
  return false;
}

}  // namespace

OpName parse_op_name(const std::string& given) {
  std::string name = given;
  for (char& c : name)
    if (c == '_') c = '-';
  OpName parsed;
  if (name == "ag-gemm" || name == "all-gather-gemm") return {ProducerKind::gemm, SpaceKind::all_gather, true};
  if (find_space(name, &parsed.space) && parsed.space != SpaceKind::keep) return parsed;
  for (const ProducerName& one : kProducers)  // alone: what it makes stays where it is
    if (one.name == name && one.kind != ProducerKind::copy) return {one.kind, SpaceKind::keep, false};
  if (find_pair(name, &parsed)) return parsed;
  bad_input(
      "unknown op \"{}\"; use rs, ar, ag, a2a, bcast, ag-gemm, gemm, gemv, embedding, or PRODUCER-SPACE with gemm, "
      "gemv, embedding or "
      "copy and rs, ar, ag, a2a, bcast or keep, as in gemm-rs",
      given);
}

bool has_collective(const OpSpec& spec) {
  return !spec.alone() && spec.ranks > 1 && spec.space.kind != SpaceKind::keep;
}

OpSpec producer_alone(const OpSpec& spec, int rank) {
  OpSpec out = spec;
  out.gathers = false;
  if (spec.gathers) out.producer.m *= spec.ranks;
  if (!spec.producer.n_of.empty()) out.producer.n = spec.producer.columns(rank);
  out.producer.n_of.clear();
  out.space = keep();
  return out;
}

OpSpec collective_alone(const OpSpec& spec) {
  OpSpec out = spec;
  const Producer& p = spec.producer;
  out.gathers = false;
  out.producer = copy({.rows = p.m, .cols = spec.gathers ? p.k : p.n});
  out.producer.n_of = p.n_of;
  out.space.options.route = Route::automatic;
  out.space.options.slices = 0;
  return out;
}

double one_shot_bytes(const OpSpec& collective) {
  if (collective.space.kind != SpaceKind::all_reduce) return 0;
  return 4.0 * collective.ranks * static_cast<double>(collective.producer.m) * collective.producer.n;
}

std::int64_t rows_read(const std::vector<BagTable>& bags) {
  std::int64_t reads = 0;
  for (const BagTable& bag : bags) reads += bag.pooling;
  return reads;
}

Cluster laid_out(Cluster cluster, const OpSpec& spec) {
  if (spec.ranks_per_host < 1) return cluster;
  cluster.ranks_per_host = spec.ranks_per_host;
  cluster.num_hosts = static_cast<int>(ceil_div(spec.ranks, spec.ranks_per_host));
  return cluster;
}

Plan build(const OpSpec& spec, const Cluster& cluster) {
  return spec.gathers ? weft::build(spec.space, spec.producer, cluster)
                      : weft::build(spec.producer, spec.space, cluster);
}

EstimateHint hint_of(const OpSpec& spec) {
  EstimateHint hint;
  for (const auto& of_rank : spec.bags) {
    auto& tables = hint.tables.emplace_back();
    for (const BagTable& bag : of_rank)
      tables.push_back({static_cast<double>(bag.pooling), static_cast<double>(bag.rows)});
  }
  hint.zipf = spec.zipf;
  return hint;
}

Op compile(World& world, const OpSpec& spec) {
  return spec.gathers ? world.compile(spec.space, spec.producer) : world.compile(spec.producer, spec.space);
}

nlohmann::ordered_json shape_json(const OpSpec& spec) {
  const Producer& p = spec.producer;
  if (p.kind == ProducerKind::embedding_bag) {
    nlohmann::ordered_json shape{{"tables", p.n / p.dim}, {"rows", p.rows}, {"dim", p.dim}, {"batch", p.m}};
    if (spec.workload.empty()) {
      shape["pooling"] = spec.bags[0][0].pooling;
    } else {
      shape["workload"] = spec.workload;
      for (const auto& bags : spec.bags) {
        shape["tables_of_ranks"].push_back(bags.size());
        shape["rows_read_of_ranks"].push_back(rows_read(bags));
      }
    }
    if (spec.zipf > 0) shape["zipf"] = spec.zipf;
    return shape;
  }
  nlohmann::ordered_json shape{{"m", p.m}, {"n", p.n}};
  if (!spec.alone()) shape["k"] = p.k;
  if (p.addend) shape["addend"] = true;
  if (const auto& routing = spec.routing)
    shape["routing"] = {{"workload", routing->workload}, {"experts", routing->experts},
                        {"top_k", routing->top_k},       {"tokens", routing->tokens},
                        {"skew", routing->skew},         {"capacity", capacity_of(*routing, spec.ranks)}};
  return shape;
}

std::string shape_text(const OpSpec& spec) {
  const Producer& p = spec.producer;
  if (p.kind == ProducerKind::embedding_bag) {
    const std::string indices = spec.zipf > 0 ? fmt::format("Zipf {:.2g} indices", spec.zipf) : "uniform indices";
    if (!spec.workload.empty())
      return fmt::format("tables of {}, at most {} x {}, {} samples, {}", spec.workload, p.rows, p.dim, p.m, indices);
    return fmt::format("{} tables of {} x {}, {} samples of {}, {}", p.n / p.dim, p.rows, p.dim, p.m,
                       spec.bags[0][0].pooling, indices);
  }
  if (spec.alone()) return fmt::format("{} x {}", p.m, p.n);
  if (const auto& routing = spec.routing)
    return fmt::format("{} x {}, rows of {} tokens of each rank for {} of {} experts ({}, skew {:.2g})", p.n, p.k,
                       routing->tokens, routing->top_k, routing->experts, routing->workload, routing->skew);
  return fmt::format("{} x {} x {}{}", p.m, p.n, p.k, p.addend ? " with an addend" : "");
}

}  // namespace weft
