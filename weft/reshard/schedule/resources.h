// What transfers share: each NIC's two directions and each rack's uplink in both. Numbered so that a job's uses are a
// short list.
#pragma once

#include <vector>

#include "weft/base/index.h"
#include "weft/reshard/schedule/slices.h"

namespace weft {

class Resources {
 public:
  explicit Resources(const Network& network);

  const Network& network() const { return network_; }
  int out(int nic) const { return nic; }
  int in(int nic) const { return num_nics_ + nic; }
  int up(int rack) const { return 2 * num_nics_ + rack; }
  int down(int rack) const { return 2 * num_nics_ + num_racks_ + rack; }
  int size() const { return int_size(rate_); }
  bool is_nic(int resource) const { return resource < 2 * num_nics_; }
  bool has_uplinks() const;                                        // that may be in the way
  double rate(int resource) const { return rate_[at(resource)]; }  // infinite: never in the way

  // What a chunk moves through each, each once; none for moves inside hosts.
  std::vector<Use> uses(const std::vector<Chunk>& chunks) const;
  double seconds(const std::vector<Use>& uses) const;  // of the slowest alone

 private:
  const Network& network_;
  int num_nics_, num_racks_;
  std::vector<double> rate_;
};

}  // namespace weft
