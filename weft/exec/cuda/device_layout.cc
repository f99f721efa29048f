#include "weft/exec/cuda/device_layout.h"

#include <utility>

#include "weft/base/error.h"
#include "weft/base/index.h"

namespace weft {
namespace {

void check_device_producer(const Plan& plan) {
  if (plan.producers.size() != 1 ||
      (plan.producers[0].kind != ProducerKind::gemm && plan.producers[0].kind != ProducerKind::copy))
    bad_input("plan \"{}\" is not one gemm, or one copy; the CUDA executor runs those, use the CPU's for others",
              plan.name);
  const Producer& p = plan.producers[0];
  for (const auto& [name, dtype] : {std::pair{"x", p.x()}, std::pair{"w", p.has_w() ? p.weight : p.x()}})
    if (p.has_w() && dtype != Dtype::bf16)
      bad_input("{} of plan \"{}\" is {}; tensor cores take bf16: give the gemm .x and .weight of that", name,
                plan.name, to_string(dtype));
  if (!p.has_w() && p.x() != p.y())
    bad_input("plan \"{}\" copies {} rows to a {} output; on a GPU give both one type", plan.name, to_string(p.x()),
              to_string(p.y()));
  const std::int64_t halves = halves_of(p.y());
  if (!p.n_of.empty()) bad_input("plan \"{}\" has outputs of different widths; a GPU's are one n wide", plan.name);
  check_device_rows(p);
  if (p.activation == Activation::gelu_erf)
    bad_input("plan \"{}\" has the activation gelu_erf; a GPU has none, relu, gelu and silu", plan.name);
  if (p.addend) bad_input("plan \"{}\" has an addend; the CUDA executor has none yet", plan.name);
  if (p.tile[0] > kCudaTileRows || p.tile[1] * halves > kCudaTileCols || p.tile[1] * halves % 8 != 0)
    bad_input("tiles of {} x {} do not fit a GPU's; give the {} .tile = {{{}, {}}}", p.tile[0], p.tile[1],
              to_string(p.kind), kCudaTileRows, kCudaTileCols / halves);
}

void check_device_buffers(const Plan& plan) {
  if (plan.num_ranks > kMaxCudaRanks)
    bad_input("plan \"{}\" has {} ranks; one GPU is shared by at most {}", plan.name, plan.num_ranks, kMaxCudaRanks);
  for (const Buffer& b : plan.buffers) {
    if (b.role == Role::input && b.name != "x")
      bad_input("\"{}\" of plan \"{}\" is an input beside x and w; the CUDA executor takes none", b.name, plan.name);
    if (b.dtype != Dtype::bf16 && b.dtype != Dtype::f32)
      bad_input("\"{}\" of plan \"{}\" is {}; on a GPU partial sums and outputs are bf16 or f32", b.name, plan.name,
                to_string(b.dtype));
    if (b.depth != 1 && b.packing.tile_rows == 0)
      bad_input("\"{}\" of plan \"{}\" lies in rows and has {} copies; the CUDA executor keeps one", b.name, plan.name,
                b.depth);
    if (b.shape.size() != 2)
      bad_input("\"{}\" of plan \"{}\" has {} dimensions; the CUDA executor takes matrices", b.name, plan.name,
                b.shape.size());
  }
}

}  // namespace

void check_device_plan(const Plan& plan) {
  check_device_producer(plan);
  check_device_buffers(plan);
}

void check_device_rows(const Producer& p) {
  const std::int64_t step = p.has_w() && p.layout() == WeightLayout::kn ? 8 : 8 / halves_of(p.y());
  if (p.n % step != 0 || p.k % 8 != 0)
    bad_input("n is {} and k is {}; a GPU reads 16 bytes at a time: give n in multiples of {}, k in multiples of 8",
              p.n, p.k, step);
}

DeviceLayout device_layout(const Plan& plan, const Layout& host) {
  const Producer& p = plan.producers[0];
  DeviceLayout out;
  out.matrices.push_back({-1, 0, p.m, p.has_w() ? p.k : p.n * halves_of(p.x())});
  for (std::size_t b = 0; b < plan.buffers.size(); ++b) {
    const BufferLayout& from = host.buffers[b];
    DeviceBuffer to;
    to.offset = out.bytes;
    to.depth = from.depth;
    if (from.block_rows > 0) {
      const std::int64_t elements = ceil_div(from.shape[0], from.block_rows) * from.block_elements;
      to.copy_bytes = elements / (from.tile_rows * from.tile_cols) * kImageBytes;
      out.bytes += to.copy_bytes * to.depth;
    } else if (from.role == Role::input) {
      to.matrix = 0;
    } else {
      if (int_size(out.matrices) == kMaxPlanMatrices)
        bad_input("plan \"{}\" keeps more than {} buffers in rows; a GPU's ranks have no more", plan.name,
                  kMaxPlanMatrices - 1);
      to.matrix = int_size(out.matrices);
      const DeviceMatrixShape matrix{static_cast<int>(b), to.offset, from.shape[0],
                                     from.shape[1] * halves_of(plan.buffers[b].dtype)};
      out.matrices.push_back(matrix);
      out.bytes += aligned_bytes(matrix.rows * matrix.cols * 2);
    }
    out.buffers.push_back(to);
  }
  out.num_counters = host.num_counters;
  out.counters = out.bytes;
  place_counters(&out);
  return out;
}

void place_counters(DeviceLayout* layout) {
  layout->stamps = layout->counters + aligned_bytes(layout->num_counters * 4);
  layout->bytes = layout->stamps + aligned_bytes(layout->num_counters * 8);
}

std::int64_t aligned_bytes(std::int64_t bytes) {
  constexpr std::int64_t kAlignBytes = 1024;
  return ceil_div(bytes, kAlignBytes) * kAlignBytes;
}

}  // namespace weft
