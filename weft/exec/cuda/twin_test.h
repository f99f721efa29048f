// What tests of the slow twin share: operands as it takes them, and what must hold after its runs.
#pragma once

#include <vector>

#include <gtest/gtest.h>

#include "weft/exec/cuda/host_lanes.h"
#include "weft/exec/cuda/plans_test.h"

namespace weft::testing_cuda {

struct Given {
  std::vector<Operands> operands;
  std::vector<HostOperands> pointers;

  Given(const CudaCase& c, std::uint64_t seed) {
    for (int r = 0; r < c.ranks; ++r) operands.push_back(operands_of(c, r, seed));
    for (const Operands& o : operands) pointers.push_back({o.x_data(), o.w.data(), o.bias.data(), o.residual.data()});
  }
};

inline void expect_same(const CudaCase& c, const HostLanes& twin, const std::vector<std::vector<float>>& expected) {
  for (int r = 0; r < c.ranks; ++r) {
    const std::vector<float> found = twin.output(r);
    ASSERT_EQ(found.size(), expected[at(r)].size()) << c.name;
    for (std::size_t i = 0; i < found.size(); ++i)
      ASSERT_EQ(found[i], expected[at(r)][i]) << c.name << " rank " << r << " element " << i;
  }
}

inline void expect_totals(const CudaCase& c, const Expander& expander, const DevicePlan& device, const HostLanes& twin,
                          std::uint32_t runs) {
  for (int r = 0; r < c.ranks; ++r)
    for (const std::uint32_t i : signalled(device, r))
      ASSERT_EQ(twin.counters(r)[i], runs * expander.counter_total(static_cast<int>(i), r)) << c.name;
}

}  // namespace weft::testing_cuda
