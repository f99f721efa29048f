#include "weft/mesh/mesh.h"

#include <algorithm>
#include <cstdint>

#include <fmt/core.h>
#include <fmt/ranges.h>

#include "weft/base/error.h"
#include "weft/base/index.h"

namespace weft {
namespace {

bool is_name(std::string_view text) {
  const auto is_plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.' ||
           c == '-';
  };
  return !text.empty() && std::all_of(text.begin(), text.end(), is_plain);
}

void check_axes(const std::vector<Axis>& axes) {
  std::int64_t product = 1;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const Axis& axis = axes[i];
    if (!is_name(axis.name)) bad_input("\"{}\" cannot name an axis; use letters, digits, '_', '.' and '-'", axis.name);
    if (axis.size < 1) bad_input("axis \"{}\" has {} ranks; an axis needs at least 1", axis.name, axis.size);
    for (std::size_t j = 0; j < i; ++j)
      if (axes[j].name == axis.name)
        bad_input("axes {} and {} are both named \"{}\"; give every axis its own name", j, i, axis.name);
    product *= axis.size;
    if (product > kMaxRanks)
      bad_input("a mesh of more than {} ranks, reached at axis \"{}\" (size {}); use smaller axes", kMaxRanks,
                axis.name, axis.size);
  }
}

void check_hosts(const std::vector<int>& host_of, int size) {
  if (host_of.size() != num(size))
    bad_input("{} ranks were given hosts, but the mesh has {}; give one host for every rank", host_of.size(), size);
  for (int rank = 0; rank < size; ++rank) {
    const int host = host_of[at(rank)];
    if (host < 0 || host >= size)
      bad_input("rank {} is on host {}; number hosts from 0 to at most {}", rank, host, size - 1);
  }
}

}  // namespace

Mesh::Mesh(std::vector<Axis> axes, std::vector<int> host_of)
    : axes_(std::move(axes)), strides_(axes_.size()), host_of_(std::move(host_of)) {
  check_axes(axes_);
  int size = 1;
  for (std::size_t i = axes_.size(); i-- > 0;) {
    strides_[i] = size;
    size *= axes_[i].size;
  }
  if (host_of_.empty()) host_of_.assign(num(size), 0);
  check_hosts(host_of_, size);
  num_hosts_ = 1 + *std::max_element(host_of_.begin(), host_of_.end());
}

int Mesh::axis_index(std::string_view name) const {
  for (int i = 0; i < int_size(axes_); ++i)
    if (axes_[at(i)].name == name) return i;
  if (axes_.empty()) bad_input("no axis \"{}\": the mesh has no axes; name one when building it", name);
  std::vector<std::string_view> names;
  for (const Axis& axis : axes_) names.push_back(axis.name);
  bad_input("no axis \"{}\" in the mesh; use one of {}", name, fmt::join(names, ", "));
}

void Mesh::check_rank(int rank) const {
  if (rank < 0 || rank >= size()) bad_input("no rank {} in a mesh of {}; use 0 to {}", rank, size(), size() - 1);
}

int Mesh::coordinate(int rank, int axis) const {
  const auto i = num(axis);
  return rank / strides_[i] % axes_[i].size;
}

std::vector<int> Mesh::coordinates(int rank) const {
  check_rank(rank);
  std::vector<int> result(axes_.size());
  for (int i = 0; i < num_axes(); ++i) result[at(i)] = coordinate(rank, i);
  return result;
}

int Mesh::rank_at(const std::vector<int>& coordinates) const {
  if (coordinates.size() != axes_.size())
    bad_input("{} coordinates for a mesh of {} axes; give one for each", coordinates.size(), axes_.size());
  int rank = 0;
  for (std::size_t i = 0; i < axes_.size(); ++i) {
    if (coordinates[i] < 0 || coordinates[i] >= axes_[i].size)
      bad_input("no coordinate {} along axis \"{}\"; use 0 to {}", coordinates[i], axes_[i].name, axes_[i].size - 1);
    rank += coordinates[i] * strides_[i];
  }
  return rank;
}

Group Mesh::group_of(const std::vector<int>& axes, int rank) const {
  check_rank(rank);
  int base = rank;
  Group result{{}, 0};
  for (std::size_t i = 0; i < axes.size(); ++i) {
    if (std::count(axes.begin(), axes.end(), axes[i]) > 1)
      bad_input("axis \"{}\" is named twice in a group; name it once", axes_[weft::at(axes[i])].name);
    const int at = coordinate(rank, axes[i]);
    base -= at * strides_[weft::at(axes[i])];
    result.position = result.position * axes_[weft::at(axes[i])].size + at;
  }
  result.ranks = {base};
  for (const int axis : axes) {
    std::vector<int> wider;
    for (const int start : result.ranks)
      for (int c = 0; c < axes_[weft::at(axis)].size; ++c) wider.push_back(start + c * strides_[weft::at(axis)]);
    result.ranks = std::move(wider);
  }
  return result;
}

Group Mesh::group(std::string_view axis, int rank) const { return group_of({axis_index(axis)}, rank); }

Group Mesh::group(std::initializer_list<std::string_view> axes, int rank) const {
  std::vector<int> indices;
  for (const std::string_view name : axes) indices.push_back(axis_index(name));
  return group_of(indices, rank);
}

Group Mesh::group(const std::vector<std::string>& axes, int rank) const {
  std::vector<int> indices;
  for (const std::string& name : axes) indices.push_back(axis_index(name));
  return group_of(indices, rank);
}

std::vector<Group> Mesh::groups(std::string_view axis) const {
  const int index = axis_index(axis);
  std::vector<Group> result;
  for (int rank = 0; rank < size(); ++rank)
    if (coordinate(rank, index) == 0) result.push_back(group_of({index}, rank));
  return result;
}

Mesh hosts_by_devices(int num_hosts, int devices_per_host) {
  const std::vector<Axis> axes{{"host", num_hosts}, {"device", devices_per_host}};
  const Mesh flat(axes);  // refuses bad sizes before they are multiplied
  return Mesh(axes, hosts_in_blocks(flat.size(), devices_per_host));
}

std::vector<int> hosts_in_blocks(int num_ranks, int ranks_per_host) {
  if (num_ranks < 1) bad_input("{} ranks cannot be laid over hosts; use at least 1", num_ranks);
  if (ranks_per_host < 1) bad_input("a host with {} ranks; use at least 1", ranks_per_host);
  std::vector<int> result(num(num_ranks));
  for (int rank = 0; rank < num_ranks; ++rank) result[at(rank)] = rank / ranks_per_host;
  return result;
}

std::string to_string(const Mesh& mesh) {
  std::string text;
  for (const Axis& axis : mesh.axes()) text += fmt::format("{}{}={}", text.empty() ? "" : " x ", axis.name, axis.size);
  return text.empty() ? "one rank" : text;
}

}  // namespace weft
