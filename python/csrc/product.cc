#include "python/csrc/product.h"

#include <array>
#include <cstring>
#include <utility>

#include "weft/base/error.h"
#include "weft/base/index.h"

#include "python/csrc/plans.h"

namespace weft::torch_ops {
namespace {

constexpr std::array kCalls{std::pair{Call::linear_all_reduce, "linear_all_reduce"},
                            std::pair{Call::linear_reduce_scatter, "linear_reduce_scatter"},
                            std::pair{Call::all_gather_linear, "all_gather_linear"},
                            std::pair{Call::all_reduce, "all_reduce"},
                            std::pair{Call::reduce_scatter, "reduce_scatter"},
                            std::pair{Call::all_gather, "all_gather"},
                            std::pair{Call::all_to_all, "all_to_all"}};

const float* floats(const Tensor& tensor) { return static_cast<const float*>(tensor.data_ptr()); }

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
  return call == Call::linear_all_reduce || call == Call::linear_reduce_scatter || call == Call::all_gather_linear;
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
  if (made_) bytes += num(made_->numel()) * sizeof(float);
  return bytes;
}

const float* Product::run(const Tensor& x, const Tensor* w, const Tensor* bias) {
  if (choice_.way == Way::fused || !has_product(shape_.call)) return run_fused(x, w, bias);
  if (shape_.call == Call::all_gather_linear) {
    auto* out = static_cast<float*>(made_->data_ptr());
    gather_then_multiply(out, x, *w, bias);
    return out;
  }
  const float* y = choice_.way == Way::window ? run_through_window(x, *w) : run_after(x, *w);
  // The rows are this rank's own memory until the next run, and nobody else reads them.
  if (bias != nullptr) add_bias(const_cast<float*>(y), rows_out(shape_, ranks_), *bias);
  return y;
}

void Product::run_into(float* out, const Tensor& x, const Tensor* w, const Tensor* bias) {
  if (shape_.call == Call::all_gather_linear && choice_.way == Way::after) {
    gather_then_multiply(out, x, *w, bias);
    return;
  }
  const float* y = run(x, w, bias);
  std::memcpy(out, y, num(rows_out(shape_, ranks_) * shape_.n) * sizeof(float));
}

const float* Product::run_fused(const Tensor& x, const Tensor* w, const Tensor* bias) {
  Inputs inputs;
  inputs.x = floats(x);
  if (w != nullptr) inputs.w = w->data_ptr();
  if (bias != nullptr) inputs.bias = floats(*bias);
  op_->run(inputs);
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

// This rank's own rows are multiplied while the others' are under way.
void Product::gather_then_multiply(float* out, const Tensor& x, const Tensor& w, const Tensor* bias) {
  const std::int64_t m = shape_.m, n = shape_.n, k = shape_.k;
  op_->run(floats(x));
  product_into(matrix_at(out + rank_ * m * n, m, n), x, w);
  const float* rows = op_->output().data;
  const auto multiply = [&](std::int64_t from, std::int64_t to) {
    if (to > from) product_into(matrix_at(out + from * n, to - from, n), matrix_at(rows + from * k, to - from, k), w);
  };
  multiply(0, rank_ * m);
  multiply((rank_ + 1) * m, ranks_ * m);
  if (bias != nullptr) add_bias(out, ranks_ * m, *bias);
}

}  // namespace weft::torch_ops
