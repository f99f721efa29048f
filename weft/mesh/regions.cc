#include "weft/mesh/regions.h"

#include <algorithm>
#include <array>
#include <bit>

#include "weft/base/error.h"
#include "weft/base/index.h"

namespace weft {
namespace {

constexpr std::size_t kFanout = 8;

std::uint64_t hash_of(const Box& box) {
  std::uint64_t hash = 0x9e3779b97f4a7c15u;
  const auto mix = [&hash](std::int64_t value) {
    hash = (hash ^ static_cast<std::uint64_t>(value)) * 0xff51afd7ed558ccdu;
    hash ^= hash >> 32;
  };
  for (int d = 0; d < box.dims; ++d) mix(box.lo[d]), mix(box.hi[d]);
  return hash;
}

std::int64_t count_distinct_lo(std::span<const Box> boxes, std::span<const int> members, int dim,
                               std::vector<std::int64_t>& scratch) {
  scratch.clear();
  for (const int i : members) scratch.push_back(boxes[at(i)].lo[dim]);
  std::sort(scratch.begin(), scratch.end());
  return std::unique(scratch.begin(), scratch.end()) - scratch.begin();
}

// Among the dimensions not in the bit set `done`; -1 if there is none.
int dim_with_most_distinct_lo(std::span<const Box> boxes, std::span<const int> members, int dims, unsigned done = 0) {
  std::vector<std::int64_t> scratch;
  int best = -1;
  std::int64_t best_count = -1;
  for (int d = 0; d < dims; ++d) {
    if (done >> d & 1u) continue;
    const std::int64_t count = count_distinct_lo(boxes, members, d, scratch);
    if (count > best_count) best = d, best_count = count;
  }
  return best;
}

// ---- first_gap: slabs between consecutive ends along one dimension, each a problem of one dimension less.

class GapSearch {
 public:
  explicit GapSearch(std::span<const Box> boxes) : boxes_(boxes) {}

  // All `overlapping` do overlap `box`, and span it in the dimensions of the bit set `done`.
  std::optional<Box> search(const Box& box, std::span<const int> overlapping, unsigned done) const {
    if (overlapping.empty()) return box;
    for (const int i : overlapping)
      if (contains(at(i), box)) return std::nullopt;
    // A dimension is left: a member that spans them all would contain the box.
    const int dim = dim_with_most_distinct_lo(boxes_, overlapping, box.dims, done);
    std::vector<int> members(overlapping.begin(), overlapping.end());
    const auto lo = [&](int i) { return std::max(at(i).lo[dim], box.lo[dim]); };
    const auto hi = [&](int i) { return std::min(at(i).hi[dim], box.hi[dim]); };
    std::sort(members.begin(), members.end(), [&](int i, int j) { return lo(i) < lo(j); });

    std::vector<std::int64_t> ends{box.lo[dim], box.hi[dim]};
    for (const int i : members) ends.insert(ends.end(), {lo(i), hi(i)});
    std::sort(ends.begin(), ends.end());
    ends.erase(std::unique(ends.begin(), ends.end()), ends.end());

    std::vector<int> active;
    std::size_t next = 0;
    for (std::size_t e = 0; e + 1 < ends.size(); ++e) {
      std::erase_if(active, [&](int i) { return hi(i) <= ends[e]; });
      while (next < members.size() && lo(members[next]) <= ends[e]) active.push_back(members[next++]);
      Box slab = box;
      slab.lo[dim] = ends[e];
      slab.hi[dim] = ends[e + 1];
      if (auto gap = search(slab, active, done | 1u << dim)) return gap;
    }
    return std::nullopt;
  }

 private:
  const Box& at(int i) const { return boxes_[weft::at(i)]; }

  std::span<const Box> boxes_;
};

// ---- first_overlap: cut the set apart wherever a plane passes between boxes; sweep what stays together.

class OverlapSearch {
 public:
  OverlapSearch(std::span<const Box> boxes, int dims) : boxes_(boxes), dims_(dims) {}

  // A box set that planes cannot cut further is swept. The depth is bounded because a spiral could
  // otherwise be peeled one box a level.
  std::optional<std::pair<int, int>> search(std::span<int> members, int depth) {
    if (members.size() < 2) return std::nullopt;
    if (members.size() <= 8 || dims_ == 0 || depth > 2 * dims_) return sweep(members, 0);
    const int dim = dim_with_most_distinct_lo(boxes_, members, dims_);
    sort_along(members, dim);
    const std::size_t parts = for_each_part(members, dim, [](std::span<int>) { return true; });
    if (parts == 1) return search_other_dims(members, dim, depth);
    return search_parts(members, dim, depth);
  }

