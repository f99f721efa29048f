// The nine many-to-many cases of the literature, and random reshards and networks, for tests of planners.
#pragma once

#include <algorithm>
#include <array>
#include <random>
#include <string>
#include <vector>

#include "weft/base/index.h"
#include "weft/reshard/paper_cases.h"
#include "weft/reshard/schedule/schedule.h"

namespace weft {

struct NineCase : PaperCase {
  double naive, balance, optimum;  // in whole tensors over one NIC

  Shape tensor() const { return {shape.begin(), shape.end()}; }
};

inline std::vector<NineCase> nine_cases() {
  constexpr std::array<std::array<double, 3>, 9> kMakespans{{{0.5, 0.5, 0.5},
                                                             {1, 0.5, 0.5},
                                                             {0.75, 0.75, 0.5},
                                                             {0.9375, 0.9375, 0.5},
                                                             {1, 0.75, 0.5},
                                                             {1, 1, 0.5},
                                                             {1, 1, 1},
                                                             {1, 1, 1},
                                                             {0.75, 0.75, 0.5}}};
  std::vector<NineCase> out;
  for (std::size_t i = 0; i < kMakespans.size(); ++i)
    out.push_back({kPaperCases[i], kMakespans[i][0], kMakespans[i][1], kMakespans[i][2]});
  return out;
}

// A reshard, the network it runs on, and what one whole tensor over one NIC takes.
struct Instance {
  Reshard reshard;
  Network network;
  double unit_s = 1;
};

inline Instance instance_of(const NineCase& c) {
  const Mesh source = hosts_by_devices(c.source_hosts, PaperCase::kDevices),
             destination = hosts_by_devices(c.destination_hosts, PaperCase::kDevices);
  Instance instance;
  instance.reshard = one_tensor(c.tensor(), Dtype::i32, source, c.source, destination, c.destination);
  instance.network = one_nic_a_host(hosts_side_by_side(source, destination), {1.25e9, 10e-6}, {19e9, 1e-7});
  instance.unit_s = static_cast<double>(whole(c.tensor()).volume()) * 4 / 1.25e9;
  return instance;
}

using Random = std::mt19937_64;

inline int pick(Random& random, int low, int high) { return std::uniform_int_distribution<int>(low, high)(random); }

// Each of the two axes over one of the dimensions or over none.
inline std::string random_spec(Random& random, int dims) {
  std::vector<std::string> over(num(dims));
  const bool swapped = pick(random, 0, 1) == 1;
  for (const char axis : {swapped ? '1' : '0', swapped ? '0' : '1'})
    if (const int dim = pick(random, -1, dims - 1); dim >= 0) over[at(dim)] += axis;
  std::string spec;
  for (const std::string& axes : over) spec += (spec.empty() ? "" : ",") + (axes.empty() ? "R" : "S" + axes);
  return spec;
}

// Powers of two and any other numbers, from 4 to 1024, as likely small as large.
inline Shape random_shape(Random& random, int dims) {
  Shape shape;
  for (int d = 0; d < dims; ++d) {
    const int power = pick(random, 2, 10);
    shape.push_back(pick(random, 0, 1) ? 1 << power : pick(random, 1 << (power - 1), 1 << power));
  }
  return shape;
}

// One tensor of 1 to 3 dimensions between disjoint meshes of up to 4 hosts x 8 devices, one NIC per host.
inline Instance random_case(std::uint64_t seed) {
  Random random(seed);
  const Mesh source = hosts_by_devices(pick(random, 1, 4), pick(random, 1, 8));
  const Mesh destination = hosts_by_devices(pick(random, 1, 4), pick(random, 1, 8));
  const int dims = pick(random, 1, 3);
  const Shape shape = random_shape(random, dims);
  const std::string from = random_spec(random, dims), to = random_spec(random, dims);
  Instance instance;
  instance.reshard = one_tensor(shape, Dtype::f32, source, from, destination, to);
  instance.network = one_nic_a_host(hosts_side_by_side(source, destination), {1e9, 0}, {19e9, 0});
  instance.unit_s = static_cast<double>(whole(shape).volume()) * 4 / 1e9;
  return instance;
}

// Hosts with one to three NICs of different rates, in racks whose uplinks may bind.
inline Network random_network(Random& random, int hosts, int devices, bool has_uplinks) {
  Network network;
  network.name = "random";
  const int racks = pick(random, 1, 3);
  for (int host = 0; host < hosts; ++host) {
    const int first = int_size(network.nics), nics = pick(random, 1, std::min(3, devices));
    for (int i = 0; i < nics; ++i) network.nics.push_back({host, 1e9 * pick(random, 1, 4)});
    for (int d = 0; d < devices; ++d) network.nic_of.push_back(first + pick(random, 0, nics - 1));
    network.rack_of.push_back(pick(random, 0, racks - 1));
  }
  for (int rack = 0; rack < racks; ++rack) network.uplink.push_back(has_uplinks ? 1e9 * pick(random, 0, 4) : 0);
  network.local = {100e9, 0};
  return network;
}

// One to three tensors between meshes that may share ranks, on any network.
inline Instance random_tangle(std::uint64_t seed, bool has_uplinks) {
  Random random(seed);
  const int hosts = pick(random, 2, 5), devices = pick(random, 1, 4);
  Instance instance;
  instance.network = random_network(random, hosts, devices, has_uplinks);
  instance.reshard.num_ranks = hosts * devices;
  for (int i = 0; i < 2; ++i) {
    const int size = pick(random, 1, hosts), first = pick(random, 0, hosts - size);
    Placement placement{i == 0 ? "source" : "destination", hosts_by_devices(size, devices), {}};
    for (int rank = 0; rank < size * devices; ++rank) placement.ranks.push_back(first * devices + rank);
    if (pick(random, 0, 3) == 0) std::shuffle(placement.ranks.begin(), placement.ranks.end(), random);
    instance.reshard.placements.push_back(std::move(placement));
  }
  for (int t = pick(random, 1, 3); t > 0; --t) {
    const int dims = pick(random, 1, 3);
    const Shape shape = random_shape(random, dims);
    const auto tensor = [&](const char* name, int placement) {
      const Mesh& mesh = instance.reshard.placements[at(placement)].mesh;
      return ShardedTensor{name, shape, Dtype::bf16, placement, parse_sharding(random_spec(random, dims), mesh)};
    };
    const ShardedTensor from = tensor("from", 0), to = tensor("to", 1);
    instance.reshard.transfers.push_back({{{from, std::vector<std::int64_t>(shape.size(), 0)}}, to});
  }
  return instance;
}

}  // namespace weft
