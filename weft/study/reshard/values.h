// PlacedValues that say where they belong: element g of tensor t in round n is a hash of the three, exact in every
// dtype it passes through. So an element that is misplaced, stale or converted wrongly differs from what should be
// there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "weft/base/dtype.h"
#include "weft/mesh/box.h"
#include "weft/mesh/sharding.h"
#include "weft/reshard/reshard.h"

namespace weft {

// What the elements of a tensor are in one round. `range` is the narrowest dtype on the way: every value is exact in
// it.
struct PlacedValues {
  Shape shape;  // of the destination tensor: elements count row-major in it
  Dtype range = Dtype::f32;
  std::uint64_t seed = 0;
};
PlacedValues values_of(const Transfer& transfer, int index, std::uint64_t round);

// Writes the elements of `box`, in the tensor's coordinates, row-major into memory of that dtype.
void fill_values(const PlacedValues& values, const Box& box, Dtype dtype, void* memory);

struct WrongElement {
  std::vector<std::int64_t> element;  // in the tensor's coordinates
  std::string expected, found;
};
// The first element that is not what it should be; `wrong` counts them all.
std::optional<WrongElement> check_values(const PlacedValues& values, const Box& box, Dtype dtype, const void* memory,
                                         std::int64_t* wrong);

}  // namespace weft