 private:
  const Box& at(int i) const { return boxes_[weft::at(i)]; }

  void sort_along(std::span<int> members, int dim) const {
    std::sort(members.begin(), members.end(), [&](int i, int j) { return at(i).lo[dim] < at(j).lo[dim]; });
  }

  // Calls visit(part) for the runs of sorted members between which a plane across `dim` passes, until it
  // returns false. Returns how many were visited.
  template <typename Visit>
  std::size_t for_each_part(std::span<int> members, int dim, Visit visit) const {
    std::size_t begin = 0, parts = 0;
    std::int64_t reach = at(members[0]).hi[dim];
    for (std::size_t i = 1; i <= members.size(); ++i) {
      if (i < members.size() && at(members[i]).lo[dim] < reach) {
        reach = std::max(reach, at(members[i]).hi[dim]);
        continue;
      }
      ++parts;
      if (!visit(members.subspan(begin, i - begin))) break;
      begin = i;
      if (i < members.size()) reach = at(members[i]).hi[dim];
    }
    return parts;
  }

  std::optional<std::pair<int, int>> search_parts(std::span<int> members, int dim, int depth) {
    std::optional<std::pair<int, int>> found;
    for_each_part(members, dim, [&](std::span<int> part) { return !(found = search(part, depth + 1)); });
    return found;
  }

  // No plane across `best` passes: try the others, then sweep along `best`.
  std::optional<std::pair<int, int>> search_other_dims(std::span<int> members, int best, int depth) {
    for (int dim = 0; dim < dims_; ++dim) {
      if (dim == best) continue;
      sort_along(members, dim);
      if (for_each_part(members, dim, [](std::span<int>) { return true; }) > 1)
        return search_parts(members, dim, depth);
    }
    return sweep(members, best);
  }

  std::optional<std::pair<int, int>> sweep(std::span<int> members, int dim) {
    if (dims_ == 0) return std::pair{std::min(members[0], members[1]), std::max(members[0], members[1])};
    sort_along(members, dim);
    active_.clear();
    for (const int i : members) {
      std::erase_if(active_, [&](int j) { return at(j).hi[dim] <= at(i).lo[dim]; });
      for (const int j : active_)
        if (overlaps(at(i), at(j))) return std::pair{std::min(i, j), std::max(i, j)};
      active_.push_back(i);
    }
    return std::nullopt;
  }

