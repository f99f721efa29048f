// The library's face to torch: every entry is an op of the namespace `weft`, registered through torch's stable ABI, so
// that one binary serves every Python and every torch from 2.11 on. Fake kernels and gradients are in python/weft.
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "weft/base/error.h"
#include "weft/base/index.h"

#include "python/csrc/bags.h"
#include "python/csrc/checks.h"
#include "python/csrc/exchange.h"
#include "python/csrc/own_plan.h"
#include "python/csrc/plans.h"
#include "python/csrc/product.h"
#include "python/csrc/torch_tensor.h"
#include "python/csrc/worlds.h"

namespace weft::torch_ops {
namespace {

// Python's ends of a directory: `publish` returns 0 where it could, `look_up` the length of the text or -1.
using Publish = int (*)(const char* key, const char* text);
using LookUp = std::int64_t (*)(std::int64_t rank, const char* key, char* text, std::int64_t room);
constexpr std::int64_t kLongestText = 4096;

WorldOptions with_threads(std::int64_t threads) {
  WorldOptions options;
  options.threads = static_cast<int>(threads);
  return options;
}

void init(std::int64_t threads) {
  const auto lock = enter();
  add_group("", World::init(0, nullptr, with_threads(threads)));
}

void join(std::string group, std::int64_t rank, std::int64_t size, std::int64_t publish, std::int64_t look_up,
          std::int64_t threads) {
  const auto lock = enter();
  Directory directory{static_cast<int>(rank), static_cast<int>(size)};
  directory.publish = [&](const std::string& key, const std::string& text) {
    if (reinterpret_cast<Publish>(publish)(key.c_str(), text.c_str()) != 0)
      fail(Code::io, "rank {} could not put \"{}\" into the launcher's store", rank, key);
  };
  directory.look_up = [&](int of, const std::string& key) {
    std::string text(kLongestText, '\0');
    const std::int64_t length = reinterpret_cast<LookUp>(look_up)(of, key.c_str(), text.data(), kLongestText);
    if (length < 0)
      throw Error(Code::deadline,
                  fmt::format("rank {} has not come to weft.init() of group \"{}\": the launcher's store has no \"{}\"",
                              of, group, key),
                  of);
    text.resize(static_cast<std::size_t>(length));
    return text;
  };
  add_group(group, World::join(directory, with_threads(threads)));
}

void leave() {
  const auto lock = enter();
  leave_all();
}

std::int64_t rank_of(std::string group) {
  const auto lock = enter();
  return group_of(group).rank();
}

std::int64_t size_of_group(std::string group) {
  const auto lock = enter();
  return group_of(group).size();
}

std::string explain(std::string op, std::int64_t m, std::int64_t n, std::int64_t k, bool bias, std::string type,
                    std::string group) {
  const auto lock = enter();
  Group& joined = group_of(group);
  const Call call = parse_call(op);
  if (call == Call::embedding_bag_all_to_all)
    bad_input("weft.explain prices products and collectives; {} has one way, fused", op);
  const Shape shape{.call = call, .m = m, .n = n, .k = k, .bias = bias, .type = parse_dtype(type)};
  if (shape.type != Dtype::f32 && shape.type != Dtype::bf16)
    bad_input("weft.{} takes float32 and bfloat16, not {}", op, type);
  return choose_way(shape, joined.world(), joined.rates(shape.type)).why;
}

std::string report(std::string group) {
  const auto lock = enter();
  return group_of(group).describe();
}

std::int64_t memory_bytes(std::string group) {
  const auto lock = enter();
  return static_cast<std::int64_t>(group_of(group).bytes());
}

// The op's own memory as a tensor, which keeps it.
Tensor alias_of(std::shared_ptr<Product> product, const void* y, const Sizes& sizes) {
  const torch::stable::Device cpu(torch::headeronly::DeviceType::CPU);
  const bool narrow = product->shape().type == Dtype::bf16;
  return torch::stable::from_blob(
      const_cast<void*>(y), sizes, row_major(sizes), cpu,
      narrow ? torch::headeronly::ScalarType::BFloat16 : torch::headeronly::ScalarType::Float,
      [product = std::move(product)](void*) mutable {
        const auto lock = enter();
        product.reset();
      });
}

// Of a fused product w lies as (n, k), row by row; torch's own takes it as it lies.
Tensor run(const Shape& shape, const Tensor& x, Operands operands, const std::string& group, bool alias) {
  Group& joined = group_of(group);
  const auto product = joined.product(shape);
  const Tensor rows = dense(x);
  const Tensor matrix = matrix_at(rows.data_ptr(), shape.m, x.size(x.dim() - 1), shape.type);
  if (operands.w && product->choice().way == Way::fused) operands.w = dense(*operands.w);
  for (auto* read : {&operands.bias, &operands.residual})
    if (*read) *read = widened(**read);
  const Sizes sizes = output_sizes(shape, x, joined.size());
  if (alias) return alias_of(product, product->run(matrix, operands), sizes);
  Tensor out = new_tensor(sizes, shape.type);
  product->run_into(out.data_ptr(), matrix, operands);
  return out;
}

template <Call call>
Tensor linear(Tensor x, Tensor w, std::optional<Tensor> bias, std::string group, bool alias) {
  const auto lock = enter();
  const Shape shape = linear_shape(call, x, w, bias, group_of(group).size());
  return run(shape, x, {w, bias, {}}, group, alias);
}

// What only some calls ask for: how sums travel, and what is done with them at the end.
Tensor linear_finished(std::string op, Tensor x, Tensor w, std::optional<Tensor> bias, std::optional<Tensor> residual,
                       std::string activation, std::string wire, std::string group, bool alias) {
  const auto lock = enter();
  const Shape shape = finished_shape(parse_call(op), x, w, bias, {residual, activation, wire}, group_of(group).size());
  return run(shape, x, {w, bias, residual}, group, alias);
}

// all_gather_linear, and the rows that it gathered, for whoever reads them too.
std::tuple<Tensor, Tensor> all_gather_linear_rows(Tensor x, Tensor w, std::optional<Tensor> bias, std::string group) {
  const auto lock = enter();
  Group& joined = group_of(group);
  const Shape shape = linear_shape(Call::all_gather_linear, x, w, bias, joined.size());
  const Tensor y = run(shape, x, {w, bias, {}}, group, false);
  Sizes sizes = sizes_of(x);
  sizes.front() *= joined.size();
  const Tensor rows = new_tensor(sizes, shape.type);
  std::memcpy(rows.data_ptr(), joined.product(shape)->gathered(), num(row_bytes(shape.type, rows.numel())));
  return {y, rows};
}

template <Call call>
Tensor alone(Tensor x, std::string group, bool alias) {
  const auto lock = enter();
  const std::int64_t ranks = group_of(group).size();
  const Dtype type = type_of(x, "x", name_of(call));
  check_rows(call, x, ranks);
  return run({.call = call, .m = rows_of(x), .n = x.size(x.dim() - 1), .type = type}, x, {}, group, alias);
}

Tensor linear_all_to_all(Tensor x, Tensor w, std::optional<Tensor> bias, Sizes send, Sizes receive, std::string group,
                         std::int64_t capacity) {
  const auto lock = enter();
  Group& joined = group_of(group);
  check_exchanged(Call::linear_all_to_all, x);
  check_linear(Call::linear_all_to_all, x, w, bias);
  if (bias) bias = widened(*bias);
  return exchange(joined, x, {Call::linear_all_to_all, {w, bias, {}}, std::move(send), std::move(receive), capacity});
}

Tensor all_to_all_counts(Tensor x, Sizes send, Sizes receive, std::string group, std::int64_t capacity) {
  const auto lock = enter();
  Group& joined = group_of(group);
  check_exchanged(Call::all_to_all, x);
  return exchange(joined, x, {Call::all_to_all, {}, std::move(send), std::move(receive), capacity});
}

BagsCall bags_call(std::vector<Tensor> indices, std::vector<Tensor> offsets, const std::string& mode, Sizes tables_of) {
  for (auto* list : {&indices, &offsets})
    for (Tensor& tensor : *list) tensor = dense(tensor);
  return {std::move(indices), std::move(offsets), parse_pooling(mode), std::move(tables_of)};
}

// `sparse` is for the gradient, which is Python's.
Tensor embedding_bag_all_to_all(std::vector<Tensor> tables, std::vector<Tensor> indices, std::vector<Tensor> offsets,
                                std::string mode, Sizes tables_of, std::string group, bool /*sparse*/) {
  const auto lock = enter();
  return pool(group_of(group), tables, bags_call(std::move(indices), std::move(offsets), mode, std::move(tables_of)));
}

std::vector<Tensor> embedding_bag_all_to_all_backward(Tensor grad, std::vector<Tensor> indices,
                                                      std::vector<Tensor> offsets, Sizes rows, std::string mode,
                                                      Sizes tables_of, std::string group, bool sparse) {
  const auto lock = enter();
  return pool_backward(group_of(group), grad, rows,
                       bags_call(std::move(indices), std::move(offsets), mode, std::move(tables_of)),
                       sparse ? TableGradient::sparse : TableGradient::dense);
}

Tensor run_own_plan(std::string plan, Tensor x, std::optional<Tensor> w, std::string group) {
  const auto lock = enter();
  return run_plan(group_of(group), plan, x, w);
}

}  // namespace
}  // namespace weft::torch_ops

