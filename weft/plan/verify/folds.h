// Values as symbols: left folds of contributions (leaf, rank), with epilogues applied. Hash-consed, so that equal
// values have equal numbers however long they are.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "weft/plan/verify/model.h"

namespace weft::verifying {

// Whose epilogue, and where it found its residual: so many rows and columns beside the logical place; 0 without one.
struct Finish {
  std::int32_t producer = 0;
  std::int64_t rows = 0, cols = 0;
  friend auto operator<=>(const Finish&, const Finish&) = default;
};

class Folds {
 public:
  explicit Folds(const Model& model) : m_(model) {}

  std::int32_t leaf(std::int32_t leaf, std::int32_t rank);  // as plan.h counts leaves
  std::int32_t add(std::int32_t a, std::int32_t b) { return intern(a, b); }
  std::int32_t finished(std::int32_t a, const Finish& how) { return intern(a, -1 - number_of(how)); }

  // The rank of which a value is an input, as it is; none where it is anything else.
  std::optional<std::int32_t> input_of(std::int32_t node) const;
  // Is `got` the value that is owed, or, where any order will do, a sum of the same contributions?
  bool same(std::int32_t got, std::int32_t want);
  // "(rank 1 + rank 2) + rank 0", long sums shortened.
  std::string show(std::int32_t node, int depth = 0) const;

 private:
  struct Node {
    std::int32_t left, right;  // fold: left + right; leaf: left = -1, right = leaf * ranks + rank; finish: right < 0
    // The first fold that this one was found to grow into: nearly always the only one, so few folds need the map.
    std::int32_t grown_by = kNothing, grown = 0;

    static constexpr std::int32_t kNothing = INT32_MIN;
    bool is_finish() const { return left != -1 && right < 0; }
  };
  using Contributions = std::map<std::int32_t, std::int64_t>;

  std::int32_t make_node(std::int32_t left, std::int32_t right);
  std::int32_t intern(std::int32_t left, std::int32_t right);
  std::int32_t number_of(const Finish& how);
  bool same_contributions(std::int32_t got, std::int32_t want);
  Contributions contributions(std::int32_t node, std::int64_t most);

  const Model& m_;
  std::vector<Node> nodes_;
  FlatMap<std::uint64_t> node_of_, same_;
  FlatMap<std::uint32_t> leaf_of_;
  std::map<Finish, std::int32_t> finishes_;
  Finish last_;
  std::int32_t last_number_ = -1;
};

}  // namespace weft::verifying
