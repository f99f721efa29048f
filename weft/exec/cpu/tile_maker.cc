#include "weft/exec/cpu/tile_maker.h"

#include <algorithm>
#include <array>
#include <optional>
#include <vector>

#include "weft/base/index.h"
#include "weft/kernel/quant/quant_tile.h"
#include "weft/kernel/rows/sum.h"
#include "weft/kernel/table/embedding_bag.h"

namespace weft {
namespace {

// Weights beyond this are packed tile by tile, which costs a few percent of the arithmetic but no memory.
constexpr std::int64_t kMostPackedBytes = std::int64_t{1} << 28;

std::array<std::int64_t, 2> largest_tile(int producer, const Program& program) {
  std::array<std::int64_t, 2> tile{1, 1};
  for (const Action& action : program.actions) {
    if (action.producer != producer || action.kind != ActionKind::step || action.box.empty()) continue;
    for (int d = 0; d < 2; ++d) {
      const std::int64_t size = action.tile[d] > 0 ? action.tile[d] : action.box.size(d);
      tile[d] = std::max(tile[d], size);
    }
  }
  return tile;
}

}  // namespace

TileMaker::TileMaker(const Producer& producer, int index, const Program& program)
    : producer_(producer), n_(producer.columns(program.rank)) {
  const bool is_gemv = producer.kind == ProducerKind::gemv, blocked = producer.has_w() && size_of(producer.weight) == 0;
  if (producer.kind != ProducerKind::gemm && !(is_gemv && (blocked || producer.m > most_gemv_rows()))) return;
  const std::array<std::int64_t, 2> tile = largest_tile(index, program);
  if (producer.x() == Dtype::bf16) wide_bytes_ = num((tile[0] * producer.k * 4 + 63) / 64 * 64);
  if (blocked) {
    tile_bytes_ = num((tile[0] * tile[1] * 4 + 63) / 64 * 64);
    block_bytes_ = tile_bytes_ + most_rounded_bytes(tile[0], producer.k) + quant_tile_bytes(tile[0], producer.k);
    rounded_ = std::make_unique<RoundedInput>(spans_of(0, index, program), producer.k, kMostPackedBytes);
    return;
  }
  const bool transposed = producer.layout() == WeightLayout::nk;
  const GemmShape shape{.tile_rows = tile[0],
                        .tile_cols = tile[1],
                        .k = producer.k,
                        .lda = producer.k,
                        .ldb = transposed ? producer.k : n_,
                        .b_dtype = producer.weight,
                        .b_transposed = transposed};
  gemm_ = std::make_unique<GemmKernel>(shape);
  packed_ = std::make_unique<PackedWeights>(*gemm_, spans_of(1, index, program), kMostPackedBytes);
}

void TileMaker::make_by_gemv(std::int64_t m, std::int64_t n, const float* x, const void* w, std::int64_t rows_to_come,
                             const GemmTarget& target) const {
  const std::int64_t k = producer_.k;
  const GemvBatch batch{
      m, x, k, target.data, target.ld, rows_to_come, target.addend, target.addend_ld, target.twin, target.twin_ld};
  gemv(n, k, w, producer_.weight, k, batch);
}

// Straight into the target where nothing is added: else beside, and one pass adds and stores, for a target may be a
// neighbour's memory, which nobody reads back.
void TileMaker::make_from_blocks(const Inputs& in, const Box& box, const float* x, const GemmTarget& target,
                                 std::byte* scratch) const {
  const std::int64_t m = box.size(0), n = box.size(1);
  const auto* row = static_cast<const std::byte*>(in.w) + box.lo[1] * row_bytes(producer_.weight, in.w_ld);
  const QuantWeight w{row, producer_.weight, n, producer_.k, in.w_first, in.w_ld};
  const bool beside = target.addend != nullptr || target.twin != nullptr;
  float* made = beside ? reinterpret_cast<float*>(scratch) : target.data;
  std::byte* room = scratch + tile_bytes_;
  std::optional<RoundedRows> rounded = rounded_->get(box.lo[0], box.hi[0], rounded_form(w), x);
  if (!rounded) {
    rounded = rounded_in(room, m, rounded_form(w));
    round_rows(rounded_form(w), 0, m, x, producer_.k, *rounded);
  }
  quant_tile(m, w, *rounded, made, beside ? n : target.ld, room + most_rounded_bytes(m, producer_.k));
  if (!beside) return;
  const ConstStrip tile{made, n, Dtype::f32};
  for (const Strip& to : {Strip{target.data, target.ld, Dtype::f32}, Strip{target.twin, target.twin_ld, Dtype::f32}}) {
    if (to.data == nullptr) continue;
    if (target.addend == nullptr) {
      copy(m, n, tile, to);
      continue;
    }
    const ConstStrip both[]{{target.addend, target.addend_ld, Dtype::f32}, tile};
    sum(m, n, both, to);
  }
}

const float* TileMaker::rows_of_x(const Inputs& in, const Box& box, const void* rows, void* scratch) const {
  const std::int64_t k = producer_.k, first = box.lo[0] * k;
  if (producer_.x() == Dtype::f32) return rows != nullptr ? static_cast<const float*>(rows) : in.x + first;
  auto* wide = static_cast<float*>(scratch);
  const void* from = rows != nullptr ? rows : in.narrow_x + first;
  copy(box.size(0), k, {from, k, Dtype::bf16}, {wide, k, Dtype::f32});
  return wide;
}

void TileMaker::make(const Inputs& in, const Box& box, const void* rows, const GemmTarget& target,
                     void* scratch) const {
  const Producer& p = producer_;
  const std::int64_t m = box.size(0), n = box.size(1);
  const auto weight = static_cast<std::int64_t>(size_of(p.weight));
  const auto* w = static_cast<const std::byte*>(in.w);
  switch (p.kind) {
    case ProducerKind::gemm:
    case ProducerKind::gemv: {
      const float* x = rows_of_x(in, box, rows, scratch);
      if (block_bytes_ > 0) return make_from_blocks(in, box, x, target, static_cast<std::byte*>(scratch) + wide_bytes_);
      const std::int64_t column = weight * (p.layout() == WeightLayout::nk ? p.k : 1), behind = n_ - box.hi[1];
      const std::byte* b = w + box.lo[1] * column;
      if (by_gemv_) return make_by_gemv(m, n, x, b, behind, target);
      const GemmNext next{b + n * column, behind};
      if (packed_)
        if (const PackedWeights::Columns packed = packed_->get(box.lo[1], box.hi[1], b); packed.data != nullptr)
          return gemm_->run_packed(m, n, x, packed.data, target, packed.fresh ? next : GemmNext{});
      return gemm_->run(m, n, x, b, target, static_cast<std::byte*>(scratch) + wide_bytes_, next);
    }
    case ProducerKind::embedding_bag: {
      const auto table = num(box.lo[1] / p.dim);
      return embedding_bag({in.tables[table], p.rows, p.dim}, {in.indices[table], in.offsets[table]}, p.pooling,
                           box.lo[0], box.hi[0], target.data, target.ld);
    }
    case ProducerKind::window:
    case ProducerKind::copy: {
      const void* given = in.rows(p.x());
      const bool is_written = given == nullptr && in.written != nullptr;
      const std::int64_t ld = is_written ? in.written_ld : n_, first = box.lo[0] * ld + box.lo[1];
      const auto* from = static_cast<const std::byte*>(is_written ? in.written : given);
      const ConstStrip x{from + first * size_of(p.x()), ld, p.x()};
      const Strip to{target.data, target.ld, Dtype::f32};
      if (target.addend == nullptr) return copy(m, n, x, to);
      const ConstStrip both[]{{target.addend, target.addend_ld, Dtype::f32}, x};
      return sum(m, n, both, to);
    }
  }
}

}  // namespace weft
