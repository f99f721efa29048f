#include "weft/exec/cpu/tile_maker.h"

#include <algorithm>
#include <vector>

#include "weft/kernel/embedding_bag.h"
#include "weft/kernel/gemv.h"
#include "weft/kernel/sum.h"

namespace weft {
namespace {

void note(std::vector<std::int64_t>* sizes, std::int64_t size) {
  if (size > 0 && std::find(sizes->begin(), sizes->end(), size) == sizes->end()) sizes->push_back(size);
}

// Full tiles and what is left at the edge.
void note_sizes(std::vector<std::int64_t>* sizes, std::int64_t extent, std::int64_t tile) {
  if (extent >= tile) note(sizes, tile);
  note(sizes, extent % tile);
}

}  // namespace

TileMaker::TileMaker(const Producer& producer, int index, const Program& program)
    : producer_(producer), n_(producer.columns(program.rank)) {
  if (producer.kind != ProducerKind::gemm) return;
  std::vector<std::int64_t> rows, cols;
  std::array<std::int64_t, 2> tile{1, 1};
  for (const Action& action : program.actions) {
    if (action.producer != index || action.box.empty()) continue;
    for (int d = 0; d < 2; ++d) {
      const std::int64_t size = action.tile[d] > 0 ? action.tile[d] : action.box.size(d);
      tile[d] = std::max(tile[d], size);
      note_sizes(d == 0 ? &rows : &cols, action.box.size(d), size);
    }
  }
  const GemmShape shape{.tile_rows = tile[0],
                        .tile_cols = tile[1],
                        .k = producer.k,
                        .lda = producer.k,
                        .ldb = n_,
                        .b_dtype = producer.weight};
  gemm_ = std::make_unique<GemmKernel>(shape, rows, cols);
}

void TileMaker::make(const Inputs& in, const Box& box, const float* rows, float* tile, std::int64_t ld,
                     void* scratch) const {
  const Producer& p = producer_;
  const std::int64_t m = box.size(0), n = box.size(1);
  const auto weight = static_cast<std::int64_t>(size_of(p.weight));
  const auto* w = static_cast<const std::byte*>(in.w);
  switch (p.kind) {
    case ProducerKind::gemm: {
      const float* x = rows != nullptr ? rows : in.x + box.lo[0] * p.k;
      return gemm_->run(m, n, x, w + box.lo[1] * weight, tile, ld, scratch);
    }
    case ProducerKind::gemv: {
      const float* x = rows != nullptr ? rows : in.x + box.lo[0] * p.k;
      return gemv(n, p.k, w + box.lo[1] * p.k * weight, p.weight, p.k, GemvBatch{m, x, p.k, tile, ld});
    }
    case ProducerKind::embedding_bag: {
      const auto table = static_cast<std::size_t>(box.lo[1] / p.dim);
      return embedding_bag({in.tables[table], p.rows, p.dim}, {in.indices[table], in.offsets[table]}, p.pooling,
                           box.lo[0], box.hi[0], tile, ld);
    }
    case ProducerKind::window:
      if (in.x == nullptr) return;  // written through a window: `tile` is its target, and holds it already
      [[fallthrough]];
    case ProducerKind::copy:
      return copy(m, n, {in.x + box.lo[0] * n_ + box.lo[1], n_, Dtype::f32}, {tile, ld, Dtype::f32});
  }
}

}  // namespace weft
