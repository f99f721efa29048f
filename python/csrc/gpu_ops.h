// Ops on tensors of a GPU: plans compiled for GPUs (weft/world/cuda), run in torch's current stream. Every rank is a
// process with a GPU of its own, or several share one through MPS. There is one way, fused; and nothing here waits for
// the GPU, so calls may be recorded in CUDA graphs once their shape has been compiled.
#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "weft/world/cuda/cuda_op.h"
#include "weft/world/world.h"

#include "python/csrc/product.h"
#include "python/csrc/torch_tensor.h"

namespace weft::torch_ops {

// What a group has compiled for its GPUs; the least recently used go. All ranks make the same calls, so they forget the
// same ones.
class GpuOps {
 public:
  // Collective where the shape is new.
  std::shared_ptr<CudaOp> op(World& world, const Shape& shape, int device);
  // The shape that bags with these numbers (bags.h) were agreed to have; null where they have not been.
  const Shape* bags(const Sizes& numbers) const;
  void add_bags(const Sizes& numbers, const Shape& shape) { bags_[numbers] = shape; }
  std::string describe() const;  // a line per op, the latest first

 private:
  struct Compiled {
    Shape shape;
    std::shared_ptr<CudaOp> op;
  };
  std::list<Compiled> ops_;  // the latest first
  std::map<Shape, std::list<Compiled>::iterator> by_shape_;
  std::map<Sizes, Shape> bags_;
};

}  // namespace weft::torch_ops
