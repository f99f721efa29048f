// Reading manifests: parameters first, then the network, the placements on its hosts, and the tensors between them.
#include "weft/reshard/manifest.h"

#include <cmath>

#include <fmt/core.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "weft/base/error.h"
#include "weft/base/index.h"
#include "weft/base/json.h"
#include "weft/base/units.h"
#include "weft/cluster/data_file.h"
#include "weft/reshard/manifest_words.h"

namespace weft {
namespace {

constexpr std::int64_t kMostHosts = 1 << 16, kMostDevices = 1 << 10, kMostRanks = 1 << 16, kMostTensors = 1 << 20;

// Adds the place in the file to what a parser of one value says.
template <typename F>
auto at_place(std::string_view where, std::string_view key, F&& parse) {
  try {
    return parse();
  } catch (const Error& error) {
    if (error.code() != Code::bad_input) throw;
    bad_input("{}: \"{}\": {}", where, key, error.what());
  }
}

// Where the ranks of each host begin.
struct Hosts {
  std::vector<int> first, devices;
  int num_ranks = 0;

  int size() const { return int_size(first); }
};

class ManifestReader {
 public:
  ManifestReader(const Json& object, std::string_view where, const ManifestOptions& options)
      : object_(object), where_(where), words_(read_params(options)) {}

  Manifest read();

 private:
  ManifestWords read_params(const ManifestOptions& options);
  void read_network();
  void read_host_group(const Json& group, const std::string& where);
  void read_racks(const Json& network, const std::string& where);
  void read_placement(const Json& entry, const std::string& where);
  void read_transfer(const Json& entry, const std::string& where, const ManifestWords& words);
  int placement(const std::string& name, std::string_view where) const;
  ShardedTensor tensor(std::string name, Shape shape, Dtype dtype, int placement, const std::string& spec,
                       std::string_view where) const;
  Part read_part(const Json& part, const std::string& where, const ManifestWords& words, const Json& entry) const;

