// A mesh is a named grid of ranks laid over hosts. Ranks count row-major over the axes: the last axis
// varies fastest. A plain value: it opens nothing, owns nothing but its numbers, and compares by them.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "weft/base/index.h"

namespace weft {

inline constexpr int kMaxRanks = 1 << 20;

struct Axis {
  std::string name;
  int size = 1;
  friend bool operator==(const Axis&, const Axis&) = default;
};

// The ranks that differ from one another only along some axes, and where one of them stands.
struct Group {
  std::vector<int> ranks;
  int position = 0;  // ranks[position] is the rank that was asked for

  int size() const { return int_size(ranks); }
  int at(int i) const { return ranks[weft::at(((i % size()) + size()) % size())]; }  // wraps
  friend bool operator==(const Group&, const Group&) = default;
};

class Mesh {
 public:
  Mesh() : Mesh(std::vector<Axis>{}) {}  // one rank, no axis

  // host_of[rank] numbers hosts from 0; left out, all ranks share host 0. Throws bad_input on an axis
  // without ranks, a name used twice or not of [A-Za-z0-9_.-], more than kMaxRanks ranks, a bad host.
  explicit Mesh(std::vector<Axis> axes, std::vector<int> host_of = {});

  int size() const { return int_size(host_of_); }
  int num_axes() const { return int_size(axes_); }
  const std::vector<Axis>& axes() const { return axes_; }
  const Axis& axis(std::string_view name) const { return axes_[at(axis_index(name))]; }
  int axis_index(std::string_view name) const;  // throws bad_input naming the axes there are

  std::vector<int> coordinates(int rank) const;  // one per axis
  int coordinate(int rank, int axis) const;      // without allocating
  int rank_at(const std::vector<int>& coordinates) const;

  // The ranks that share every coordinate with `rank` but those along the given axes. Several axes
  // count row-major in the order they are named, the first slowest, as in Split.
  Group group(std::string_view axis, int rank) const;
  Group group(std::initializer_list<std::string_view> axes, int rank) const;
  Group group(const std::vector<std::string>& axes, int rank) const;
  std::vector<Group> groups(std::string_view axis) const;  // all of them, by their first rank; position 0

  int num_hosts() const { return num_hosts_; }
  const std::vector<int>& hosts() const { return host_of_; }  // per rank

  friend bool operator==(const Mesh&, const Mesh&) = default;

 private:
  Group group_of(const std::vector<int>& axes, int rank) const;
  void check_rank(int rank) const;

  std::vector<Axis> axes_;
  std::vector<int> strides_;  // ranks between neighbours along each axis
  std::vector<int> host_of_;
  int num_hosts_ = 1;
};

// Axes "host" and "device", one host a row.
Mesh hosts_by_devices(int num_hosts, int devices_per_host);

// Ranks 0..p-1 on host 0, the next p on host 1, and so on: what launchers do by default.
std::vector<int> hosts_in_blocks(int num_ranks, int ranks_per_host);

std::string to_string(const Mesh& mesh);  // "tp=4 x dp=2"

}  // namespace weft
