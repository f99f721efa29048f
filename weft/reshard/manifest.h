// A set of tensors to be moved together, as data: where trainer and rollout, or two stages of a pipeline, keep their
// weights. A file says it once for all layers: names, shapes and placements are templates over loops and parameters.
//
//   "params"      {"layers": 80, "hidden": 8192}: whole numbers that every expression may use
//   "network"     {"hosts": [{"count": 4, "devices": 8, "nics": 1}, ..], "nic": "100gbit", "latency": "10us",
//                  "local": "300GB/s"}; "hosts_per_rack" and "uplink" where racks narrow it
//   "placements"  {"name": "stage{s}", "for": "s in 0..3", "host": "s", "hosts": 1, "axes": "tp=8"}; "devices" where
//   only the
//                 first of each host are used
//   "tensors"     {"name": "layers.{i}.wo", "for": "i in 0..layers-1", "shape": ["hidden", "heads * head_dim"],
//                  "from": "stage{i / 20}", "from_spec": "R,S(tp)", "to": "rollout", "to_spec": "R,S(tp)"}; "to_dtype"
//                  where it
//                 changes; "parts": [{"name", "shape", "at"}, ..] where several source tensors form one, each with
//                 "from", "from_spec" and "dtype" of its own or the tensor's
//   "scale"       {"param": "hidden", "multiple": 16}: what a smaller copy of everything shrinks
//   "small"       {"why": .., "params": {..}}: the version for one machine, fewer ranks and layers
//
// Expressions are those of weft/plan/expr.h. Ranks count host by host, device by device.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "weft/cluster/network.h"
#include "weft/reshard/reshard.h"

namespace weft {

struct Manifest {
  std::string name;
  std::string source;                          // where each number comes from, or "assumed"
  std::string published;                       // what others have measured for such a move; may be empty
  std::string small_why;                       // what the small version changes; empty where there is none
  std::map<std::string, std::int64_t> params;  // as used
  Reshard reshard;
  Network network;
};

struct ManifestOptions {
  double scale = 1;    // factor on the parameter that "scale" names
  bool small = false;  // take the parameters of "small"
};

// All throw bad_input naming file, key, value and remedy. A name is looked for in workloads/reshard/ (data_file.h).
Manifest load_manifest(const std::string& name_or_path, const ManifestOptions& options = {});
Manifest parse_manifest(std::string_view json, std::string_view where, const ManifestOptions& options = {});

}  // namespace weft
