#include "weft/llm/engine/reduction.h"

#include <array>
#include <vector>

#include "weft/base/error.h"
#include "weft/base/index.h"
#include "weft/collective/build.h"
#include "weft/kernel/gemm/matmul.h"
#include "weft/kernel/rows/epilogue.h"
#include "weft/llm/engine/parallel_rows.h"
#include "weft/world/world.h"

namespace weft {
namespace {

Dtype dtype_of(BlockWire wire) {
  switch (wire) {
    case BlockWire::f32:
      return Dtype::f32;
    case BlockWire::bf16:
      return Dtype::bf16;
    case BlockWire::int8:
      return Dtype::int8;
  }
  return Dtype::f32;
}

Space space_of(World& world, const ReductionShape& shape, Route route) {
  SpaceOptions options = sync_options(shape.wire);
  options.route = route;
  return all_reduce(world.mesh({{"tp", world.size()}}), "tp", options);
}

Producer fused_producer(const ReductionShape& shape) {
  Producer p = gemv({.m = shape.rows, .n = shape.n, .k = shape.k, .weight = shape.weight});
  p.bias = shape.bias;
  p.residual = shape.residual;
  p.addend = shape.addend;
  return p;
}

Route best_route(World& world, ReductionShape shape, std::int64_t priced_k) {
  shape.k = priced_k;
  const Plan plan = build(fused_producer(shape), space_of(world, shape, Route::automatic), world.cluster(world.size()));
  return plan.route.value();
}

// Product into all_reduce, one op. Two copies take turns, so that one's output can be the other's residual.
class Fused final : public ReducedProduct {
 public:
  Fused(World& world, const ReductionShape& shape, const ReductionOptions& options)
      : first_(shape.first), ld_(shape.ldw) {
    const Space space = space_of(world, shape, best_route(world, shape, options.priced_k));
    for (int copy = 0; copy < 2; ++copy) ops_.push_back(world.compile(fused_producer(shape), space));
  }

  const float* run(const ReductionInputs& in, std::int64_t rows) override {
    Op& op = ops_[turn_ ^= 1];
    op.run({.x = in.x,
            .w = in.w,
            .w_first = first_,
            .w_ld = ld_,
            .addend = in.addend,
            .bias = in.bias,
            .residual = in.residual},
           {.rows = rows});
    return op.output().data;
  }

  std::int64_t bytes_sent() const override { return ops_[0].sent().bytes + ops_[1].sent().bytes; }

 private:
  std::vector<Op> ops_;
  std::int64_t first_, ld_;  // of weights in blocks
  std::size_t turn_ = 0;
};

// y = addend + x . w^T in this rank's memory.
class Product {
 public:
  Product(const ReductionShape& shape, ThreadPool& threads) : shape_(shape), threads_(threads) {}

  void run(const ReductionInputs& in, std::int64_t rows, float* y) const {
    matmul(threads_, rows, linear_of(shape_, in.w), in.x, shape_.k, y, shape_.n);
    if (shape_.addend) add_rows(threads_, rows, shape_.n, in.addend, y);
  }

 private:
  ReductionShape shape_;
  ThreadPool& threads_;
};

// The product, and nobody else's.
class Alone final : public ReducedProduct {
 public:
  Alone(const ReductionShape& shape, ThreadPool& threads) : shape_(shape), threads_(threads), product_(shape, threads) {
    for (auto& copy : y_) copy.resize(num(shape.rows * shape.n));
  }

  const float* run(const ReductionInputs& in, std::int64_t rows) override {
    float* y = y_[turn_ ^= 1].data();
    product_.run(in, rows, y);
    finish_rows(threads_, rows, shape_.n, in.bias, in.residual, y);
    return y;
  }

  std::int64_t bytes_sent() const override { return 0; }

 private:
  ReductionShape shape_;
  ThreadPool& threads_;
  Product product_;
  std::array<std::vector<float>, 2> y_;
  std::size_t turn_ = 0;
};

// The whole product first, then an all_reduce of it whose epilogue is the same as the fused one's.
class Sequential final : public ReducedProduct {
 public:
  Sequential(World& world, const ReductionShape& shape, const ReductionOptions& options)
      : product_(shape, *options.threads), made_(num(shape.rows * shape.n)) {
    Producer p = copy({.rows = shape.rows, .cols = shape.n});
    p.bias = shape.bias;
    p.residual = shape.residual;
    for (int i = 0; i < 2; ++i) ops_.push_back(world.compile(p, space_of(world, shape, Route::automatic)));
  }

  const float* run(const ReductionInputs& in, std::int64_t rows) override {
    product_.run(in, rows, made_.data());
    Op& op = ops_[turn_ ^= 1];
    op.run({.x = made_.data(), .bias = in.bias, .residual = in.residual}, {.rows = rows});
    return op.output().data;
  }

  std::int64_t bytes_sent() const override { return ops_[0].sent().bytes + ops_[1].sent().bytes; }

 private:
  Product product_;
  std::vector<float> made_;
  std::vector<Op> ops_;
  std::size_t turn_ = 0;
};

}  // namespace

Linear linear_of(const ReductionShape& shape, const void* w) {
  return {.n = shape.n,
          .k = shape.k,
          .w = w,
          .dtype = shape.weight,
          .ldw = shape.ldw,
          .activations = shape.activations,
          .first = shape.first,
          .huge_pages = shape.huge_pages};
}

SpaceOptions sync_options(BlockWire wire) {
  SpaceOptions options;
  options.wire = dtype_of(wire);
  if (wire == BlockWire::bf16) options.wire_sums = Dtype::bf16;
  return options;
}

void finish_rows(ThreadPool& threads, std::int64_t rows, std::int64_t n, const float* bias, const float* residual,
                 float* y) {
  parallel_rows(threads, rows, n, [&](std::int64_t begin, std::int64_t end) {
    const float* from = residual == nullptr ? nullptr : residual + begin * n;
    apply(end - begin, n, {.bias = bias, .residual = from, .residual_ld = n}, y + begin * n, n);
  });
}

void add_rows(ThreadPool& threads, std::int64_t rows, std::int64_t n, const float* addend, float* y) {
  finish_rows(threads, rows, n, nullptr, addend, y);
}

std::unique_ptr<ReducedProduct> make_reduction(World& world, const ReductionShape& shape,
                                               const ReductionOptions& options) {
  if (world.size() == 1 || options.style == Style::compute) return std::make_unique<Alone>(shape, *options.threads);
  if (options.style == Style::panels) return make_panel_reduction(world, shape, options);
  if (options.style == Style::sequential) return std::make_unique<Sequential>(world, shape, options);
  return std::make_unique<Fused>(world, shape, options);
}

}  // namespace weft
