#include "weft/study/reshard/request.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include <fmt/core.h>
#include <fmt/ranges.h>

#include "weft/base/error.h"
#include "weft/base/index.h"
#include "weft/base/units.h"
#include "weft/cluster/cluster.h"
#include "weft/cluster/data_file.h"
#include "weft/reshard/manifest.h"
#include "weft/reshard/paper_cases.h"
#include "weft/study/reshard/request_words.h"

namespace weft {
namespace {

int split_of(const Sharding& sharding, const Mesh& mesh, std::size_t dim) {
  int parts = 1;
  for (const std::string& axis : sharding.dims[dim].axes) parts *= mesh.axis(axis).size;
  return parts;
}

// The first dimension as near to that many bytes as it can be, still cut evenly where it was.
void resize(const std::string& size, Transfer* transfer, const std::vector<Placement>& placements) {
  const std::int64_t wanted = parse_bytes(size);
  ShardedTensor& src = transfer->parts[0].tensor;
  ShardedTensor& dst = transfer->destination;
  std::int64_t row = wire_bytes(*transfer) / dst.shape[0];
  std::int64_t multiple =
      std::lcm(split_of(src.sharding, placements[0].mesh, 0), split_of(dst.sharding, placements[1].mesh, 0));
  if (dst.shape[0] % multiple != 0) multiple = 1;
  const double rows = static_cast<double>(wanted) / (row * multiple);
  if (!(rows * multiple < static_cast<double>(kMostElements)) || wanted < 1)
    bad_input("--size is {}; use a size from 1 byte to some terabytes", size);
  const std::int64_t first = std::max<std::int64_t>(1, std::llround(rows)) * multiple;
  src.shape[0] = dst.shape[0] = first;
}

// The rank's host: source and destination on hosts of their own, or, where they share ranks, blocks of the source's
// size.
std::vector<int> hosts_of(const Mesh& src, const Mesh& dst, const std::vector<int>& dst_ranks, bool shared) {
  if (!shared) return hosts_side_by_side(src, dst);
  const int ranks = std::max(src.size(), 1 + *std::max_element(dst_ranks.begin(), dst_ranks.end()));
  return hosts_in_blocks(ranks, src.size() / src.num_hosts());
}

Network network_of(const std::vector<int>& host_of, const Link& link) {
  return one_nic_a_host(host_of, link, default_cluster().local);
}

void check_layout(const ReshardRequest& flags) {
  for (const auto& [flag, value] : {std::pair{"--src", &flags.src}, {"--dst", &flags.dst}})
    if (value->empty())
      bad_input("{} is missing; give a mesh of hosts x devices, as 2x4, or use --case or --tensors", flag);
  for (const auto& [flag, value] : {std::pair{"--src-spec", &flags.src_spec}, {"--dst-spec", &flags.dst_spec}})
    if (value->empty())
      bad_input("{} is missing; give one letter per dimension, as R,S0,R (R: replicated, S0: split over axis 0)", flag);
  if (flags.shape.empty())
    bad_input("--shape is missing; give the tensor's sizes, as 1024,1024,512, or use --case or --tensors");
}

ReshardRequest with_case(ReshardRequest flags) {
  if (flags.number < 1 || flags.number > int_size(kPaperCases))
    bad_input("--case is {}; use 1 to {}", flags.number, kPaperCases.size());
  for (const auto& [name, value] : {std::pair{"--shape", &flags.shape},
                                    {"--src", &flags.src},
                                    {"--dst", &flags.dst},
                                    {"--src-spec", &flags.src_spec},
                                    {"--dst-spec", &flags.dst_spec}})
    if (!value->empty()) bad_input("--case {} has its own {}; leave one of the two out", flags.number, name);
  const PaperCase& one = kPaperCases[at(flags.number - 1)];
  flags.shape = fmt::format("{}", fmt::join(one.shape, ","));
  flags.src = fmt::format("{}x{}", one.source_hosts, PaperCase::kDevices);
  flags.dst = fmt::format("{}x{}", one.destination_hosts, PaperCase::kDevices);
  flags.src_spec = one.source, flags.dst_spec = one.destination;
  return flags;
}

std::vector<int> destination_ranks(const ReshardRequest& flags, const Mesh& src, const Mesh& dst) {
  if (flags.overlap && !flags.dst_ranks.empty())
    bad_input("--overlap and --dst-ranks both say where the destination is; leave one out");
  if (!flags.dst_ranks.empty()) {
    std::vector<int> ranks = parse_ranks(flags.dst_ranks);
    if (int_size(ranks) != dst.size())
      bad_input("--dst-ranks {} names {} ranks, but --dst {} has {}; name as many", flags.dst_ranks, ranks.size(),
                flags.dst, dst.size());
    return ranks;
  }
  std::vector<int> ranks(num(dst.size()));
  std::iota(ranks.begin(), ranks.end(), flags.overlap ? 0 : src.size());
  return ranks;
}

ReshardSpec one_tensor_spec(const ReshardRequest& flags) {
  check_layout(flags);
  if (!flags.scale.empty() || flags.small)
    bad_input("--scale and --small are for --tensors; use --size for one tensor");
  const Shape shape = parse_shape(flags.shape);
  const Mesh src = parse_mesh(flags.src, "--src"), dst = parse_mesh(flags.dst, "--dst");
  const Dtype from = parse_dtype(flags.dtype),
              to = parse_dtype(flags.dst_dtype.empty() ? flags.dtype : flags.dst_dtype);
  const std::vector<int> dst_ranks = destination_ranks(flags, src, dst);
  std::vector<int> src_ranks(num(src.size()));
  std::iota(src_ranks.begin(), src_ranks.end(), 0);
  ReshardSpec spec;
  spec.reshard.placements = {{"source", src, src_ranks}, {"destination", dst, dst_ranks}};
  const ShardedTensor source{"x", shape, from, 0, parse_spec(flags.src_spec, src, "--src-spec")};
  const ShardedTensor target{"x", shape, to, 1, parse_spec(flags.dst_spec, dst, "--dst-spec")};
  spec.reshard.transfers = {{{{source, std::vector<std::int64_t>(shape.size(), 0)}}, target}};
  const std::vector<int> host_of = hosts_of(src, dst, dst_ranks, flags.overlap || !flags.dst_ranks.empty());
  spec.reshard.num_ranks = int_size(host_of);
  check_reshard(spec.reshard);
  if (!flags.size.empty()) resize(flags.size, &spec.reshard.transfers[0], spec.reshard.placements);
  spec.network = network_of(host_of, parse_link(flags.link.empty() || flags.link == "shm" ? kDefaultNic : flags.link));
  const ShardedTensor& moved = spec.reshard.transfers[0].destination;
  spec.name =
      fmt::format("{}{} {}{}, {} {} -> {} {}{}", flags.number > 0 ? fmt::format("case {}: ", flags.number) : "",
                  fmt::join(moved.shape, "x"), to_string(from), from == to ? "" : fmt::format(" -> {}", to_string(to)),
                  flags.src, flags.src_spec, flags.dst, flags.dst_spec,
                  flags.overlap             ? " on the same ranks"
                  : flags.dst_ranks.empty() ? ""
                                            : " on ranks " + flags.dst_ranks);
  return spec;
}

ReshardSpec manifest_spec(const ReshardRequest& flags) {
  for (const auto& [name, value] : {std::pair{"--shape", &flags.shape},
                                    {"--src", &flags.src},
                                    {"--dst", &flags.dst},
                                    {"--src-spec", &flags.src_spec},
                                    {"--dst-spec", &flags.dst_spec},
                                    {"--dst-ranks", &flags.dst_ranks},
                                    {"--dst-dtype", &flags.dst_dtype},
                                    {"--size", &flags.size}})
    if (!value->empty())
      bad_input("{} is {}, but --tensors {} says it for each tensor; leave it out", name, *value, flags.tensors);
  if (flags.overlap || flags.number > 0)
    bad_input("--tensors {} has its own placements; leave out --overlap and --case", flags.tensors);
  Manifest manifest = load_manifest(flags.tensors, {parse_scale(flags.scale), flags.small});
  ReshardSpec spec;
  spec.name = fmt::format("{}{}{}: {} tensors", manifest.name, flags.small ? ", small" : "",
                          flags.scale.empty() ? "" : ", scale " + flags.scale, manifest.reshard.transfers.size());
  spec.reshard = std::move(manifest.reshard);
  spec.network = std::move(manifest.network);
  spec.source = manifest.source;
  spec.published = flags.small || !flags.scale.empty() ? "" : manifest.published;
  if (flags.link.empty() || flags.link == "shm") return spec;
  const Link link = parse_link(flags.link);  // the same NICs, at another rate
  for (Nic& nic : spec.network.nics) nic.bytes_per_s = link.bytes_per_s;
  spec.network.latency_s = link.latency_s;
  return spec;
}

void use_network_file(const ReshardRequest& flags, ReshardSpec* spec) {
  if (!flags.link.empty() && flags.link != "shm")
    bad_input("--network {} and --link {} both say how fast NICs are; leave one out", flags.network, flags.link);
  spec->network = load_network(find_data_file("clusters/networks", "network", flags.network));
  const int ranks = spec->network.num_ranks();
  if (ranks < spec->reshard.num_ranks)
    bad_input("--network {} has {} ranks, but the meshes need {}; use smaller meshes or another network", flags.network,
              ranks, spec->reshard.num_ranks);
  spec->reshard.num_ranks = ranks;
}

}  // namespace

std::string share_text(double value) {
  for (int below = 1; below <= 16; ++below) {
    const double above = value * below;
    if (above >= 0.5 && std::abs(above - std::round(above)) < 1e-6 * above)
      return below == 1 ? fmt::format("{}", std::llround(above)) : fmt::format("{}/{}", std::llround(above), below);
  }
  return fmt::format("{:.4g}", value);
}

ReshardSpec parse_reshard(const ReshardRequest& given) {
  const ReshardRequest flags = given.number != 0 && given.tensors.empty() ? with_case(given) : given;
  ReshardSpec spec = flags.tensors.empty() ? one_tensor_spec(flags) : manifest_spec(flags);
  if (!flags.network.empty()) use_network_file(flags, &spec);
  if (flags.node_budget < 1) bad_input("--node-budget is {}; use 1 or more", flags.node_budget);
  spec.options.schedule = {parse_strategy(flags.strategy), parse_choice(flags.choice), flags.node_budget,
                           static_cast<std::uint64_t>(flags.seed)};
  for (const Transfer& transfer : spec.reshard.transfers) spec.bytes += wire_bytes(transfer);
  return spec;
}

}  // namespace weft
