// Adds up gradients over ranks that hold the same weights, while the backward pass goes on. Two reshard plans, posted
// and moved by the pump: each rank sends part d of its gradients to rank d; rank d adds the parts in the order of
// ranks; then every rank gets every sum. So all ranks end with the same bits, and nobody waits before finish().
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "weft/mesh/mesh.h"
#include "weft/pipeline/pump.h"
#include "weft/world/world.h"

namespace weft::pipeline {

class GradientSum {
 public:
  // Collective: every rank of the world makes one at the same time; in a group of itself it does nothing.
  GradientSum(World& world, const Group& group, std::int64_t count, Pump* pump);

  void start(float* gradients);  // (count); they are left alone until finish()
  void move_on();                // sends the sums on, if the parts have come; never waits
  void finish();                 // waits; the gradients are sums then

 private:
  void add_up();

  Group group_;
  std::int64_t count_;
  Pump* pump_;
  std::unique_ptr<Op> scatter_, gather_;
  std::vector<float> sums_;  // of this rank's part
  float* gradients_ = nullptr;
  bool added_ = false;
};

}  // namespace weft::pipeline