STABLE_TORCH_LIBRARY(weft, m) {
  m.def("init(int threads) -> ()");
  m.def("join(str group, int rank, int size, int publish, int look_up, int threads) -> ()");
  m.def("leave() -> ()");
  m.def("rank(str group) -> int");
  m.def("size(str group) -> int");
  m.def("explain(str op, int m, int n, int k, bool bias, str type, str group) -> str");
  m.def("report(str group) -> str");
  m.def("memory_bytes(str group) -> int");
  m.def("linear_all_reduce(Tensor x, Tensor w, Tensor? bias, str group, bool alias=False) -> Tensor");
  m.def("linear_reduce_scatter(Tensor x, Tensor w, Tensor? bias, str group, bool alias=False) -> Tensor");
  m.def("all_gather_linear(Tensor x, Tensor w, Tensor? bias, str group, bool alias=False) -> Tensor");
  m.def("all_gather_linear_rows(Tensor x, Tensor w, Tensor? bias, str group) -> (Tensor, Tensor)");
  m.def(
      "linear_finished(str op, Tensor x, Tensor w, Tensor? bias, Tensor? residual, str activation, str wire, str "
      "group, "
      "bool alias=False) -> Tensor");
  m.def("all_reduce(Tensor x, str group, bool alias=False) -> Tensor");
  m.def("reduce_scatter(Tensor x, str group, bool alias=False) -> Tensor");
  m.def("all_gather(Tensor x, str group, bool alias=False) -> Tensor");
  m.def("all_to_all(Tensor x, str group, bool alias=False) -> Tensor");
  m.def("run_plan(str plan, Tensor x, Tensor? w, str group) -> Tensor");
  m.def(
      "linear_all_to_all(Tensor x, Tensor w, Tensor? bias, int[] send, int[] receive, str group, int capacity=0) -> "
      "Tensor");
  m.def("all_to_all_counts(Tensor x, int[] send, int[] receive, str group, int capacity=0) -> Tensor");
  m.def(
      "embedding_bag_all_to_all(Tensor[] tables, Tensor[] indices, Tensor[] offsets, str mode, int[] tables_of, "
      "str group, bool sparse) -> Tensor");
  m.def(
      "embedding_bag_all_to_all_backward(Tensor grad, Tensor[] indices, Tensor[] offsets, int[] rows, str mode, "
      "int[] tables_of, str group, bool sparse) -> Tensor[]");
}

