// Embedding bags on a GPU, for tests.
#pragma once

#include <vector>

#include "weft/exec/cuda/device.h"
#include "weft/exec/cuda/ranks/operands.h"
#include "weft/exec/cuda/small/bags_test.h"

namespace weft::testing_cuda {

// All ranks' tables and bags on the device, and arrays of pointers to them.
struct BagsOnDevice {
  std::vector<DeviceMemory> memory;
  std::vector<BagOperands> operands;

  explicit BagsOnDevice(const std::vector<BagInputs>& from) {
    for (const BagInputs& in : from)
      operands.push_back({kept<float>(in.tables), kept<std::int64_t>(in.indices), kept<std::int64_t>(in.offsets)});
  }

 private:
  template <typename T>
  const T* const* kept(const std::vector<std::vector<T>>& arrays) {
    std::vector<const std::byte*> places;
    for (const auto& one : arrays) {
      memory.push_back(on_device(one));
      places.push_back(memory.back().data());
    }
    memory.push_back(on_device(places));
    return reinterpret_cast<const T* const*>(memory.back().data());
  }
};

}  // namespace weft::testing_cuda
