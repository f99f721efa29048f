// A producer makes the tiles of an output. A description only: what the kernels read is bound at run time.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "weft/base/choices.h"
#include "weft/base/dtype.h"

namespace weft {

enum class ProducerKind { gemm, gemv, embedding_bag, copy, window };
enum class WeightLayout { kn, nk };  // w is (k, n) or (n, k), row-major

std::string_view to_string(ProducerKind kind);
std::string_view to_string(WeightLayout layout);
ProducerKind parse_producer_kind(std::string_view name);
WeightLayout parse_weight_layout(std::string_view name);

// Every producer makes an m x n output on each rank, in tiles of `tile` rows and columns.
//   gemm           x (m, k) times w (k, n)
//   gemv           x (m, k) times w (n, k) transposed: w row-major by output, as linear layers keep it. Few rows read
//                  it once, as it lies; more are made as a gemm's are, from panels packed in every run
//   embedding_bag  m samples pooled from `tables` tables of (rows, dim); n = tables * dim; one table per tile column
//   copy           x (m, n) as it is: a collective alone
//   window         whatever the caller writes, straight into the steps' targets (world/window.h): a step's work is done
//                  when its waits have been met and the caller says so, and only its signals are left. Without pages to
//                  share (the reference executor), or where a run gives x (m, n), it is a copy of x.
struct Producer {
  ProducerKind kind = ProducerKind::copy;
  std::int64_t m = 0, n = 0, k = 0;
  std::vector<std::int64_t> n_of;           // n of every rank where they differ (uneven tables); else empty
  std::array<std::int64_t, 2> tile{0, 0};   // 0: chosen from the shape
  Dtype weight = Dtype::f32;                // of w: f32, bf16 or f16, or of a gemv one of those in blocks
  Dtype input = Dtype::f32;                 // of x, and
  Dtype output = Dtype::f32;                // of y: f32, or of a gemm, a copy and a window bf16 too
  WeightLayout weights = WeightLayout::kn;  // how w of a gemm lies
  std::int64_t dim = 0;                     // embedding_bag
  std::int64_t ld = 0;                      // window: elements from row to row, for build() alone; 0: n
  std::int64_t rows = 0;                    // embedding_bag: rows of each table
  Pooling pooling = Pooling::sum;
  // gemm, gemv, copy: a rank's tile is addend + (x times w), finished in f32 before any sum: part of making it, so
  // neither orders of sums nor proofs know of it. An input of every rank, (m, n) as its output.
  bool addend = false;
  // Applied once, when an element has all its contributions: activation(sum + bias) + residual.
  bool bias = false;
  bool residual = false;
  Activation activation = Activation::none;

  // What it reads and makes: rows x (of an embedding_bag i64 indices), weights or tables w (of a table k is its rows
  // and n its dim), and an output y. Which executor can is its own affair: the CPU's and the reference take all, the
  // CPU's widening bf16 as it reads; CUDA's takes operands of products in bf16, w in either layout.
  Dtype x() const { return kind == ProducerKind::embedding_bag ? Dtype::i64 : input; }
  Dtype y() const { return output; }
  bool may_be_narrow() const {  // x and y in bf16
    return kind == ProducerKind::gemm || kind == ProducerKind::copy || kind == ProducerKind::window;
  }
  bool is_product() const { return kind == ProducerKind::gemm || kind == ProducerKind::gemv; }
  bool has_w() const { return kind != ProducerKind::copy && kind != ProducerKind::window; }
  WeightLayout layout() const { return kind == ProducerKind::gemv ? WeightLayout::nk : weights; }
  bool has_epilogue() const { return bias || residual || activation != Activation::none; }
  std::int64_t columns(int rank) const { return n_of.empty() ? n : n_of[rank]; }
};

// A gemv of so many rows reads its weights once for all of them; of more rows it costs what a gemm does.
inline constexpr std::int64_t kFewRows = 24;

// Checks sizes and fills in the tile. Throws bad_input naming the value and the remedy.
Producer validated(Producer producer, int num_ranks);

struct GemmOptions {
  std::int64_t m = 0, n = 0, k = 0;
  Dtype weight = Dtype::f32;
  std::array<std::int64_t, 2> tile{0, 0};
  bool addend = false, bias = false, residual = false;
  Activation activation = Activation::none;
  Dtype x = Dtype::f32, y = Dtype::f32;  // not of a gemv
  WeightLayout layout = WeightLayout::kn;
};
struct EmbeddingOptions {
  std::int64_t tables = 0, rows = 0, dim = 0, batch = 0;
  std::vector<std::int64_t> tables_of;  // tables of every rank where they differ
  Pooling pooling = Pooling::sum;
  std::int64_t tile_rows = 0;
};
struct CopyOptions {
  std::int64_t rows = 0, cols = 0;
  std::array<std::int64_t, 2> tile{0, 0};
  bool addend = false;
  Dtype dtype = Dtype::f32;  // of x and y: f32 or bf16
};

// Sums of a window may have rows that lie `ld` elements apart, so that each owner's are whole pages (window_ld()).
struct WindowOptions {
  std::int64_t m = 0, n = 0, ld = 0;
  Dtype dtype = Dtype::f32;  // of what is written, and of y: f32 or bf16
};

Producer gemm(const GemmOptions& options);
Producer gemv(const GemmOptions& options);  // m defaults to 1
Producer embedding_bag(const EmbeddingOptions& options);
Producer copy(const CopyOptions& options);
Producer window(const WindowOptions& options);

}  // namespace weft
