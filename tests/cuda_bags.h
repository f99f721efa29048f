// Embedding bags on a GPU, for tests.
#pragma once

#include <vector>

#include "weft/exec/cuda/device.h"
#include "weft/exec/cuda/ranks/operands.h"
#include "weft/exec/cuda/small/bags_test.h"

namespace weft::testing_cuda {

// All ranks' tables and bags on the device.
struct BagsOnDevice {
  std::vector<DeviceMemory> memory;
  std::vector<std::vector<CudaTable>> tables;
  std::vector<BagOperands> operands;

  explicit BagsOnDevice(const std::vector<BagInputs>& from) {
    for (const BagInputs& in : from) {
      auto& of_rank = tables.emplace_back();
      for (std::size_t t = 0; t < in.tables.size(); ++t)
        of_rank.push_back({kept(in.tables[t]), kept(in.indices[t]), kept(in.offsets[t]),
                           std::ssize(in.tables[t]) / in.dim, std::ssize(in.indices[t])});
    }
    for (const auto& of_rank : tables) operands.push_back({of_rank});
  }

 private:
  template <typename T>
  const T* kept(const std::vector<T>& values) {
    memory.push_back(on_device(values));
    return reinterpret_cast<const T*>(memory.back().data());
  }
};

}  // namespace weft::testing_cuda
