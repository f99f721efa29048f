#include "python/csrc/product.h"

#include <array>
#include <cstddef>
#include <cstring>
#include <utility>
#include <vector>

#include "weft/base/error.h"
#include "weft/base/index.h"
#include "weft/kernel/rows/epilogue.h"
#include "weft/kernel/rows/sum.h"

#include "python/csrc/plans.h"

namespace weft::torch_ops {
namespace {

constexpr std::array kCalls{std::pair{Call::linear_all_reduce, "linear_all_reduce"},
                            std::pair{Call::linear_reduce_scatter, "linear_reduce_scatter"},
                            std::pair{Call::all_gather_linear, "all_gather_linear"},
                            std::pair{Call::linear_all_to_all, "linear_all_to_all"},
                            std::pair{Call::embedding_bag_all_to_all, "embedding_bag_all_to_all"},
                            std::pair{Call::all_reduce, "all_reduce"},
                            std::pair{Call::reduce_scatter, "reduce_scatter"},
                            std::pair{Call::all_gather, "all_gather"},
                            std::pair{Call::all_to_all, "all_to_all"}};

const float* floats(const Tensor& tensor) { return static_cast<const float*>(tensor.data_ptr()); }

Inputs inputs_of(const void* x, Dtype type, const Operands& operands) {
  Inputs inputs;
  if (type == Dtype::bf16)
    inputs.narrow_x = static_cast<const bf16*>(x);
  else
    inputs.x = static_cast<const float*>(x);
  if (operands.w) inputs.w = operands.w->data_ptr();
  if (operands.bias) inputs.bias = floats(*operands.bias);
  if (operands.residual) inputs.residual = floats(*operands.residual);
  return inputs;
}

}  // namespace

const char* name_of(Call call) {
  for (const auto& [known, name] : kCalls)
    if (known == call) return name;
  return "";
}

const char* name_of(Way way) { return way == Way::fused ? "fused" : way == Way::window ? "window" : "after"; }

Call parse_call(const std::string& name) {
  for (const auto& [call, known] : kCalls)
    if (name == known) return call;
  bad_input("weft has no op \"{}\"; explain one of those that weft.ops lists", name);
}

bool has_product(Call call) {
  return call == Call::linear_all_reduce || call == Call::linear_reduce_scatter || call == Call::all_gather_linear ||
         call == Call::linear_all_to_all;
}

std::int64_t rows_out(const Shape& shape, std::int64_t ranks) {
  switch (shape.call) {
    case Call::linear_reduce_scatter:
    case Call::reduce_scatter:
      return shape.m / ranks;
    case Call::all_gather_linear:
    case Call::all_gather:
      return shape.m * ranks;
    default:
      return shape.m;
  }
}

// Few rows in bf16 meet weights in bf16 best as f32 rows: the plan's x and y are f32 then.
bool has_wide_rows(const Shape& shape, Way way) {
  return shape.type == Dtype::bf16 && way == Way::fused && has_product(shape.call) &&
         shape.call != Call::linear_all_to_all && shape.m <= kFewRows;
}

Product::Product(World& world, const Shape& shape, const Choice& choice)
    : shape_(shape), choice_(choice), rank_(world.rank()), ranks_(world.size()) {
  op_.emplace(world.compile(plan_of(shape, choice.way, world)));
  if (choice.way == Way::window) window_.emplace(world.window(*op_));
  if (choice.way == Way::after && has_product(shape.call))
    made_.emplace(new_tensor({rows_made(shape, ranks_), shape.n}, shape.type));
}

std::size_t Product::row_bytes(std::int64_t rows, std::int64_t cols) const {
  return num(weft::row_bytes(shape_.type, rows * cols));
}

std::size_t Product::bytes() const {
  std::size_t bytes = op_->bytes();
  for (const auto* own : {&made_, &spread_, &narrow_})
    if (*own) bytes += row_bytes(1, (*own)->numel());
  return bytes;
}

void Product::run_into(void* out, const Tensor& x, const Operands& operands) {
  const void* y = make(x, operands, out);
  if (y != out) std::memcpy(out, y, row_bytes(rows_out(shape_, ranks_), shape_.n));
}

const void* Product::make(const Tensor& x, const Operands& operands, void* out) {
  if (choice_.way == Way::fused || !has_product(shape_.call)) return run_fused(x, operands, out);
  if (shape_.call == Call::all_gather_linear) {
    void* rows = out != nullptr ? out : made_->data_ptr();
    gather_then_multiply(rows, x, operands);
    return rows;
  }
  const void* y = choice_.way == Way::window ? run_through_window(x, *operands.w, out) : run_after(x, *operands.w, out);
  // The rows are this rank's own memory until the next run, and nobody else reads them.
  finish(const_cast<void*>(y), rows_out(shape_, ranks_), operands);
  return y;
}

// What a fused product does by itself.
void Product::finish(void* rows, std::int64_t num_rows, const Operands& operands) const {
  const std::int64_t n = shape_.n;
  Epilogue epilogue;
  if (operands.bias) epilogue.bias = floats(*operands.bias);
  if (operands.residual) epilogue.residual = floats(*operands.residual), epilogue.residual_ld = n;
  epilogue.activation = shape_.activation;
  if (epilogue.bias == nullptr && epilogue.residual == nullptr && epilogue.activation == Activation::none) return;
  if (shape_.type == Dtype::f32) return apply(num_rows, n, epilogue, static_cast<float*>(rows), n);
  std::vector<float> wide(num(n));
  for (std::int64_t row = 0; row < num_rows; ++row) {
    bf16* const narrow = static_cast<bf16*>(rows) + row * n;
    copy(1, n, {narrow, n, Dtype::bf16}, {wide.data(), n, Dtype::f32});
    apply(1, n, epilogue, wide.data(), n);
    copy(1, n, {wide.data(), n, Dtype::f32}, {narrow, n, Dtype::bf16});
    if (epilogue.residual != nullptr) epilogue.residual += n;
  }
}

// Into `out` where that can be.
const void* Product::run_op(const Inputs& inputs, void* out) {
  if (out != nullptr && op_->own_output("y"))
    op_->run(inputs, std::span<void* const>(&out, 1));
  else
    op_->run(inputs);
  return op_->view("y").data;
}

const void* Product::run_fused(const Tensor& x, const Operands& operands, void* out) {
  if (!has_wide_rows(shape_, choice_.way)) return run_op(inputs_of(x.data_ptr(), shape_.type, operands), out);
  const Tensor wide = widened(x);
  const void* y = run_op(inputs_of(wide.data_ptr(), Dtype::f32, operands), nullptr);
  const std::int64_t count = rows_out(shape_, ranks_) * shape_.n;
  if (out == nullptr) {
    if (!narrow_) narrow_.emplace(new_tensor({rows_out(shape_, ranks_), shape_.n}, Dtype::bf16));
    out = narrow_->data_ptr();
  }
  copy(1, count, {y, count, Dtype::f32}, {out, count, Dtype::bf16});
  return out;
}

void* Product::open_window() {
  return shape_.type == Dtype::bf16 ? static_cast<void*>(window_->open_narrow()) : window_->open();
}

const void* Product::run_through_window(const Tensor& x, const Tensor& w, void* out) {
  product_into(view_of(open_window(), {shape_.m, shape_.n}, {window_->ld(), 1}, shape_.type), x, w);
  return run_op({}, out);
}

const void* Product::run_after(const Tensor& x, const Tensor& w, void* out) {
  product_into(*made_, x, w);
  return run_op(inputs_of(made_->data_ptr(), shape_.type, {}), out);
}

const void* Product::exchange(const Tensor& x, const Operands& operands, std::span<const std::int64_t> send) {
  Counts counts;
  counts.peers = send;
  if (!has_product(shape_.call) || choice_.way == Way::fused) {
    op_->run(inputs_of(spread(x, send), shape_.type, operands), counts);
  } else if (choice_.way == Way::window) {
    multiply_parts(open_window(), x, operands, send);  // straight into the rows' owners
    op_->run();
  } else {
    multiply_parts(made_->data_ptr(), x, operands, send);
    op_->run(inputs_of(made_->data_ptr(), shape_.type, {}), counts);
  }
  return op_->view("y").data;
}

// Rows for rank d are made at d * m / ranks.
void Product::multiply_parts(void* out, const Tensor& x, const Operands& operands, std::span<const std::int64_t> send) {
  const std::int64_t room = shape_.m / ranks_, n = shape_.n, k = shape_.k;
  auto* to = static_cast<std::byte*>(out);
  const auto* rows = static_cast<const std::byte*>(x.data_ptr());
  for (const std::int64_t count : send) {
    if (count > 0)
      product_into(matrix_at(to, count, n, shape_.type), matrix_at(rows, count, k, shape_.type), *operands.w);
    finish(to, count, operands);
    to += row_bytes(room, n), rows += row_bytes(count, k);
  }
}

// As they are where they fill all of the room, which may be read to its end.
const void* Product::spread(const Tensor& x, std::span<const std::int64_t> send) {
  if (x.size(0) == shape_.m) return x.data_ptr();
  const std::int64_t room = shape_.m / ranks_, cols = x.size(1);
  if (!spread_) {
    spread_.emplace(new_tensor({shape_.m, cols}, shape_.type));
    std::memset(spread_->data_ptr(), 0, row_bytes(shape_.m, cols));
  }
  const auto* from = static_cast<const std::byte*>(x.data_ptr());
  auto* to = static_cast<std::byte*>(spread_->data_ptr());
  for (const std::int64_t count : send) {
    if (count > 0) std::memcpy(to, from, row_bytes(count, cols));
    to += row_bytes(room, cols), from += row_bytes(count, cols);
  }
  return spread_->data_ptr();
}

const float* Product::pool(const Inputs& bags) {
  op_->run(bags);
  return op_->output().data;
}

// This rank's own rows are multiplied while the others' are under way.
void Product::gather_then_multiply(void* out, const Tensor& x, const Operands& operands) {
  const Tensor& w = *operands.w;
  const std::int64_t m = shape_.m, n = shape_.n, k = shape_.k;
  auto* const to = static_cast<std::byte*>(out);
  op_->run(inputs_of(x.data_ptr(), shape_.type, {}));
  product_into(matrix_at(to + row_bytes(rank_ * m, n), m, n, shape_.type), x, w);
  const auto* rows = static_cast<const std::byte*>(gathered());
  const auto multiply = [&](std::int64_t first, std::int64_t end) {
    if (end > first)
      product_into(matrix_at(to + row_bytes(first, n), end - first, n, shape_.type),
                   matrix_at(rows + row_bytes(first, k), end - first, k, shape_.type), w);
  };
  multiply(0, rank_ * m);
  multiply((rank_ + 1) * m, ranks_ * m);
  finish(out, ranks_ * m, operands);
}

}  // namespace weft::torch_ops