  std::span<const Box> boxes_;
  int dims_;
  std::vector<int> active_;
};

}  // namespace

std::vector<Box> subtract(const Box& a, const Box& b) {
  if (a.empty()) return {};
  if (!overlaps(a, b)) return {a};
  std::vector<Box> pieces;
  Box rest = a;
  for (int d = 0; d < a.dims; ++d) {
    if (rest.lo[d] < b.lo[d]) {
      pieces.push_back(rest);
      pieces.back().hi[d] = b.lo[d];
      rest.lo[d] = b.lo[d];
    }
    if (rest.hi[d] > b.hi[d]) {
      pieces.push_back(rest);
      pieces.back().lo[d] = b.hi[d];
      rest.hi[d] = b.hi[d];
    }
  }
  return pieces;
}

std::optional<Box> first_gap(std::span<const Box> boxes, const Box& box) {
  if (box.empty()) return std::nullopt;
  std::vector<int> members;
  for (int i = 0; i < int_size(boxes); ++i)
    if (overlaps(boxes[at(i)], box)) members.push_back(i);
  return GapSearch(boxes).search(box, members, 0);
}

bool covers(std::span<const Box> boxes, const Box& box) { return !first_gap(boxes, box); }

std::optional<std::pair<int, int>> first_overlap(std::span<const Box> boxes) {
  // Boxes of different dimensions never overlap: search each number of dimensions by itself.
  for (int dims = 0; dims <= kMaxDims; ++dims) {
    std::vector<int> members;
    for (int i = 0; i < int_size(boxes); ++i)
      if (boxes[at(i)].dims == dims && !boxes[at(i)].empty()) members.push_back(i);
    if (auto found = OverlapSearch(boxes, dims).search(members, 0)) return found;
  }
  return std::nullopt;
}

bool disjoint(std::span<const Box> boxes) { return !first_overlap(boxes); }

// ---- BoxIndex

BoxIndex::BoxIndex(std::span<const Box> boxes, std::span<const int> payloads) {
  if (!payloads.empty() && payloads.size() != boxes.size())
    bad_input("{} payloads for {} boxes; give one for each, or none", payloads.size(), boxes.size());
  std::vector<int> order;
  for (std::size_t i = 0; i < boxes.size(); ++i) {
    if (boxes[i].dims != boxes[0].dims)
      bad_input("box {} has {} dimensions, but box 0 has {}; index them apart", i, boxes[i].dims, boxes[0].dims);
    if (!boxes[i].empty()) order.push_back(static_cast<int>(i));
  }
  if (order.empty()) return;

  std::array<int, kMaxDims> dims_in_turn{};
  unsigned done = 0;
  for (int t = 0; t < boxes[0].dims; ++t) {
    dims_in_turn[t] = dim_with_most_distinct_lo(boxes, order, boxes[0].dims, done);
    done |= 1u << dims_in_turn[t];
  }
  const auto comes_before = [&](int i, int j) {
    const Box& a = boxes[at(i)];
    const Box& b = boxes[at(j)];
    for (int t = 0; t < a.dims; ++t)
      if (const int d = dims_in_turn[t]; a.lo[d] != b.lo[d]) return a.lo[d] < b.lo[d];
    for (int d = 0; d < a.dims; ++d)
      if (a.hi[d] != b.hi[d]) return a.hi[d] < b.hi[d];
    return i < j;
  };
  std::sort(order.begin(), order.end(), comes_before);
  boxes_.reserve(order.size());
  payloads_.reserve(order.size());
  for (const int i : order) {
    boxes_.push_back(boxes[at(i)]);
    payloads_.push_back(payloads.empty() ? i : payloads[at(i)]);
  }
  build_bounds();
  build_slots();
  disjoint_ = disjoint(boxes_);
}

void BoxIndex::build_bounds() {
  const std::vector<Box>* below = &boxes_;
  bounds_.reserve(16);  // 8^16 boxes: `below` stays valid
  do {
    std::vector<Box> level;
    for (std::size_t i = 0; i < below->size(); ++i) {
      if (i % kFanout == 0) {
        level.push_back((*below)[i]);
        continue;
      }
      Box& bound = level.back();
      for (int d = 0; d < bound.dims; ++d) {
        bound.lo[d] = std::min(bound.lo[d], (*below)[i].lo[d]);
        bound.hi[d] = std::max(bound.hi[d], (*below)[i].hi[d]);
      }
    }
    bounds_.push_back(std::move(level));
    below = &bounds_.back();
  } while (below->size() > kFanout);
}

void BoxIndex::build_slots() {
  slots_.assign(std::bit_ceil(boxes_.size() * 2), -1);
  for (std::size_t i = 0; i < boxes_.size(); ++i) {
    if (i > 0 && boxes_[i] == boxes_[i - 1]) continue;
    std::size_t slot = hash_of(boxes_[i]) & (slots_.size() - 1);
    while (slots_[slot] >= 0) slot = (slot + 1) & (slots_.size() - 1);
    slots_[slot] = static_cast<std::int32_t>(i);
  }
}

int BoxIndex::first_equal(const Box& query) const {
  if (slots_.empty()) return -1;
  std::size_t slot = hash_of(query) & (slots_.size() - 1);
  for (; slots_[slot] >= 0; slot = (slot + 1) & (slots_.size() - 1))
    if (boxes_[at(slots_[slot])] == query) return slots_[slot];
  return -1;
}

void BoxIndex::overlapping(const Box& query, std::vector<int>& found) const {
  if (boxes_.empty() || query.dims != boxes_[0].dims) return;
  if (const int only = disjoint_ ? first_equal(query) : -1; only >= 0) {
    found.push_back(payloads_[at(only)]);
    return;
  }
  const std::size_t top = bounds_.size() - 1;
  for (std::size_t node = 0; node < bounds_[top].size(); ++node) descend(top, node, query, found);
}

void BoxIndex::descend(std::size_t level, std::size_t node, const Box& query, std::vector<int>& found) const {
  if (!overlaps(bounds_[level][node], query)) return;
  const std::size_t begin = node * kFanout;
  if (level > 0) {
    const std::size_t end = std::min(begin + kFanout, bounds_[level - 1].size());
    for (std::size_t child = begin; child < end; ++child) descend(level - 1, child, query, found);
    return;
  }
  const std::size_t end = std::min(begin + kFanout, boxes_.size());
  for (std::size_t i = begin; i < end; ++i)
    if (overlaps(boxes_[i], query)) found.push_back(payloads_[i]);
}

}  // namespace weft
