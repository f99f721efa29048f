// A reshard as somebody asks for it, in words and sizes, and what is then to be moved: one tensor between two meshes,
// one of the nine cases of the literature, or a manifest. Refusals call its fields as the command line does:
// --src-spec.
#pragma once

#include <cstdint>
#include <string>

#include "weft/cluster/network.h"
#include "weft/reshard/build/build.h"
#include "weft/reshard/reshard.h"

namespace weft {

inline constexpr const char* kDefaultNic = "10gbit,10us";

// Unchecked.
struct ReshardRequest {
  std::string shape, src, dst, src_spec, dst_spec;
  std::string dtype = "i32", dst_dtype, dst_ranks;
  std::string strategy = "auto", choice = "ours";
  std::string network, link, tensors, scale, size;
  std::int64_t node_budget = 200'000, seed = 1;
  int number = 0;  // of --case
  bool overlap = false, small = false;
};

struct ReshardSpec {
  std::string name;  // what is moved, as a person says it
  Reshard reshard;
  Network network;  // ranks count host by host
  ReshardOptions options;
  std::int64_t bytes = 0;         // of all destination tensors, as they travel
  std::string source, published;  // of a manifest

  double nic_bytes_per_s() const { return network.nics.front().bytes_per_s; }
  // Seconds in units of all the tensors over one NIC.
  double in_tensors(double seconds) const { return seconds * nic_bytes_per_s() / bytes; }
};

// Throws bad_input: one sentence that names value and remedy.
ReshardSpec parse_reshard(const ReshardRequest& request);

std::string share_text(double value);  // "1/2", "3/4", "0.531"

}  // namespace weft