  const Json& object_;
  std::string where_;
  Manifest out_;
  ManifestWords words_;
  Hosts hosts_;
  std::map<std::string, int, std::less<>> placements_;
};

ManifestWords ManifestReader::read_params(const ManifestOptions& options) {
  check_fields(
      object_,
      {"name", "note", "source", "published", "params", "dtype", "network", "placements", "tensors", "scale", "small"},
      where_);
  Params params;
  const auto take = [&](const Json& from, const std::string& inside) {
    for (const auto& [name, value] : from.items()) params[name] = get_int(from, name, inside, 1, std::int64_t{1} << 40);
  };
  take(get_object(object_, "params", where_), where_ + ": params");
  if (const Json* small = find_field(object_, "small", where_)) {
    const std::string inside = where_ + ": small";
    check_fields(*small, {"why", "params"}, inside);
    out_.small_why = get_string(*small, "why", inside);
    if (options.small) take(get_object(*small, "params", inside), inside + ": params");
  } else if (options.small) {
    bad_input("{} has no \"small\" version; use --scale, or add {{\"small\": {{\"why\": .., \"params\": {{..}}}}}}",
              where_);
  }
  if (!(options.scale > 0 && options.scale <= 1))
    bad_input("the scale is {}; use more than 0, at most 1", options.scale);
  if (options.scale < 1) {
    const std::string inside = where_ + ": scale";
    const Json& scale = get_object(object_, "scale", where_);
    check_fields(scale, {"param", "multiple"}, inside);
    const std::string name = get_string(scale, "param", inside);
    const std::int64_t multiple = get_int(scale, "multiple", inside, 1, 1 << 20);
    if (params.count(name) == 0) bad_input("{}: \"param\" is \"{}\"; use one of \"params\"", inside, name);
    const double wanted = static_cast<double>(params[name]) * options.scale / static_cast<double>(multiple);
    params[name] = std::max<std::int64_t>(1, std::llround(wanted)) * multiple;
  }
  return ManifestWords(params);
}

void ManifestReader::read_host_group(const Json& group, const std::string& where) {
  check_fields(group, {"count", "devices", "nics"}, where);
  const std::int64_t count = words_.number(group, "count", where, 1, kMostHosts);
  const std::int64_t devices = words_.number(group, "devices", where, 1, kMostDevices);
  const std::int64_t nics = words_.number_or(1, group, "nics", where, 1, kMostDevices);
  for (std::int64_t i = 0; i < count; ++i) {
    const int host = hosts_.size();
    const int first_nic = int_size(out_.network.nics);
    hosts_.first.push_back(hosts_.num_ranks);
    hosts_.devices.push_back(static_cast<int>(devices));
    hosts_.num_ranks += static_cast<int>(devices);
    if (hosts_.num_ranks > kMostRanks)
      bad_input("{}: more than {} ranks; use fewer hosts or devices", where, kMostRanks);
    for (std::int64_t n = 0; n < nics; ++n) out_.network.nics.push_back({host, 0});
    // Neighbouring devices share a NIC where there are fewer NICs than devices.
    for (std::int64_t d = 0; d < devices; ++d)
      out_.network.nic_of.push_back(first_nic + static_cast<int>(nics >= devices ? d : d * nics / devices));
    out_.network.rack_of.push_back(0);
  }
}

void ManifestReader::read_racks(const Json& network, const std::string& where) {
  const std::int64_t per_rack = words_.number_or(hosts_.size(), network, "hosts_per_rack", where, 1, kMostHosts);
  double uplink = 0;
  if (find_field(network, "uplink", where) != nullptr)
    uplink = at_place(where, "uplink", [&] { return parse_rate(get_string(network, "uplink", where)); });
  for (int host = 0; host < hosts_.size(); ++host) out_.network.rack_of[at(host)] = host / static_cast<int>(per_rack);
  out_.network.uplink.assign(num(out_.network.rack_of.back() + 1), uplink);
}

void ManifestReader::read_network() {
  const std::string where = where_ + ": network";
  const Json& network = get_object(object_, "network", where_);
  check_fields(network, {"hosts", "nic", "latency", "local", "hosts_per_rack", "uplink", "note"}, where);
  const Json& groups = get_array(network, "hosts", where);
  for (std::size_t i = 0; i < groups.size(); ++i) read_host_group(groups[i], fmt::format("{}: hosts[{}]", where, i));
  if (hosts_.size() == 0) bad_input("{}: \"hosts\" is empty; add {{\"count\": .., \"devices\": ..}}", where);
  const auto rate = [&](const char* key) {
    return at_place(where, key, [&] { return parse_rate(get_string(network, key, where)); });
  };
  const double nic = rate("nic");
  for (Nic& one : out_.network.nics) one.bytes_per_s = nic;
  out_.network.name = out_.name;
  out_.network.latency_s =
      at_place(where, "latency", [&] { return parse_duration(get_string(network, "latency", where)); });
  out_.network.local.bytes_per_s = rate("local");
  read_racks(network, where);
  check_network(out_.network, where);
}

void ManifestReader::read_placement(const Json& entry, const std::string& where) {
  check_fields(entry, {"name", "for", "host", "hosts", "devices", "axes", "note"}, where);
  for (const ManifestWords& words : words_.loop(entry, where)) {
    Placement placement;
    placement.name = words.text(entry, "name", where);
    const int first = static_cast<int>(words.number(entry, "host", where, 0, hosts_.size() - 1));
    const int count = static_cast<int>(words.number_or(1, entry, "hosts", where, 1, hosts_.size() - first));
    std::vector<int> host_of;
    for (int host = first; host < first + count; ++host) {
      const int there = hosts_.devices[at(host)];
      const auto devices = static_cast<int>(words.number_or(there, entry, "devices", where, 1, there));
      for (int d = 0; d < devices; ++d) {
        placement.ranks.push_back(hosts_.first[at(host)] + d);
        host_of.push_back(host - first);
      }
    }
    const std::string text = words.text(entry, "axes", where);
    placement.mesh = at_place(where, "axes", [&] {
      const std::vector<Axis> axes = parse_axes(text);
      const Mesh mesh(axes);
      if (mesh.size() != int_size(placement.ranks))
        bad_input("\"{}\" has {} ranks, but the {} hosts of \"{}\" have {} devices; make the axes multiply to {}", text,
                  mesh.size(), count, placement.name, placement.ranks.size(), placement.ranks.size());
      return Mesh(axes, host_of);
    });
    if (!placements_.emplace(placement.name, int_size(out_.reshard.placements)).second)
      bad_input("{}: a placement \"{}\" is there already; give each its own name", where, placement.name);
    out_.reshard.placements.push_back(std::move(placement));
  }
}

int ManifestReader::placement(const std::string& name, std::string_view where) const {
  const auto found = placements_.find(name);
  if (found != placements_.end()) return found->second;
  std::vector<std::string> names;
  for (const auto& [known, index] : placements_) names.push_back(known);
  if (names.size() > 8) names.resize(8), names.emplace_back("...");
  bad_input("{}: no placement \"{}\"; use one of {}", where, name, fmt::join(names, ", "));
}

ShardedTensor ManifestReader::tensor(std::string name, Shape shape, Dtype dtype, int placement, const std::string& spec,
                                     std::string_view where) const {
  const Mesh& mesh = out_.reshard.placements[at(placement)].mesh;
  const Sharding sharding = at_place(where, "spec", [&] { return parse_sharding(spec, mesh); });
  return {std::move(name), std::move(shape), dtype, placement, sharding};
}

// What a part does not say of its source, the tensor says.
Part ManifestReader::read_part(const Json& part, const std::string& where, const ManifestWords& words,
                               const Json& entry) const {
  const auto own_or = [&](const char* key, const std::string& otherwise) {
    return words.text_or(words.text_or(otherwise, entry, key, where), part, key, where);
  };
  Part out;
  out.at = words.numbers(part, "at", where, 0);
  const std::string dtype = own_or("dtype", get_string(object_, "dtype", where_));
  const std::string from = own_or("from", ""), spec = own_or("from_spec", "");
  if (from.empty()) bad_input("{}: \"from\" is missing; name a placement", where);
  if (spec.empty()) bad_input("{}: \"from_spec\" is missing; write it as \"R,S(tp)\"", where);
  out.tensor =
      tensor(words.text(part, "name", where), words.numbers(part, "shape", where, 1),
             at_place(where, "dtype", [&] { return parse_dtype(dtype); }), placement(from, where), spec, where);
  return out;
}

void ManifestReader::read_transfer(const Json& entry, const std::string& where, const ManifestWords& words) {
  if (std::ssize(out_.reshard.transfers) >= kMostTensors)
    bad_input("{}: more than {} tensors; use smaller loops", where, kMostTensors);
  Transfer transfer;
  const std::string name = words.text(entry, "name", where);
  const Shape shape = words.numbers(entry, "shape", where, 1);
  if (shape.empty() || shape.size() > kMaxDims)
    bad_input("{}: \"shape\" has {} sizes; use 1 to {}", where, shape.size(), kMaxDims);
  const std::string dtype = words.text_or(get_string(object_, "dtype", where_), entry, "dtype", where);
  if (const Json* parts = find_field(entry, "parts", where)) {
    get_array(entry, "parts", where);
    for (std::size_t p = 0; p < parts->size(); ++p) {
      const std::string inside = fmt::format("{}: parts[{}]", where, p);
      check_fields((*parts)[p], {"name", "shape", "at", "from", "from_spec", "dtype"}, inside);
      transfer.parts.push_back(read_part((*parts)[p], inside, words, entry));
    }
  } else {
    const Json whole{{"name", name}, {"shape", shape}, {"at", std::vector<std::int64_t>(shape.size(), 0)}};
    transfer.parts.push_back(read_part(whole, where, words, entry));
  }
  const std::string to_dtype = words.text_or(dtype, entry, "to_dtype", where);
  transfer.destination =
      tensor(name, shape, at_place(where, "to_dtype", [&] { return parse_dtype(to_dtype); }),
             placement(words.text(entry, "to", where), where), words.text(entry, "to_spec", where), where);
  out_.reshard.transfers.push_back(std::move(transfer));
}

Manifest ManifestReader::read() {
  out_.name = get_string(object_, "name", where_);
  out_.source = get_string(object_, "source", where_);
  if (find_field(object_, "published", where_) != nullptr) out_.published = get_string(object_, "published", where_);
  out_.params = words_.params();
  read_network();
  const Json& placements = get_array(object_, "placements", where_);
  for (std::size_t i = 0; i < placements.size(); ++i)
    read_placement(placements[i], fmt::format("{}: placements[{}]", where_, i));
  const Json& tensors = get_array(object_, "tensors", where_);
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const std::string where = fmt::format("{}: tensors[{}]", where_, i);
    check_fields(tensors[i],
                 {"name", "for", "shape", "dtype", "from", "from_spec", "to", "to_spec", "to_dtype", "parts", "note"},
                 where);
    for (const ManifestWords& words : words_.loop(tensors[i], where)) read_transfer(tensors[i], where, words);
  }
  if (out_.reshard.transfers.empty()) bad_input("{}: \"tensors\" names none; add one", where_);
  out_.reshard.num_ranks = hosts_.num_ranks;
  at_place(where_, "tensors", [&] { return check_reshard(out_.reshard), 0; });
  return std::move(out_);
}

}  // namespace

Manifest parse_manifest(std::string_view json, std::string_view where, const ManifestOptions& options) {
  const Json object = parse_json(json, where, {.bytes = kMaxDataFileBytes});
  return ManifestReader(object, where, options).read();
}

Manifest load_manifest(const std::string& name_or_path, const ManifestOptions& options) {
  const std::string path = find_data_file("workloads/reshard", "manifest", name_or_path);
  return parse_manifest(read_text_file(path, kMaxDataFileBytes), path, options);
}

}  // namespace weft
