#include "python/csrc/checks.h"

#include <string>

#include "weft/base/error.h"

namespace weft::torch_ops {

std::int64_t rows_of(const Tensor& x) {
  std::int64_t rows = 1;
  for (std::int64_t d = 0; d + 1 < x.dim(); ++d) rows *= x.size(d);
  return rows;
}

void check_rows(Call call, const Tensor& x, std::int64_t ranks) {
  const char* op = name_of(call);
  if (x.dim() < 2) bad_input("weft.{}: x has {} dimensions; give rows, (m, k)", op, x.dim());
  if (x.numel() == 0) bad_input("weft.{}: x is empty; give at least one row and one column", op);
  const bool splits = call == Call::linear_reduce_scatter || call == Call::reduce_scatter || call == Call::all_to_all;
  if (splits && x.size(0) % ranks != 0)
    bad_input("weft.{}: x has {} rows, which {} ranks cannot share; pad to {}", op, x.size(0), ranks,
              (x.size(0) + ranks - 1) / ranks * ranks);
}

void check_linear(Call call, const Tensor& x, const Tensor& w, const std::optional<Tensor>& bias) {
  const char* op = name_of(call);
  const Dtype type = type_of(x, "x", op);
  require_type(w, type, "w", op);
  if (w.dim() != 2) bad_input("weft.{}: w has {} dimensions; give (n, k), as torch.nn.Linear keeps it", op, w.dim());
  if (w.size(0) == 0) bad_input("weft.{}: w is empty; give at least one row", op);
  const std::int64_t k = x.size(x.dim() - 1);
  if (w.size(1) != k)
    bad_input("weft.{}: x has {} columns and w ({}, {}); w is (n, k), and k must be the same", op, k, w.size(0),
              w.size(1));
  if (!bias) return;
  require_type(*bias, type, "bias", op);
  if (bias->dim() != 1 || bias->size(0) != w.size(0))
    bad_input("weft.{}: bias has {} elements and w {} rows; give one number per row of w", op, bias->numel(),
              w.size(0));
}

Shape linear_shape(Call call, const Tensor& x, const Tensor& w, const std::optional<Tensor>& bias, std::int64_t ranks) {
  const Dtype type = type_of(x, "x", name_of(call));
  check_rows(call, x, ranks);
  check_linear(call, x, w, bias);
  return {.call = call, .m = rows_of(x), .n = w.size(0), .k = w.size(1), .bias = bias.has_value(), .type = type};
}

Shape finished_shape(Call call, const Tensor& x, const Tensor& w, const std::optional<Tensor>& bias,
                     const Finish& finish, std::int64_t ranks) {
  const char* op = name_of(call);
  if (!has_product(call) || call == Call::linear_all_to_all)
    bad_input("weft.{} takes no activation, residual or wire; apply them to what it gives", op);
  Shape shape = linear_shape(call, x, w, bias, ranks);
  shape.activation = parse_activation(finish.activation);
  shape.wire = parse_dtype(finish.wire);
  if (shape.wire != Dtype::f32 && call == Call::all_gather_linear)
    bad_input("weft.{} sends rows and no sums: wire is {}, use f32", op, finish.wire);
  shape.residual = finish.residual.has_value();
  if (!finish.residual) return shape;
  require_type(*finish.residual, shape.type, "residual", op);
  if (sizes_of(*finish.residual) != output_sizes(shape, x, ranks))
    bad_input(
        "weft.{}: residual has {} elements in {} dimensions; give it the shape of the result, {} rows of {} columns",
        op, finish.residual->numel(), finish.residual->dim(), rows_out(shape, ranks), shape.n);
  return shape;
}

Sizes output_sizes(const Shape& shape, const Tensor& x, std::int64_t ranks) {
  Sizes sizes = sizes_of(x);
  sizes.back() = shape.n;
  sizes.front() = rows_out(shape, ranks) / (shape.m / sizes.front());
  return sizes;
}

void check_exchanged(Call call, const Tensor& x) {
  type_of(x, "x", name_of(call));
  if (x.dim() != 2 || x.size(1) == 0)
    bad_input("weft.{}: x has {} dimensions; counts are of the rows of (m, k)", name_of(call), x.dim());
}

}  // namespace weft::torch_ops
