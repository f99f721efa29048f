// Random edits of the lists of a plan's rules: waits, pieces and signals alike.
#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "tests/mutants/bases.h"

namespace weft::mutants {

// A random element of a list of a random rule, among those that `fits`; null where there is none.
template <typename Item, typename Fits>
std::pair<Rule*, std::size_t> pick(Plan* plan, std::vector<Item> Rule::*list, Random& random, Fits&& fits) {
  std::vector<std::pair<Rule*, std::size_t>> found;
  for (Rule& rule : plan->rules)
    for (std::size_t i = 0; i < (rule.*list).size(); ++i)
      if (fits((rule.*list)[i])) found.emplace_back(&rule, i);
  if (found.empty()) return {nullptr, 0};
  return found[random() % found.size()];
}

template <typename Item>
std::pair<Rule*, std::size_t> pick(Plan* plan, std::vector<Item> Rule::*list, Random& random) {
  return pick(plan, list, random, [](const Item&) { return true; });
}

template <typename Item, typename Fits>
bool drop(Plan* plan, std::vector<Item> Rule::*list, Random& random, Fits&& fits) {
  const auto [rule, i] = pick(plan, list, random, fits);
  if (rule == nullptr) return false;
  (rule->*list).erase((rule->*list).begin() + static_cast<std::ptrdiff_t>(i));
  return true;
}

template <typename Item>
bool drop(Plan* plan, std::vector<Item> Rule::*list, Random& random) {
  return drop(plan, list, random, [](const Item&) { return true; });
}

template <typename Item>
bool duplicate(Plan* plan, std::vector<Item> Rule::*list, Random& random) {
  const auto [rule, i] = pick(plan, list, random);
  if (rule == nullptr) return false;
  const Item item = (rule->*list)[i];
  (rule->*list)
      .insert((rule->*list).begin() + static_cast<std::ptrdiff_t>(between(random, 0, (rule->*list).size())), item);
  return true;
}

// Swaps two elements of the lists of two actions, which may be one.
template <typename Item>
bool exchange(Plan* plan, std::vector<Item> Rule::*list, Random& random) {
  const auto [a, i] = pick(plan, list, random);
  const auto [b, k] = pick(plan, list, random);
  if (a == nullptr || (a == b && i == k)) return false;
  std::swap((a->*list)[i], (b->*list)[k]);
  return true;
}

}  // namespace weft::mutants
