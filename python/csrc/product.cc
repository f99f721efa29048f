#include "python/csrc/product.h"

#include <array>
#include <cstring>
#include <utility>

#include "weft/base/error.h"
#include "weft/base/index.h"
#include "weft/kernel/rows/epilogue.h"

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

Inputs inputs_of(const float* x, const Operands& operands) {
  Inputs inputs;
  inputs.x = x;
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

Product::Product(World& world, const Shape& shape, const Choice& choice)
    : shape_(shape), choice_(choice), rank_(world.rank()), ranks_(world.size()) {
  const Plans plans = plans_of(shape, choice.way, world);
  op_.emplace(world.compile(plans.first));
  if (plans.second) gather_.emplace(world.compile(*plans.second));
  if (choice.way == Way::window) window_.emplace(world.window(*op_));
  if (choice.way == Way::after && has_product(shape.call))
    made_.emplace(new_tensor({rows_made(shape, ranks_), shape.n}));
}

std::size_t Product::bytes() const {
  std::size_t bytes = op_->bytes() + (gather_ ? gather_->bytes() : 0);
  for (const auto* own : {&made_, &spread_})
    if (*own) bytes += num((*own)->numel()) * sizeof(float);
  return bytes;
}

const float* Product::run(const Tensor& x, const Operands& operands) {
  if (choice_.way == Way::fused || !has_product(shape_.call)) return run_fused(x, operands);
  if (shape_.call == Call::all_gather_linear) {
    auto* out = static_cast<float*>(made_->data_ptr());
    gather_then_multiply(out, x, operands);
    return out;
  }
  const float* y = choice_.way == Way::window ? run_through_window(x, *operands.w) : run_after(x, *operands.w);
  // The rows are this rank's own memory until the next run, and nobody else reads them.
  finish(const_cast<float*>(y), rows_out(shape_, ranks_), operands);
  return y;
}

// What a fused product does by itself.
void Product::finish(float* rows, std::int64_t num_rows, const Operands& operands) const {
  Epilogue epilogue;
  if (operands.bias) epilogue.bias = floats(*operands.bias);
  if (operands.residual) epilogue.residual = floats(*operands.residual), epilogue.residual_ld = shape_.n;
  epilogue.activation = shape_.activation;
  if (epilogue.bias != nullptr || epilogue.residual != nullptr || epilogue.activation != Activation::none)
    apply(num_rows, shape_.n, epilogue, rows, shape_.n);
}

void Product::run_into(float* out, const Tensor& x, const Operands& operands) {
  if (shape_.call == Call::all_gather_linear && choice_.way == Way::after) {
    gather_then_multiply(out, x, operands);
    return;
  }
  const float* y = run(x, operands);
  std::memcpy(out, y, num(rows_out(shape_, ranks_) * shape_.n) * sizeof(float));
}

const float* Product::run_fused(const Tensor& x, const Operands& operands) {
  op_->run(inputs_of(floats(x), operands));
  return op_->output().data;
}

const float* Product::run_through_window(const Tensor& x, const Tensor& w) {
  product_into(matrix_at(window_->open(), shape_.m, shape_.n), x, w);
  const Matrix sums = window_->close();
  if (!gather_) return sums.data;
  gather_->run(sums.data);
  return gather_->output().data;
}

const float* Product::run_after(const Tensor& x, const Tensor& w) {
  product_into(*made_, x, w);
  op_->run(floats(*made_));
  return op_->output().data;
}

const float* Product::exchange(const Tensor& x, const Operands& operands, std::span<const std::int64_t> send) {
  Counts counts;
  counts.peers = send;
  if (!has_product(shape_.call) || choice_.way == Way::fused) {
    op_->run(inputs_of(spread(x, send), operands), counts);
  } else if (choice_.way == Way::window) {
    multiply_parts(window_->open(), x, operands, send);  // straight into the rows' owners
    return window_->close().data;
  } else {
    multiply_parts(static_cast<float*>(made_->data_ptr()), x, operands, send);
    op_->run(inputs_of(floats(*made_), {}), counts);
  }
  return op_->output().data;
}

// Rows for rank d are made at d * m / ranks.
void Product::multiply_parts(float* out, const Tensor& x, const Operands& operands,
                             std::span<const std::int64_t> send) {
  const std::int64_t room = shape_.m / ranks_, n = shape_.n, k = shape_.k;
  const float* rows = floats(x);
  for (const std::int64_t count : send) {
    if (count > 0) product_into(matrix_at(out, count, n), matrix_at(rows, count, k), *operands.w);
    finish(out, count, operands);
    out += room * n, rows += count * k;
  }
}

// As they are where they fill all of the room, which may be read to its end.
const float* Product::spread(const Tensor& x, std::span<const std::int64_t> send) {
  if (x.size(0) == shape_.m) return floats(x);
  const std::int64_t room = shape_.m / ranks_, cols = x.size(1);
  if (!spread_) {
    spread_.emplace(new_tensor({shape_.m, cols}));
    std::memset(spread_->data_ptr(), 0, num(shape_.m * cols) * sizeof(float));
  }
  const float* from = floats(x);
  auto* to = static_cast<float*>(spread_->data_ptr());
  for (const std::int64_t count : send) {
    if (count > 0) std::memcpy(to, from, num(count * cols) * sizeof(float));
    to += room * cols, from += count * cols;
  }
  return floats(*spread_);
}

const float* Product::pool(const Inputs& bags) {
  op_->run(bags);
  return op_->output().data;
}

// This rank's own rows are multiplied while the others' are under way.
void Product::gather_then_multiply(float* out, const Tensor& x, const Operands& operands) {
  const Tensor& w = *operands.w;
  const std::int64_t m = shape_.m, n = shape_.n, k = shape_.k;
  op_->run(floats(x));
  product_into(matrix_at(out + rank_ * m * n, m, n), x, w);
  const float* rows = op_->output().data;
  const auto multiply = [&](std::int64_t from, std::int64_t to) {
    if (to > from) product_into(matrix_at(out + from * n, to - from, n), matrix_at(rows + from * k, to - from, k), w);
  };
  multiply(0, rank_ * m);
  multiply((rank_ + 1) * m, ranks_ * m);
  finish(out, ranks_ * m, operands);
}

}  // namespace weft::torch_ops
