// Random demands on bins, for tests of how they are divided.
#pragma once

#include <random>
#include <vector>

#include "weft/base/index.h"
#include "weft/reshard/bound/flow.h"

namespace weft {

struct Given {
  std::vector<Demand> demands;
  std::vector<double> rates;
};

inline Given random_demands(std::mt19937& random) {
  const auto pick = [&](int low, int high) { return std::uniform_int_distribution<int>(low, high)(random); };
  Given given;
  for (int b = pick(1, 6); b > 0; --b) given.rates.push_back(pick(1, 5));
  for (int d = pick(1, 9); d > 0; --d) {
    Demand demand{{}, static_cast<double>(pick(1, 1000))};
    for (int b = 0; b < int_size(given.rates); ++b)
      if (pick(0, 2) == 0) demand.bins.push_back(b);
    if (demand.bins.empty()) demand.bins.push_back(0);
    given.demands.push_back(demand);
  }
  return given;
}

}  // namespace weft
