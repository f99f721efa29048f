#include "python/csrc/gpu_ops.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <optional>
#include <utility>

#include "weft/base/error.h"
#include "weft/base/index.h"

#include "python/csrc/bags.h"
#include "python/csrc/checks.h"
#include "python/csrc/exchange.h"
#include "python/csrc/plans.h"
#include "python/csrc/worlds.h"

namespace weft::torch_ops {
namespace {

using torch::headeronly::ScalarType;

constexpr std::size_t kMostOps = 64;
constexpr std::size_t kMostBytes = std::size_t{8} << 30;  // of device memory, of the rank that has most

// Torch's stream on a device. The function is in a library of torch's that only torches with CUDA have.
void* current_stream(int device) {
  using Get = AOTITorchError (*)(std::int32_t device, void** stream);
  static const Get get = [] {
    void* library = dlopen("libtorch_cuda.so", RTLD_LAZY | RTLD_NOLOAD);
    void* found = library != nullptr ? dlsym(library, "aoti_torch_get_current_cuda_stream") : nullptr;
    if (found == nullptr) bad_input("this torch has no CUDA; use tensors of the CPU");
    return reinterpret_cast<Get>(found);
  }();
  void* stream = nullptr;
  STABLE_TORCH_ERROR_CODE_CHECK(get(device, &stream));
  return stream != nullptr ? stream : reinterpret_cast<void*>(1);  // cudaStreamLegacy: null is the op's own queue
}

void check_device(const Tensor& tensor, const Tensor& x, const char* name, Call call) {
  if (tensor.is_cpu() || tensor.get_device_index() != x.get_device_index())
    bad_input("weft.{}: {} is not on the GPU of x; move it with .to(x.device)", name_of(call), name);
}

// Tensor cores take bf16; what is summed or moved may be float32 too, 16 bytes at a time. It travels as it is.
void check_type(const Shape& shape) {
  if (shape.type != Dtype::bf16 && has_product(shape.call))
    bad_input("weft.{}: x is float32; what is multiplied on a GPU is bfloat16: convert it with .bfloat16()",
              name_of(shape.call));
  const std::int64_t unit = shape.type == Dtype::bf16 ? 8 : 4;
  if (shape.n % unit != 0 || shape.k % unit != 0)
    bad_input("weft.{}: n is {} and k is {}; a GPU takes multiples of {}: pad them", name_of(shape.call), shape.n,
              shape.k, unit);
  if (shape.wire == Dtype::int8)
    bad_input("weft.{}: wire is int8; sums between GPUs travel as they are: leave it out", name_of(shape.call));
}

Tensor new_like(const Tensor& x, const Sizes& sizes) { return torch::stable::new_empty(x, sizes); }

// What a run needs of torch.
struct GpuCall {
  Group& group;
  int device;
  void* stream;
};

GpuCall call_of(const std::string& group, const Tensor& x) {
  const int device = x.get_device_index();
  return {group_of(group), device, current_stream(device)};
}

// The op's own memory as a tensor, which keeps it.
Tensor alias_of(std::shared_ptr<CudaOp> op, const Tensor& x, const Sizes& sizes, int device) {
  const torch::stable::Device where(torch::headeronly::DeviceType::CUDA, static_cast<std::int8_t>(device));
  void* y = const_cast<void*>(op->output());
  return torch::stable::from_blob(y, sizes, row_major(sizes), where, x.scalar_type(),
                                  [op = std::move(op)](void*) mutable {
                                    const auto lock = enter();
                                    op.reset();
                                  });
}

// A call's operands as the GPU finds them, and the tensors that keep them until it has been enqueued.
struct Given {
  CudaOperands operands;
  std::vector<Tensor> kept;
};

// Of bias and residual two elements are read at a time: one that begins between two is read in f32, which is a copy.
Tensor in_pairs(const Tensor& tensor) {
  Tensor rows = dense(tensor);
  const auto first = reinterpret_cast<std::uintptr_t>(rows.data_ptr());
  return first % 4 == 0 ? rows : dense(torch::stable::to(rows, ScalarType::Float));
}

// x is dense.
Given gather_operands(const Tensor& x, const Operands& operands, Call call) {
  Given given;
  given.kept.reserve(4);
  const auto keep = [&](Tensor tensor) -> const void* {
    given.kept.push_back(std::move(tensor));
    return given.kept.back().data_ptr();
  };
  CudaOperands& to = given.operands;
  to.x = keep(x);
  if (operands.w) {
    check_device(*operands.w, x, "w", call);
    to.w = keep(dense(*operands.w));
  }
  if (operands.bias) {
    check_device(*operands.bias, x, "bias", call);
    to.bias = keep(in_pairs(*operands.bias)), to.bias_type = type_of(given.kept.back(), "bias", name_of(call));
  }
  if (operands.residual) {
    check_device(*operands.residual, x, "residual", call);
    to.residual = keep(in_pairs(*operands.residual));
    to.residual_type = type_of(given.kept.back(), "residual", name_of(call));
  }
  return given;
}

Tensor run(Shape shape, const Tensor& x, const Operands& operands, const std::string& group, bool alias) {
  check_type(shape);
  shape.wire = Dtype::f32;  // one for all
  const GpuCall call = call_of(group, x);
  const auto op = call.group.gpu().op(call.group.world(), shape, call.device);
  Given given = gather_operands(dense(x), operands, shape.call);
  const Sizes sizes = output_sizes(shape, x, call.group.size());
  if (alias) {
    op->run(given.operands, call.stream);
    return alias_of(op, x, sizes, call.device);
  }
  Tensor out = new_like(x, sizes);
  if (op->own_output()) given.operands.y = out.data_ptr();
  op->run(given.operands, call.stream);
  if (given.operands.y == nullptr) op->copy_output(out.data_ptr(), call.stream);
  return out;
}

template <Call call>
Tensor linear(Tensor x, Tensor w, std::optional<Tensor> bias, std::string group, bool alias) {
  const auto lock = enter();
  return run(linear_shape(call, x, w, bias, group_of(group).size()), x, {w, bias, {}}, group, alias);
}

Tensor linear_finished(std::string op, Tensor x, Tensor w, std::optional<Tensor> bias, std::optional<Tensor> residual,
                       std::string activation, std::string wire, std::string group, bool alias) {
  const auto lock = enter();
  const Shape shape = finished_shape(parse_call(op), x, w, bias, {residual, activation, wire}, group_of(group).size());
  return run(shape, x, {w, bias, residual}, group, alias);
}

template <Call call>
Tensor alone(Tensor x, std::string group, bool alias) {
  const auto lock = enter();
  const Dtype type = type_of(x, "x", name_of(call));
  check_rows(call, x, group_of(group).size());
  return run({.call = call, .m = rows_of(x), .n = x.size(x.dim() - 1), .type = type}, x, {}, group, alias);
}

// Parts that lie one behind the other in one place and from multiples of `room` rows on in another: copy(from row of the
// latter, from row of the former, rows). Parts that fill their room are one stretch with the next.
template <typename Copy>
void for_each_stretch(const Sizes& parts, std::int64_t room, Copy&& copy) {
  std::int64_t apart = 0, packed = 0, rows = 0;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    rows += parts[i];
    if (parts[i] == room && i + 1 < parts.size()) continue;
    if (rows > 0) copy(apart, packed, rows);
    packed += rows, rows = 0, apart = static_cast<std::int64_t>(i + 1) * room;
  }
}

std::int64_t bytes_of_row(const Tensor& matrix) {
  return matrix.size(1) * static_cast<std::int64_t>(matrix.element_size());
}

// Rows for rank d from d * room on, as the plan has them. x is dense.
Tensor spread(const Tensor& x, const Parts& parts, CudaOp& op, void* stream) {
  const auto ranks = static_cast<std::int64_t>(parts.send.size());
  if (x.size(0) == parts.room * ranks) return x;
  Tensor out = new_like(x, {parts.room * ranks, x.size(1)});
  const std::int64_t row = bytes_of_row(x);
  auto* to = static_cast<std::byte*>(out.data_ptr());
  const auto* from = static_cast<const std::byte*>(x.data_ptr());
  for_each_stretch(parts.send, parts.room, [&](std::int64_t apart, std::int64_t packed, std::int64_t rows) {
    op.copy(to + apart * row, from + packed * row, rows * row, stream);
  });
  return out;
}

Tensor exchange_rows(const Tensor& x, const ExchangeCall& given, const std::string& group) {
  const GpuCall call = call_of(group, x);
  const auto ranks = static_cast<std::int64_t>(call.group.size());
  const Parts parts = agree_parts(call.group, x.size(0), given);
  const std::int64_t received = std::accumulate(parts.receive.begin(), parts.receive.end(), std::int64_t{0});
  const std::int64_t n = given.operands.w ? given.operands.w->size(0) : x.size(1);
  Tensor out = new_like(x, {received, n});
  if (parts.room == 0) return out;
  Shape shape{.call = given.call, .m = parts.room * ranks, .n = n, .type = type_of(x, "x", name_of(given.call))};
  if (given.operands.w) shape.k = x.size(1), shape.bias = given.operands.bias.has_value();
  check_type(shape);
  const auto op = call.group.gpu().op(call.group.world(), shape, call.device);
  const Given operands = gather_operands(spread(dense(x), parts, *op, call.stream), given.operands, given.call);
  op->limit({.peers = parts.send});
  op->run(operands.operands, call.stream);
  const std::int64_t row = bytes_of_row(out);
  auto* to = static_cast<std::byte*>(out.data_ptr());
  for_each_stretch(parts.receive, parts.room, [&](std::int64_t apart, std::int64_t packed, std::int64_t rows) {
    op->copy_output(to + packed * row, apart * row, rows * row, call.stream);
  });
  return out;
}

Tensor linear_all_to_all(Tensor x, Tensor w, std::optional<Tensor> bias, Sizes send, Sizes receive, std::string group,
                         std::int64_t capacity) {
  const auto lock = enter();
  check_exchanged(Call::linear_all_to_all, x);
  check_linear(Call::linear_all_to_all, x, w, bias);
  return exchange_rows(x, {Call::linear_all_to_all, {w, bias, {}}, std::move(send), std::move(receive), capacity},
                       group);
}

Tensor all_to_all_counts(Tensor x, Sizes send, Sizes receive, std::string group, std::int64_t capacity) {
  const auto lock = enter();
  check_exchanged(Call::all_to_all, x);
  return exchange_rows(x, {Call::all_to_all, {}, std::move(send), std::move(receive), capacity}, group);
}

// Where numbers are those of an earlier call, ranks go on without asking each other: one whose arguments are wrong then
// refuses alone.
Tensor embedding_bag_all_to_all(std::vector<Tensor> tables, std::vector<Tensor> indices, std::vector<Tensor> offsets,
                                std::string mode, Sizes tables_of, std::string group, bool /*sparse*/) {
  const auto lock = enter();
  if (tables.empty()) bad_input("weft.embedding_bag_all_to_all: rank has no tables; give every rank at least one");
  const GpuCall call = call_of(group, tables[0]);
  for (auto* list : {&tables, &indices, &offsets})
    for (Tensor& tensor : *list) {
      check_device(tensor, tables[0], "a table, its indices or offsets", Call::embedding_bag_all_to_all);
      if (!tensor.is_contiguous()) tensor = dense(tensor);
    }
  const BagsCall bags{std::move(indices), std::move(offsets), parse_pooling(mode), std::move(tables_of), true};
  Sizes numbers = bag_numbers(tables, bags);
  numbers.push_back(static_cast<std::int64_t>(bags.pooling));
  numbers.insert(numbers.end(), bags.tables_of.begin(), bags.tables_of.end());
  const Shape* known = call.group.gpu().bags(numbers);
  if (known != nullptr) check_bags(tables, bags, call.group);
  const Shape shape = known != nullptr ? *known : agree_bags(call.group, tables, bags);
  if (known == nullptr) call.group.gpu().add_bags(numbers, shape);
  const auto op = call.group.gpu().op(call.group.world(), shape, call.device);
  std::vector<CudaTable> given;
  given.reserve(tables.size());
  for (std::size_t t = 0; t < tables.size(); ++t) {
    const Bags of = bags.of(t, tables.size());
    given.push_back({static_cast<const float*>(tables[t].data_ptr()), of.indices, of.offsets, tables[t].size(0),
                     bags.num_indices(t)});
  }
  op->run(BagOperands{given}, call.stream);
  Tensor out = new_like(tables[0], pooled_sizes(call.group, shape));
  op->copy_output(out.data_ptr(), call.stream);
  return out;
}

}  // namespace

