// Operands of all ranks on a GPU, plans for them, and what their results should be.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "weft/exec/cuda/device.h"
#include "weft/exec/cuda/executor.h"
#include "weft/study/op_spec.h"
#include "weft/world/cuda/cuda_ways.h"

namespace weft {

inline constexpr double kDeviceTolerance = 0.01;  // of gemms: bf16 rounds to 2^-9, sums of it to a few times that

// Where element (row, col) of a rank's output is in device memory.
using Places = std::function<const std::byte*(int rank, std::int64_t row, std::int64_t col)>;

class DeviceInputs {
 public:
  explicit DeviceInputs(const OpSpec& spec);

  const std::vector<CudaOperands>& operands() const { return operands_; }
  const std::byte* x(int rank) const { return x_[num(rank)].data(); }

  // ||found - expected|| / ||expected|| of the op's result at random places, against float64; of compute alone where
  // `made` is true.
  double error_of(const Places& places, bool made) const;
  double leaf_at(int rank, std::int64_t row, std::int64_t col) const;  // of what a rank's producer makes, in float64

 private:
  OpSpec spec_;
  Plan plan_;
  std::vector<DeviceMemory> x_, w_;
  std::vector<CudaOperands> operands_;
};

Plan fused_plan(const OpSpec& spec, Route route);
Plan kept_plan(const OpSpec& spec, std::int64_t rows);  // the gemm alone, on every rank
OpSpec moved_spec(const OpSpec& spec);                  // the collective alone, as a GPU makes it
std::vector<CudaWay> device_ways(const OpSpec& spec);   // by the route that is asked for, or by all
Places places_of(const CudaExecutor& executor);

// Of one run after a warm one: the least of some.
double least_us(const std::function<void()>& run);

}  // namespace weft
