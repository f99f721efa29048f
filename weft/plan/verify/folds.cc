#include "weft/plan/verify/folds.h"

#include <functional>

#include <fmt/core.h>

namespace weft::verifying {
namespace {

constexpr std::int64_t kMaxContributions = 65536;  // one per rank
constexpr std::int64_t kMapBytes = 64;             // of an entry, with the room that maps leave

}  // namespace

std::int32_t Folds::make_node(std::int32_t left, std::int32_t right) {
  m_.hold(2 * std::int64_t{sizeof(Node)});  // a list that grows is there twice for a while
  nodes_.push_back({left, right});
  return int_size(nodes_) - 1;
}

std::int32_t Folds::intern(std::int32_t left, std::int32_t right) {
  if (nodes_[left].grown_by == right) return nodes_[left].grown;
  if (nodes_[left].grown_by == Node::kNothing) {
    const std::int32_t made = make_node(left, right);
    nodes_[left].grown_by = right;
    return nodes_[left].grown = made;
  }
  std::int32_t& at = node_of_.at(static_cast<std::uint64_t>(left) << 32 | static_cast<std::uint32_t>(right));
  if (at != -1) return at;
  m_.hold(kMapBytes);
  return at = make_node(left, right);
}

std::int32_t Folds::leaf(std::int32_t leaf, std::int32_t rank) {
  // Producers count 0, 1, ...; input buffers -1, -2, ...: fold both into one line.
  const std::int32_t source = leaf >= 0 ? 2 * leaf : -2 * leaf - 1;
  const std::int32_t id = source * m_.plan->num_ranks + rank;
  std::int32_t& known = leaf_of_.at(static_cast<std::uint32_t>(id));
  return known == -1 ? known = make_node(-1, id) : known;
}

std::int32_t Folds::number_of(const Finish& how) {
  if (last_number_ == -1 || how != last_) {
    last_ = how;
    m_.hold(finishes_.contains(how) ? 0 : kMapBytes + std::int64_t{sizeof(Finish)});
    last_number_ = finishes_.try_emplace(how, int_size(finishes_)).first->second;
  }
  return last_number_;
}

std::optional<std::int32_t> Folds::input_of(std::int32_t node) const {
  const Node& n = nodes_[node];
  const int ranks = m_.plan->num_ranks;
  if (n.left != -1 || n.right / ranks % 2 == 0) return {};
  return n.right % ranks;
}

bool Folds::same(std::int32_t got, std::int32_t want) {
  if (got == want) return true;
  if (m_.plan->sum != Sum::any) return false;
  std::int32_t& known = same_.at(static_cast<std::uint64_t>(got) << 32 | static_cast<std::uint32_t>(want));
  if (known == -1) known = same_contributions(got, want);
  return known == 1;
}

// Contribution by contribution: a plan's author could make any sum of hashes collide.
bool Folds::same_contributions(std::int32_t got, std::int32_t want) {
  if (nodes_[want].is_finish()) {
    if (!nodes_[got].is_finish() || nodes_[got].right != nodes_[want].right) return false;
    got = nodes_[got].left, want = nodes_[want].left;
  }
  const Contributions wanted = contributions(want, kMaxContributions);
  std::int64_t most = 0;
  for (const auto& [leaf, times] : wanted) most += times;
  return contributions(got, most) == wanted;
}

// How often each leaf is in a fold. Empty where there are more than `most`, or an epilogue has been applied within.
Folds::Contributions Folds::contributions(std::int32_t node, std::int64_t most) {
  Contributions leaves;
  std::map<std::int32_t, std::int64_t, std::greater<>> left{{node, 1}};  // a fold has a higher number than its parts
  std::int64_t total = 0;
  while (!left.empty()) {
    m_.spend(16);
    const auto [at, times] = *left.begin();
    left.erase(left.begin());
    if (times > most || nodes_[at].is_finish()) return {};
    if (nodes_[at].left == -1) {
      leaves[at] += times;
      if ((total += times) > most) return {};
      continue;
    }
    left[nodes_[at].left] += times;
    left[nodes_[at].right] += times;
  }
  return leaves;
}

std::string Folds::show(std::int32_t node, int depth) const {
  const Node& n = nodes_[node];
  if (n.left == -1) return fmt::format("rank {}", n.right % m_.plan->num_ranks);
  if (n.is_finish()) return fmt::format("epilogue({})", show(n.left, depth + 1));
  const std::string left = depth > 8 ? "..." : show(n.left, depth + 1);
  const bool bracket = nodes_[n.right].left != -1;
  const std::string right = bracket && depth > 8 ? "..." : show(n.right, depth + 1);
  return bracket ? fmt::format("{} + ({})", left, right) : fmt::format("{} + {}", left, right);
}

}  // namespace weft::verifying