std::shared_ptr<CudaOp> GpuOps::op(World& world, const Shape& shape, int device) {
  if (const auto known = by_shape_.find(shape); known != by_shape_.end()) {
    ops_.splice(ops_.begin(), ops_, known->second);
    return ops_.front().op;
  }
  weft::Group everybody;
  for (int rank = 0; rank < world.size(); ++rank) everybody.ranks.push_back(rank);
  everybody.position = world.rank();
  CudaOp made = world.compile_cuda(cuda_plan_of(shape, world), everybody, {.device = device});
  ops_.push_front({shape, std::make_shared<CudaOp>(std::move(made))});
  by_shape_[shape] = ops_.begin();
  // Those that are recorded in a graph stay: it runs them without asking here.
  std::size_t bytes = 0, kept = 0;
  for (auto one = ops_.begin(); one != ops_.end();) {
    bytes += one->op->bytes();
    const bool stays = kept == 0 || one->op->was_recorded() || (kept < kMostOps && bytes <= kMostBytes);
    if (stays) {
      ++kept, ++one;
      continue;
    }
    bytes -= one->op->bytes();
    by_shape_.erase(one->shape);
    one = ops_.erase(one);
  }
  return ops_.front().op;
}

const Shape* GpuOps::bags(const Sizes& numbers) const {
  const auto found = bags_.find(numbers);
  return found == bags_.end() ? nullptr : &found->second;
}

