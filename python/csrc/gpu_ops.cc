#include "python/csrc/gpu_ops.h"

#include <dlfcn.h>

#include <algorithm>
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

// Tensor cores take bf16, and so do sums between ranks; 16 bytes at a time.
void check_type(const Shape& shape) {
  if (shape.type != Dtype::bf16)
    bad_input("weft.{}: x is float32; what is multiplied or summed on a GPU is bfloat16: convert it with .bfloat16()",
              name_of(shape.call));
  if (shape.n % 8 != 0 || shape.k % 8 != 0)
    bad_input("weft.{}: n is {} and k is {}; a GPU takes multiples of 8: pad them", name_of(shape.call), shape.n,
              shape.k);
  if (shape.wire == Dtype::int8)
    bad_input("weft.{}: wire is int8; sums between GPUs travel as bf16: leave it out", name_of(shape.call));
}

// What is only moved may be anything: float32 goes as pairs of 16 bits, which nobody reads on the way.
bool only_moves(Call call) { return call == Call::all_gather || call == Call::all_to_all; }
Shape in_halves(Shape shape) {
  if (shape.type == Dtype::f32 && only_moves(shape.call)) shape.n *= 2, shape.type = Dtype::bf16;
  return shape;
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

// Bias and residual are read in f32.
Tensor wide(const Tensor& tensor) { return dense(torch::stable::to(tensor, ScalarType::Float)); }

Tensor run(const Shape& asked, const Tensor& x, const Operands& operands, const std::string& group, bool alias) {
  Shape shape = in_halves(asked);
  check_type(shape);
  shape.wire = Dtype::f32;  // there is one, and that is bf16
  const GpuCall call = call_of(group, x);
  const auto op = call.group.gpu().op(call.group.world(), shape, call.device);
  std::vector<Tensor> kept{dense(x)};
  CudaOperands given;
  given.x = kept[0].data_ptr();
  const auto add = [&](const std::optional<Tensor>& tensor, const char* name, bool is_wide) -> const void* {
    if (!tensor) return nullptr;
    check_device(*tensor, x, name, shape.call);
    kept.push_back(is_wide ? wide(*tensor) : dense(*tensor));
    return kept.back().data_ptr();
  };
  given.w = add(operands.w, "w", false);
  given.bias = static_cast<const float*>(add(operands.bias, "bias", true));
  given.residual = static_cast<const float*>(add(operands.residual, "residual", true));
  const Sizes sizes = output_sizes(asked, x, call.group.size());
  if (alias) {
    op->run(given, call.stream);
    return alias_of(op, x, sizes, call.device);
  }
  Tensor out = new_like(x, sizes);
  if (op->own_output()) given.y = out.data_ptr();
  op->run(given, call.stream);
  if (given.y == nullptr) op->copy_output(out.data_ptr(), call.stream);
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

// Rows [from, from + count) of one tensor become those from `to` on of another.
void copy_rows(const Tensor& into, std::int64_t to, const Tensor& rows, std::int64_t from, std::int64_t count) {
  if (count == 0) return;
  Tensor target = into, source = rows;
  target = torch::stable::narrow(target, 0, to, count), source = torch::stable::narrow(source, 0, from, count);
  torch::stable::copy_(target, source);
}

// Rows for rank d from d * room on, as the plan has them.
Tensor spread(const Tensor& x, const Parts& parts) {
  const auto ranks = static_cast<std::int64_t>(parts.send.size());
  if (x.size(0) == parts.room * ranks) return x;
  const Tensor out = new_like(x, {parts.room * ranks, x.size(1)});
  std::int64_t from = 0;
  for (std::int64_t d = 0; d < ranks; from += parts.send[at(d)], ++d)
    copy_rows(out, d * parts.room, x, from, parts.send[at(d)]);
  return out;
}

Tensor exchange_rows(const Tensor& x, const ExchangeCall& given, const std::string& group) {
  const GpuCall call = call_of(group, x);
  const auto ranks = static_cast<std::int64_t>(call.group.size());
  const Parts parts = agree_parts(call.group, x.size(0), given);
  std::int64_t received = 0;
  for (const std::int64_t count : parts.receive) received += count;
  const std::int64_t n = given.operands.w ? given.operands.w->size(0) : x.size(1);
  const Tensor out = new_like(x, {received, n});
  if (parts.room == 0) return out;
  Shape shape{.call = given.call, .m = parts.room * ranks, .n = n, .type = type_of(x, "x", name_of(given.call))};
  if (given.operands.w) shape.k = x.size(1), shape.bias = given.operands.bias.has_value();
  shape = in_halves(shape);
  check_type(shape);
  const auto op = call.group.gpu().op(call.group.world(), shape, call.device);
  const Tensor rows = spread(dense(x), parts);
  std::vector<Tensor> kept;
  CudaOperands operands;
  operands.x = rows.data_ptr();
  if (given.operands.w) {
    check_device(*given.operands.w, x, "w", given.call);
    kept.push_back(dense(*given.operands.w));
    operands.w = kept.back().data_ptr();
  }
  if (given.operands.bias) {
    check_device(*given.operands.bias, x, "bias", given.call);
    kept.push_back(wide(*given.operands.bias));
    operands.bias = static_cast<const float*>(kept.back().data_ptr());
  }
  op->limit({.peers = parts.send});
  op->run(operands, call.stream);
  const torch::stable::Device where(torch::headeronly::DeviceType::CUDA, static_cast<std::int8_t>(call.device));
  const Tensor made =
      torch::stable::from_blob(const_cast<void*>(op->output()), {shape.m, n}, {n, 1}, where, x.scalar_type());
  std::int64_t to = 0;
  for (std::int64_t s = 0; s < ranks; to += parts.receive[at(s)], ++s)
    copy_rows(out, to, made, s * parts.room, parts.receive[at(s)]);
  return out;
}

Tensor linear_all_to_all(Tensor x, Tensor w, std::optional<Tensor> bias, Sizes send, Sizes receive, std::string group) {
  const auto lock = enter();
  check_exchanged(Call::linear_all_to_all, x);
  check_linear(Call::linear_all_to_all, x, w, bias);
  return exchange_rows(x, {Call::linear_all_to_all, {w, bias, {}}, std::move(send), std::move(receive)}, group);
}

Tensor all_to_all_counts(Tensor x, Sizes send, Sizes receive, std::string group) {
  const auto lock = enter();
  check_exchanged(Call::all_to_all, x);
  return exchange_rows(x, {Call::all_to_all, {}, std::move(send), std::move(receive)}, group);
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
      tensor = dense(tensor);
    }
  const BagsCall bags{indices, offsets, parse_pooling(mode), tables_of, true};
  Sizes numbers = bag_numbers(tables, bags);
  numbers.push_back(static_cast<std::int64_t>(bags.pooling));
  numbers.insert(numbers.end(), tables_of.begin(), tables_of.end());
  const Shape* known = call.group.gpu().bags(numbers);
  if (known != nullptr) check_bags(tables, bags, call.group);
  const Shape shape = known != nullptr ? *known : agree_bags(call.group, tables, bags);
  if (known == nullptr) call.group.gpu().add_bags(numbers, shape);
  const auto op = call.group.gpu().op(call.group.world(), shape, call.device);
  std::vector<CudaTable> given;
  for (std::size_t t = 0; t < tables.size(); ++t)
    given.push_back({static_cast<const float*>(tables[t].data_ptr()), whole_numbers(indices[t]),
                     whole_numbers(offsets[t]), tables[t].size(0), indices[t].numel()});
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
