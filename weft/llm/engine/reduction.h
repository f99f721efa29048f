// An output projection and the all_reduce behind it: y = [residual +] bias + sum over ranks of (addend + x . w^T), the
// same bits on every rank. The engine's blocks differ in their weights alone, so a few of these serve all of them. How
// product and all_reduce go together is the Style; one rank, and the style `compute`, send nothing.
#pragma once

#include <cstdint>
#include <memory>

#include "weft/base/dtype.h"
#include "weft/llm/engine/engine.h"
#include "weft/plan/space.h"

namespace weft {

class ThreadPool;
struct Linear;

struct ReductionShape {
  std::int64_t rows = 0;  // most rows of a run
  std::int64_t n = 0, k = 0;
  Dtype weight = Dtype::f32, activations = Dtype::f32;  // as in Linear
  std::int64_t first = 0, ldw = 0;                      // of weights in blocks, as in Linear
  bool huge_pages = false;                              // as in Linear
  BlockWire wire = BlockWire::f32;
  bool bias = false, addend = false, residual = true;
};

// What an all_reduce of that wire format asks for: bf16 sums come back as bf16 too.
SpaceOptions sync_options(BlockWire wire);

struct ReductionInputs {
  const float* x = nullptr;         // (rows, k)
  const void* w = nullptr;          // (n, k)
  const float* bias = nullptr;      // (n)
  const float* addend = nullptr;    // (rows, n), of this rank
  const float* residual = nullptr;  // (rows, n), the same on every rank; may be the output of the run before
};

class ReducedProduct {
 public:
  virtual ~ReducedProduct() = default;
  // Collective. The output, (rows, n), is readable until the next run but one.
  virtual const float* run(const ReductionInputs& inputs, std::int64_t rows) = 0;
  virtual std::int64_t bytes_sent() const = 0;  // to other ranks, over all runs
};

struct ReductionOptions {
  Style style = Style::fused;
  int panels = 4;
  ThreadPool* threads = nullptr;  // for what is made outside ops
  // An all_reduce of these sizes takes the route that is best after a product of this width: so that what a block sends
  // does not depend on which projection it is behind.
  std::int64_t priced_k = 0;
};

// Collective.
std::unique_ptr<ReducedProduct> make_reduction(World& world, const ReductionShape& shape,
                                               const ReductionOptions& options);
// The style `panels`, of rows. Of the library: make_reduction calls it.
std::unique_ptr<ReducedProduct> make_panel_reduction(World& world, const ReductionShape& shape,
                                                     const ReductionOptions& options);

Linear linear_of(const ReductionShape& shape, const void* w);  // the product alone

// y = sum + bias + residual, rows shared by the threads; bias and residual may be null, and y may be sum.
void finish_rows(ThreadPool& threads, std::int64_t rows, std::int64_t n, const float* bias, const float* residual,
                 float* y);
void add_rows(ThreadPool& threads, std::int64_t rows, std::int64_t n, const float* addend, float* y);

}  // namespace weft
