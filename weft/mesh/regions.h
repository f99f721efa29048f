// Index algebra on sets of boxes: what is left of one without another, whether a set covers a box, where
// it does not, whether a set is disjoint, and an index for "which of these many overlap this one".
//
// The sets met here are cut out of tensors: grids, or strips along one dimension, often thousands and at
// times millions of boxes. On those everything below is near n log n; on tangled sets it is slower, never
// wrong. Boxes without elements cover nothing and overlap nothing.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "weft/base/index.h"
#include "weft/mesh/box.h"

namespace weft {

// a without b as disjoint boxes, at most two a dimension.
std::vector<Box> subtract(const Box& a, const Box& b);

// A non-empty part of `box` that no box of the set touches, if there is one; the lowest along the
// dimension the search sweeps.
std::optional<Box> first_gap(std::span<const Box> boxes, const Box& box);
bool covers(std::span<const Box> boxes, const Box& box);

// Two positions, first < second, whose boxes overlap, if there are any.
std::optional<std::pair<int, int>> first_overlap(std::span<const Box> boxes);
bool disjoint(std::span<const Box> boxes);

// Finds boxes among many by a packed tree of bounds: the boxes sorted along their dimensions, the one with
// the most distinct lower ends first, and over every 8 neighbours their common bound, and so on up.
// A grid of n tiles answers in about log n, where one sorted dimension alone would look at a whole row.
// Immutable once built: any number of threads may ask.
class BoxIndex {
 public:
  BoxIndex() = default;
  // Payloads are the caller's numbers for the boxes; left out, their positions. All boxes must have the
  // same number of dimensions. Throws bad_input otherwise.
  explicit BoxIndex(std::span<const Box> boxes, std::span<const int> payloads = {});

  // Appends the payload of every box that overlaps `query`, in the index's own order. Does not allocate
  // unless `found` must grow. Where the boxes are disjoint a query equal to one of them is a hash lookup.
  void overlapping(const Box& query, std::vector<int>& found) const;

  int size() const { return int_size(boxes_); }  // boxes that have elements
  bool is_disjoint() const { return disjoint_; }

 private:
  void build_bounds();
  void build_slots();
  int first_equal(const Box& query) const;  // position in boxes_, or -1
  void descend(std::size_t level, std::size_t node, const Box& query, std::vector<int>& found) const;

  std::vector<Box> boxes_;                // sorted
  std::vector<int> payloads_;             // of boxes_
  std::vector<std::vector<Box>> bounds_;  // bounds_[0] over boxes_, bounds_[l] over bounds_[l - 1]
  std::vector<std::int32_t> slots_;       // open addressing: first position of each distinct box, or -1
  bool disjoint_ = true;
};

}  // namespace weft
