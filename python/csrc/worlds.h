// The worlds that this process has joined, one per process group, and what each has compiled. All calls hold one lock:
// torch runs ops without the GIL, and a world belongs to one thread at a time.
//
// The least recently used products go when there are too many. All ranks of a group make the same calls in the same
// order, so they forget the same ones, and a world of any number of shapes has bounded memory.
#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "weft/transport/join/directory.h"
#include "weft/world/world.h"

#include "python/csrc/product.h"

namespace weft::torch_ops {

class GpuOps;

class Group {
 public:
  // Collective: measures torch's product and ours, and agrees on the mean.
  explicit Group(World world);
  ~Group();

  int rank() const { return world_.rank(); }
  int size() const { return world_.size(); }
  World& world() { return world_; }
  const Rates& rates(Dtype type) const { return type == Dtype::bf16 ? narrow_rates_ : rates_; }

  // Collective where the shape is new.
  std::shared_ptr<Product> product(const Shape& shape);
  // The op of a plan's text; collective where the text is new. The latest 16 are kept.
  std::shared_ptr<Op> own_plan(const std::string& text);
  std::size_t num_products() const { return products_.size(); }
  GpuOps& gpu() const { return *gpu_; }  // what is compiled for GPUs (gpu_ops.h)
  std::size_t bytes() const;
  std::uint64_t compiled() const { return compiled_; }
  std::string describe() const;  // a line per product, the latest first

 private:
  World world_;
  Rates rates_, narrow_rates_;                    // of f32 and of bf16
  std::list<std::shared_ptr<Product>> products_;  // the latest first
  std::map<Shape, std::list<std::shared_ptr<Product>>::iterator> by_shape_;
  std::list<std::pair<std::string, std::shared_ptr<Op>>> own_plans_;  // the latest first
  std::unique_ptr<GpuOps> gpu_;                                       // goes before the world
  std::uint64_t compiled_ = 0;
};

// Held by every op. Throws bad_input in a process that was forked from one that had joined.
std::unique_lock<std::recursive_mutex> enter();

// Those of this process. bad_input where there is none of that name, or one already.
Group& group_of(const std::string& name);
void add_group(const std::string& name, World world);
void leave_all();

}  // namespace weft::torch_ops
