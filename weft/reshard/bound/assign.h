// From divided demands to items: which bins each item of a demand takes how much of. Items stay whole where they can,
// so that few boxes are cut.
#pragma once

#include <vector>

#include "weft/reshard/bound/flow.h"

namespace weft {

struct Item {
  int demand = 0;
  double size = 0;
};

struct Span {
  int bin = 0;
  double size = 0;
};

// By item; an item's spans add up to its size. The items of a demand together are its amount. What bins have to spare
// within division.time is used where that keeps an item whole.
std::vector<std::vector<Span>> assign(const std::vector<Item>& items, const std::vector<Demand>& demands,
                                      const Division& division, const std::vector<double>& rates);

}  // namespace weft