STABLE_TORCH_LIBRARY_IMPL(weft, CompositeExplicitAutograd, m) {
  using namespace weft::torch_ops;
  m.impl("init", TORCH_BOX(&init));
  m.impl("join", TORCH_BOX(&join));
  m.impl("leave", TORCH_BOX(&leave));
  m.impl("rank", TORCH_BOX(&rank_of));
  m.impl("size", TORCH_BOX(&size_of_group));
  m.impl("explain", TORCH_BOX(&explain));
  m.impl("report", TORCH_BOX(&report));
  m.impl("memory_bytes", TORCH_BOX(&memory_bytes));
}

STABLE_TORCH_LIBRARY_IMPL(weft, CPU, m) {
  using namespace weft::torch_ops;
  m.impl("linear_all_reduce", TORCH_BOX(&linear<Call::linear_all_reduce>));
  m.impl("linear_reduce_scatter", TORCH_BOX(&linear<Call::linear_reduce_scatter>));
  m.impl("all_gather_linear", TORCH_BOX(&linear<Call::all_gather_linear>));
  m.impl("linear_finished", TORCH_BOX(&linear_finished));
  m.impl("all_gather_linear_rows", TORCH_BOX(&all_gather_linear_rows));
  m.impl("all_reduce", TORCH_BOX(&alone<Call::all_reduce>));
  m.impl("reduce_scatter", TORCH_BOX(&alone<Call::reduce_scatter>));
  m.impl("all_gather", TORCH_BOX(&alone<Call::all_gather>));
  m.impl("all_to_all", TORCH_BOX(&alone<Call::all_to_all>));
  m.impl("run_plan", TORCH_BOX(&run_own_plan));
  m.impl("linear_all_to_all", TORCH_BOX(&linear_all_to_all));
  m.impl("all_to_all_counts", TORCH_BOX(&all_to_all_counts));
  m.impl("embedding_bag_all_to_all", TORCH_BOX(&embedding_bag_all_to_all));
  m.impl("embedding_bag_all_to_all_backward", TORCH_BOX(&embedding_bag_all_to_all_backward));
}
