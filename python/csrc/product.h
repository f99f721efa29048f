// One product and its collective, compiled for a shape: which way it takes, and the ops and the window that way needs.
//
//   fused    our own product; tiles leave as they are made
//   window   torch's product writes through a window into its owners' memory
//   after    torch's product, then the collective
//
// The choice is by price (price.h), which is the same on all ranks, since they agreed on the rates.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "weft/base/choices.h"
#include "weft/world/world.h"

#include "python/csrc/torch_tensor.h"

namespace weft::torch_ops {

enum class Call {
  linear_all_reduce,
  linear_reduce_scatter,
  all_gather_linear,
  linear_all_to_all,
  embedding_bag_all_to_all,
  all_reduce,
  reduce_scatter,
  all_gather,
  all_to_all
};
enum class Way { fused, window, after };

const char* name_of(Call call);
const char* name_of(Way way);
Call parse_call(const std::string& name);
bool has_product(Call call);

// Tables of an embedding_bag: rows are room enough for every rank's largest.
struct Tables {
  std::int64_t dim = 0, rows = 0;
  Pooling pooling = Pooling::sum;
  std::vector<std::int64_t> of;  // each rank

  friend auto operator<=>(const Tables&, const Tables&) = default;
};

struct Shape {
  Call call = Call::all_reduce;
  // Of one rank: x (m, k), w (n, k); without a product x (m, n), and k is 0; of bags m samples, and n and k are 0.
  std::int64_t m = 0, n = 0, k = 0;
  bool bias = false, residual = false;
  Activation activation = Activation::none;
  Dtype wire = Dtype::f32;  // of sums between ranks
  Dtype type = Dtype::f32;  // of x, w and what the op gives: f32 or bf16; of bags f32
  Tables tables = {};

  friend auto operator<=>(const Shape&, const Shape&) = default;
};

// Whether the plan of a fused product in bf16 has x and y in f32, which are converted before and behind it.
bool has_wide_rows(const Shape& shape, Way way);

// Rows of what a rank gets.
std::int64_t rows_out(const Shape& shape, std::int64_t ranks);

// What all ranks measured when they joined, averaged: multiply-adds count two. Of one type.
struct Rates {
  double torch_flops = 0, weft_flops = 0;
};

struct Choice {
  Way way = Way::after;
  std::string why;
};

// What a product reads beside x, as its shape says: activation(x times w, summed, + bias) + residual. w has the shape's
// type, bias and residual are dense and f32.
struct Operands {
  std::optional<Tensor> w, bias, residual;
};

class Product {
 public:
  // Collective over the world.
  Product(World& world, const Shape& shape, const Choice& choice);

  // What is owed to this rank, (rows_out, n), in the op's memory until the next run.
  const void* run(const Tensor& x, const Operands& operands) { return make(x, operands, nullptr); }
  // The same, into memory of the caller's: made there, where no other rank writes it, else copied.
  void run_into(void* out, const Tensor& x, const Operands& operands);

  // An exchange that moves fewer rows than it has room for: x has those for rank 0, then those for rank 1 and so on, as
  // many as `send` says. Those from rank s begin at row s * m / ranks of what it returns.
  const void* exchange(const Tensor& x, const Operands& operands, std::span<const std::int64_t> send);
  // Bags for the whole batch: all ranks' tables for this rank's samples.
  const float* pool(const Inputs& bags);

  // Of all_gather_linear, after a run and until the next: the rows of all ranks, (ranks * m, k).
  const void* gathered() { return op_->view("y").data; }

  const Shape& shape() const { return shape_; }
  const Choice& choice() const { return choice_; }
  std::size_t bytes() const;

 private:
  // Where the result is: at `out`, if that can be, or in the op's memory. Null asks for the latter.
  const void* make(const Tensor& x, const Operands& operands, void* out);
  const void* run_fused(const Tensor& x, const Operands& operands, void* out);
  void* open_window();
  const void* run_through_window(const Tensor& x, const Tensor& w, void* out);
  const void* run_after(const Tensor& x, const Tensor& w, void* out);
  const void* run_op(const Inputs& inputs, void* out);
  void multiply_parts(void* out, const Tensor& x, const Operands& operands, std::span<const std::int64_t> send);
  const void* spread(const Tensor& x, std::span<const std::int64_t> send);
  void gather_then_multiply(void* out, const Tensor& x, const Operands& operands);
  void finish(void* rows, std::int64_t num_rows, const Operands& operands) const;
  std::size_t row_bytes(std::int64_t rows, std::int64_t cols) const;

  Shape shape_;
  Choice choice_;
  int rank_, ranks_;
  std::optional<Op> op_;
  std::optional<Window> window_;
  std::optional<Tensor> made_;    // rows that torch made, before or behind the collective
  std::optional<Tensor> spread_;  // rows to exchange, those for rank d from d * m / ranks on
  std::optional<Tensor> narrow_;  // what a plan made in f32, in bf16
};

}  // namespace weft::torch_ops
