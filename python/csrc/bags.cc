#include "python/csrc/bags.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <numeric>
#include <optional>
#include <utility>

#include "weft/base/error.h"
#include "weft/base/index.h"

#include "python/csrc/exchange.h"

namespace weft::torch_ops {
namespace {

constexpr const char* kOp = "embedding_bag_all_to_all";

std::int64_t tables_before(const Sizes& tables_of, int rank) {
  return std::accumulate(tables_of.begin(), tables_of.begin() + rank, std::int64_t{0});
}

void check_table(const std::vector<Tensor>& tables, std::size_t t) {
  require_f32(tables[t], "a table", kOp);
  if (tables[t].dim() != 2 || tables[t].numel() == 0)
    bad_input("weft.{}: table {} has {} dimensions and {} elements; give (rows, dim)", kOp, t, tables[t].dim(),
              tables[t].numel());
  if (tables[t].size(1) != tables[0].size(1))
    bad_input("weft.{}: table {} has {} columns and table 0 {}; tables of one call have the same", kOp, t,
              tables[t].size(1), tables[0].size(1));
}

const std::int64_t* whole_numbers(const Tensor& tensor) { return static_cast<const std::int64_t*>(tensor.data_ptr()); }

void check_list(const Tensor& list, const char* name, std::size_t t, bool on_gpu) {
  if (list.scalar_type() != torch::headeronly::ScalarType::Long || list.is_cpu() == on_gpu || list.dim() != 1)
    bad_input("weft.{}: {} of table {} are not one row of int64 on the {}; convert them with .long()", kOp, name, t,
              on_gpu ? "GPU of the tables" : "CPU");
}

// `rows` of each table.
void check_lists(const BagsCall& call, const Sizes& rows) {
  const std::size_t tables = rows.size(), lists = call.offsets.size();
  if (call.indices.size() != lists || (lists != tables && lists != 1))
    bad_input("weft.{}: {} tables, but indices for {} and offsets for {}; give one of each per table, or one for all",
              kOp, tables, call.indices.size(), lists);
  for (std::size_t t = 0; t < lists; ++t) {
    check_list(call.indices[t], "indices", t, call.on_gpu), check_list(call.offsets[t], "offsets", t, call.on_gpu);
    if (call.offsets[t].numel() < 2 || call.offsets[t].numel() != call.offsets[0].numel())
      bad_input("weft.{}: table {} has {} offsets and table 0 {}; give batch + 1 for every table", kOp, t,
                call.offsets[t].numel(), call.offsets[0].numel());
  }
  if (lists != tables && (call.offsets[0].numel() - 1) % static_cast<std::int64_t>(tables) != 0)
    bad_input("weft.{}: {} offsets for all of {} tables; give tables * batch + 1", kOp, call.offsets[0].numel(),
              tables);
  if (call.on_gpu) return;
  const std::size_t batch = num(call.batch(tables));
  for (std::size_t t = 0; t < tables; ++t) {
    const Bags bags = call.of(t, tables);
    validate_indices(fmt::format("{}", t), rows[t], {bags.indices, num(call.num_indices(t))},
                     {bags.offsets, batch + 1});
    const bool begins = lists > 1 || t == 0, ends = lists > 1 || t + 1 == tables;  // a list of indices
    const std::int64_t first = bags.offsets[0], last = bags.offsets[batch], all = call.num_indices(t);
    if ((begins && first != 0) || (ends && last != all))
      bad_input("weft.{}: bags of table {} are those of indices {} to {}, of {}; let bags have all indices", kOp, t,
                first, last, all);
  }
}

Sizes rows_of(const std::vector<Tensor>& tables) {
  Sizes rows;
  for (const Tensor& table : tables) rows.push_back(table.size(0));
  return rows;
}

}  // namespace

std::int64_t BagsCall::batch(std::size_t tables) const {
  if (offsets.empty() || tables == 0) return 0;
  return (offsets[0].numel() - 1) / (offsets.size() == 1 ? static_cast<std::int64_t>(tables) : 1);
}

Bags BagsCall::of(std::size_t t, std::size_t tables) const {
  if (offsets.size() > 1) return {whole_numbers(indices[t]), whole_numbers(offsets[t])};
  return {whole_numbers(indices[0]), whole_numbers(offsets[0]) + static_cast<std::int64_t>(t) * batch(tables)};
}

std::int64_t BagsCall::num_indices(std::size_t t) const { return indices[indices.size() == 1 ? 0 : t].numel(); }

void check_bags(const std::vector<Tensor>& tables, const BagsCall& call, const Group& group) {
  const auto own = static_cast<std::int64_t>(tables.size());
  if (call.tables_of.size() != num(group.size()))
    bad_input("weft.{}: tables_of has {} numbers, but the group has {} ranks; give one per rank", kOp,
              call.tables_of.size(), group.size());
  if (own == 0 || call.tables_of[at(group.rank())] != own)
    bad_input("weft.{}: rank {} has {} tables, but tables_of says {}; give every rank at least one, and its number",
              kOp, group.rank(), own, call.tables_of[at(group.rank())]);
  for (std::size_t t = 0; t < tables.size(); ++t) check_table(tables, t);
  check_lists(call, rows_of(tables));
  const std::int64_t batch = call.batch(tables.size());
  if (batch % group.size() != 0)
    bad_input("weft.{}: {} samples, which {} ranks cannot share; pad to {}", kOp, batch, group.size(),
              (batch + group.size() - 1) / group.size() * group.size());
}

// What a rank says of itself: whether its arguments are right, tables, dim, batch, and the exponent of its rows' room.
Sizes bag_numbers(const std::vector<Tensor>& tables, const BagsCall& call) {
  std::int64_t rows = 1;
  for (const Tensor& table : tables) rows = std::max(rows, table.size(0));
  const std::int64_t dim = tables.empty() || tables[0].dim() != 2 ? 0 : tables[0].size(1);
  return {1, static_cast<std::int64_t>(tables.size()), dim, call.batch(tables.size()),
          static_cast<std::int64_t>(std::bit_width(static_cast<std::uint64_t>(rows - 1)))};
}

// Collective: the shape that all ranks agree on; a rank whose arguments are wrong says so to all.
Shape agree_bags(Group& group, const std::vector<Tensor>& tables, const BagsCall& call) {
  std::optional<Error> refused;
  try {
    check_bags(tables, call, group);
  } catch (const Error& error) {
    refused = error;
  }
  const auto all = gather_numbers(group, refused ? Sizes(5, 0) : bag_numbers(tables, call));
  if (refused) throw *refused;
  Shape shape{.call = Call::embedding_bag_all_to_all};
  shape.m = all[0][3];
  shape.tables = {all[0][2], 0, call.pooling, {}};
  for (int rank = 0; rank < group.size(); ++rank) {
    const Sizes& said = all[at(rank)];
    if (said[0] == 0) bad_input("weft.{}: rank {} refused its arguments; it says why", kOp, rank);
    if (said[2] != all[0][2] || said[3] != all[0][3])
      bad_input("weft.{}: rank {} has {} columns and {} samples, rank 0 {} and {}; all ranks pool one batch", kOp, rank,
                said[2], said[3], all[0][2], all[0][3]);
    if (said[1] != call.tables_of[at(rank)])
      bad_input("weft.{}: rank {} has {} tables, but tables_of says {}", kOp, rank, said[1], call.tables_of[at(rank)]);
    shape.tables.rows = std::max(shape.tables.rows, std::int64_t{1} << said[4]);
    shape.tables.of.push_back(said[1]);
  }
  return shape;
}

Sizes pooled_sizes(const Group& group, const Shape& shape) {
  return {shape.m / group.size(), tables_before(shape.tables.of, group.size()) * shape.tables.dim};
}

namespace {

void check_backward(const Group& group, const Tensor& grad, const Sizes& rows, const BagsCall& call) {
  require_f32(grad, "grad", kOp);
  const std::size_t own = rows.size();
  if (call.tables_of.size() != num(group.size()) ||
      call.tables_of[at(group.rank())] != static_cast<std::int64_t>(own) || own == 0)
    bad_input("weft.{}: gradients of {} tables, but not so many are this rank's; give those of the forward pass", kOp,
              own);
  check_lists(call, rows);
  const std::int64_t batch = call.batch(own), all = tables_before(call.tables_of, group.size());
  if (grad.dim() != 2 || grad.size(0) * group.size() != batch || grad.size(1) % all != 0)
    bad_input("weft.{}: a gradient of {} elements does not belong to {} samples of {} tables", kOp, grad.numel(), batch,
              all);
}

// Every rank's columns of the samples here, rank by rank: rows of `dim`, sample by sample.
Tensor by_owner(const Tensor& grad, const Sizes& tables_of, std::int64_t dim) {
  const std::int64_t samples = grad.size(0), width = grad.size(1);
  const Tensor rows = dense(grad), out = new_tensor({grad.numel() / dim, dim});
  const auto* from = static_cast<const float*>(rows.data_ptr());
  auto* to = static_cast<float*>(out.data_ptr());
  std::int64_t first = 0;
  for (const std::int64_t tables : tables_of) {
    const std::int64_t columns = tables * dim;
    for (std::int64_t b = 0; b < samples; ++b, to += columns)
      std::memcpy(to, from + b * width + first, num(columns) * sizeof(float));
    first += columns;
  }
  return out;
}

// Of one table: bags' gradients, `ld` floats from bag to bag.
struct BagGradients {
  const float* first;
  std::int64_t ld, dim, batch;
};

Tensor dense_gradient(const BagGradients& bags, const Bags& of, Pooling pooling, std::int64_t rows) {
  Tensor out = new_zeros({rows, bags.dim});
  embedding_bag_backward(bags.first, bags.ld, of, pooling, bags.batch, static_cast<float*>(out.data_ptr()), bags.dim);
  return out;
}

// Of the indices that are in bags.
Tensor sparse_gradient(const BagGradients& bags, const Bags& of, Pooling pooling) {
  Tensor out = new_tensor({of.offsets[bags.batch] - of.offsets[0], bags.dim});
  auto* to = static_cast<float*>(out.data_ptr());
  for (std::int64_t b = 0; b < bags.batch; ++b) {
    const float* const from = bags.first + b * bags.ld;
    const std::int64_t size = of.offsets[b + 1] - of.offsets[b];
    const float scale = pooling == Pooling::mean && size > 0 ? 1.0F / static_cast<float>(size) : 1.0F;
    for (std::int64_t i = 0; i < size; ++i, to += bags.dim)
      std::transform(from, from + bags.dim, to, [scale](float value) { return scale * value; });
  }
  return out;
}

}  // namespace

Tensor pool(Group& group, const std::vector<Tensor>& tables, const BagsCall& call) {
  const Shape shape = agree_bags(group, tables, call);
  std::vector<Tensor> kept;
  std::vector<const float*> rows;
  std::vector<const std::int64_t*> indices, offsets;
  for (std::size_t t = 0; t < tables.size(); ++t) {
    kept.push_back(dense(tables[t]));
    rows.push_back(static_cast<const float*>(kept.back().data_ptr()));
    const Bags bags = call.of(t, tables.size());
    indices.push_back(bags.indices), offsets.push_back(bags.offsets);
  }
  Inputs inputs;
  inputs.tables = rows, inputs.indices = indices, inputs.offsets = offsets;
  const Tensor out = new_tensor(pooled_sizes(group, shape));
  std::memcpy(out.data_ptr(), group.product(shape)->pool(inputs), num(out.numel()) * sizeof(float));
  return out;
}

std::vector<Tensor> pool_backward(Group& group, const Tensor& grad, const Sizes& rows, const BagsCall& call,
                                  TableGradient kind) {
  check_backward(group, grad, rows, call);
  const std::int64_t all = tables_before(call.tables_of, group.size()), own = call.tables_of[at(group.rank())];
  const std::int64_t dim = grad.size(1) / all, samples = grad.size(0), batch = samples * group.size();
  ExchangeCall back;
  for (const std::int64_t tables : call.tables_of) {
    back.send.push_back(tables * samples);
    back.receive.push_back(own * samples);
  }
  const Tensor pooled = exchange(group, by_owner(grad, call.tables_of, dim), back);  // (batch * own, dim)
  std::vector<Tensor> grads;
  for (std::size_t t = 0; t < rows.size(); ++t) {
    const BagGradients bags{static_cast<const float*>(pooled.data_ptr()) + static_cast<std::int64_t>(t) * dim,
                            own * dim, dim, batch};
    const Bags of = call.of(t, rows.size());
    grads.push_back(kind == TableGradient::dense ? dense_gradient(bags, of, call.pooling, rows[t])
                                                 : sparse_gradient(bags, of, call.pooling));
  }
  return grads;
}

}  // namespace weft::torch_ops
