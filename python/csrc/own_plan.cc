#include "python/csrc/own_plan.h"

#include <cstring>

#include "weft/base/error.h"
#include "weft/base/index.h"
#include "weft/plan/plan.h"

namespace weft::torch_ops {
namespace {

constexpr const char* kOp = "run_plan";

const Producer& producer_of(const Plan& plan) {
  if (plan.producers.size() != 1 || plan.producers[0].kind == ProducerKind::embedding_bag)
    bad_input("weft.{}: plan \"{}\" has {} producers or bags; give one of a gemm, a gemv or a copy", kOp, plan.name,
              plan.producers.size());
  const Producer& p = plan.producers[0];
  if (p.x() != Dtype::f32 || p.y() != Dtype::f32 || p.weight != Dtype::f32 || p.has_epilogue() || p.addend)
    bad_input("weft.{}: plan \"{}\" reads more than x and w in f32; leave out epilogues and other types", kOp,
              plan.name);
  return p;
}

const std::string& output_of(const Plan& plan) {
  const Buffer* found = nullptr;
  for (const Buffer& buffer : plan.buffers)
    if (buffer.role == Role::output) {
      if (found != nullptr) bad_input("weft.{}: plan \"{}\" has several outputs; give one", kOp, plan.name);
      found = &buffer;
    }
  if (found == nullptr || found->dtype != Dtype::f32)
    bad_input("weft.{}: plan \"{}\" has no output of f32; give one", kOp, plan.name);
  return found->name;
}

void check_size(const Tensor& tensor, const char* name, std::int64_t rows, std::int64_t cols) {
  require_f32(tensor, name, kOp);
  if (tensor.dim() != 2 || tensor.size(0) != rows || tensor.size(1) != cols)
    bad_input("weft.{}: {} has {} elements in {} dimensions, but the plan reads ({}, {})", kOp, name, tensor.numel(),
              tensor.dim(), rows, cols);
}

}  // namespace

Tensor run_plan(Group& group, const std::string& text, const Tensor& x, const std::optional<Tensor>& w) {
  const auto op = group.own_plan(text);
  const Producer& p = producer_of(op->plan());
  const std::string& output = output_of(op->plan());
  const std::int64_t n = p.columns(group.rank());
  check_size(x, "x", p.m, p.is_product() ? p.k : n);
  if (p.is_product() != w.has_value())
    bad_input("weft.{}: plan \"{}\" reads {}", kOp, op->plan().name, w ? "no w; leave it out" : "w too; give it");
  const bool by_output = p.layout() == WeightLayout::nk;
  if (w) check_size(*w, "w", by_output ? n : p.k, by_output ? p.k : n);
  const Tensor rows = dense(x);
  std::optional<Tensor> weights;
  if (w) weights = dense(*w);
  op->run(static_cast<const float*>(rows.data_ptr()), weights ? weights->data_ptr() : nullptr);
  const BufferView y = op->view(output);
  Tensor out = new_tensor(Sizes(y.shape.begin(), y.shape.begin() + y.dims));
  std::memcpy(out.data_ptr(), y.data, y.bytes);
  return out;
}

}  // namespace weft::torch_ops