std::string GpuOps::describe() const {
  std::string lines;
  for (const Compiled& one : ops_)
    lines += fmt::format("{} m {} n {} k {} on a GPU: fused, {}\n", name_of(one.shape.call), one.shape.m, one.shape.n,
                         one.shape.k, one.op->plan().why);
  return lines;
}

}  // namespace weft::torch_ops

STABLE_TORCH_LIBRARY_IMPL(weft, CUDA, m) {
  using namespace weft::torch_ops;
  m.impl("linear_all_reduce", TORCH_BOX(&linear<Call::linear_all_reduce>));
  m.impl("linear_reduce_scatter", TORCH_BOX(&linear<Call::linear_reduce_scatter>));
  m.impl("all_gather_linear", TORCH_BOX(&linear<Call::all_gather_linear>));
  m.impl("linear_finished", TORCH_BOX(&linear_finished));
  m.impl("all_reduce", TORCH_BOX(&alone<Call::all_reduce>));
  m.impl("reduce_scatter", TORCH_BOX(&alone<Call::reduce_scatter>));
  m.impl("all_gather", TORCH_BOX(&alone<Call::all_gather>));
  m.impl("all_to_all", TORCH_BOX(&alone<Call::all_to_all>));
  m.impl("linear_all_to_all", TORCH_BOX(&linear_all_to_all));
  m.impl("all_to_all_counts", TORCH_BOX(&all_to_all_counts));
  m.impl("embedding_bag_all_to_all", TORCH_BOX(&embedding_bag_all_to_all));
}
