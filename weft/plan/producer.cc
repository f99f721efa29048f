#include "weft/plan/producer.h"

#include <algorithm>
#include <utility>

#include "weft/base/index.h"
#include "weft/base/names.h"

namespace weft {
namespace {

constexpr Names<ProducerKind, 5> kKinds{{{ProducerKind::gemm, "gemm"},
                                         {ProducerKind::gemv, "gemv"},
                                         {ProducerKind::embedding_bag, "embedding_bag"},
                                         {ProducerKind::copy, "copy"},
                                         {ProducerKind::window, "window"}}};

constexpr Names<WeightLayout, 2> kLayouts{{{WeightLayout::kn, "kn"}, {WeightLayout::nk, "nk"}}};

constexpr std::int64_t kMaxSize = std::int64_t{1} << 31;

void check_size(const char* what, std::int64_t value) {
  if (value < 1 || value > kMaxSize) bad_input("{} is {}; sizes are whole numbers from 1 to {}", what, value, kMaxSize);
}

// A gemv this short takes some ten microseconds: cut into tiles it would spend a tenth of that on signals.
constexpr std::int64_t kShortGemv = 1 << 18;
// Of longer ones a tile has this many products at least: with k 8 and tiles of 256 an all-reduce of 4 MB took 15 ms,
// with tiles of 4096 7 ms (2 ranks; the gemv alone 6).
constexpr std::int64_t kGemvTile = 1 << 15;

std::array<std::int64_t, 2> default_tile(const Producer& p) {
  switch (p.kind) {
    case ProducerKind::gemm:
      return {64, 64};  // a 16 KB result stays in L1 until its epilogue has stored it
    case ProducerKind::gemv:
      if (p.m > kFewRows && size_of(p.weight) == 0) return {256, 64};  // unpacks w
      if (p.m > kFewRows) return {64, 64};
      if (p.n * p.k <= kShortGemv) return {p.m, 4096};
      return {p.m, std::clamp<std::int64_t>(kGemvTile / std::max<std::int64_t>(p.k, 1) / 256 * 256, 256, 4096)};
    case ProducerKind::embedding_bag:
      return {64, p.dim};
    case ProducerKind::copy:
    case ProducerKind::window:
      return {std::max<std::int64_t>(1, 16384 / std::max<std::int64_t>(p.n, 1)), p.n};
  }
  return {64, 64};
}

void check_operands(const Producer& p) {
  for (const auto& [name, dtype] : {std::pair{"x", p.input}, std::pair{"y", p.output}}) {
    if (dtype == Dtype::f32 || (dtype == Dtype::bf16 && p.may_be_narrow())) continue;
    bad_input("\"{}\" is {}, but the {} of a {} is f32{} in this Weft; give f32", name, to_string(dtype), name,
              to_string(p.kind), p.may_be_narrow() ? " or bf16" : "");
  }
  if (p.kind == ProducerKind::window && p.input != p.output)
    bad_input("a window is written in {} but makes {}; what is written is what it makes, so give x and y one type",
              to_string(p.input), to_string(p.output));
  if (p.weights != WeightLayout::kn && p.kind != ProducerKind::gemm)
    bad_input("\"layout\" is {}, but only a gemm has a choice; leave it out of a {}", to_string(p.weights),
              to_string(p.kind));
}

}  // namespace

std::string_view to_string(ProducerKind kind) { return name_of(kKinds, kind); }
std::string_view to_string(WeightLayout layout) { return name_of(kLayouts, layout); }
WeightLayout parse_weight_layout(std::string_view name) { return parse_name(kLayouts, "layout of weights", name); }
ProducerKind parse_producer_kind(std::string_view name) { return parse_name(kKinds, "producer", name); }

Producer validated(Producer p, int num_ranks) {
  check_size("m", p.m);
  check_size("n", p.n);
  if (p.is_product())
    check_size("k", p.k);
  else if (p.k != 0)
    bad_input("k is {}, but only a gemm and a gemv have one; leave it out of a {}", p.k, to_string(p.kind));
  if (p.kind == ProducerKind::embedding_bag) {
    check_size("dim", p.dim);
    check_size("rows", p.rows);
    if (p.n % p.dim != 0) bad_input("n is {}, no multiple of dim {}; give whole tables", p.n, p.dim);
  }
  if (!p.n_of.empty()) {
    if (p.n_of.size() != num(num_ranks))
      bad_input("columns are given for {} ranks, but there are {}; give one number per rank", p.n_of.size(), num_ranks);
    for (const std::int64_t n : p.n_of) {
      check_size("columns of a rank", n);
      if (p.kind == ProducerKind::embedding_bag && n % p.dim != 0)
        bad_input("a rank has {} columns, no multiple of dim {}; give whole tables", n, p.dim);
    }
  }
  const bool plain = p.weight == Dtype::f32 || p.weight == Dtype::bf16 || p.weight == Dtype::f16;
  if (!plain && (size_of(p.weight) != 0 || p.kind != ProducerKind::gemv))
    bad_input("weights of type {} are not supported; use f32, bf16 or f16, or of a gemv those in blocks",
              to_string(p.weight));
  check_operands(p);
  const auto tile = default_tile(p);
  for (int d = 0; d < 2; ++d) {
    if (p.tile[d] < 0) bad_input("tile size {} is negative; give a positive size, or 0 to let Weft choose", p.tile[d]);
    if (p.tile[d] == 0) p.tile[d] = tile[d];
  }
  if (p.kind == ProducerKind::embedding_bag && p.tile[1] != p.dim)
    bad_input("embedding tiles are one table wide ({} columns), not {}", p.dim, p.tile[1]);
  if (p.addend && (p.kind == ProducerKind::embedding_bag || p.kind == ProducerKind::window))
    bad_input("{} takes no addend; use gemm, gemv or copy, or add it before", to_string(p.kind));
  if (p.kind == ProducerKind::window && (p.has_epilogue() || !p.n_of.empty()))
    bad_input("a window has no epilogue and one width on every rank; apply it to what is written, and give one n");
  if (p.ld != 0 && p.ld < p.n)
    bad_input("rows of {} columns cannot lie {} elements apart; use ld = {} or more", p.n, p.ld, p.n);
  p.tile[0] = std::min(p.tile[0], p.m);
  p.tile[1] = std::min(p.tile[1], p.n_of.empty() ? p.n : *std::max_element(p.n_of.begin(), p.n_of.end()));
  return p;
}

Producer gemm(const GemmOptions& o) {
  Producer p;
  p.kind = ProducerKind::gemm;
  p.m = o.m, p.n = o.n, p.k = o.k, p.weight = o.weight, p.tile = o.tile;
  p.addend = o.addend, p.bias = o.bias, p.residual = o.residual, p.activation = o.activation;
  p.input = o.x, p.output = o.y, p.weights = o.layout;
  return p;
}

Producer gemv(const GemmOptions& o) {
  Producer p = gemm(o);
  p.kind = ProducerKind::gemv;
  if (o.m == 0) p.m = 1;
  return p;
}

Producer embedding_bag(const EmbeddingOptions& o) {
  Producer p;
  p.kind = ProducerKind::embedding_bag;
  p.m = o.batch, p.dim = o.dim, p.rows = o.rows, p.pooling = o.pooling;
  p.n = o.tables * o.dim;
  for (const std::int64_t tables : o.tables_of) p.n_of.push_back(tables * o.dim);
  if (!p.n_of.empty()) p.n = *std::max_element(p.n_of.begin(), p.n_of.end());
  p.tile = {o.tile_rows, o.dim};
  return p;
}

Producer copy(const CopyOptions& o) {
  Producer p;
  p.kind = ProducerKind::copy;
  p.m = o.rows, p.n = o.cols, p.tile = o.tile, p.addend = o.addend;
  p.input = p.output = o.dtype;
  return p;
}

Producer window(const WindowOptions& o) {
  Producer p;
  p.kind = ProducerKind::window;
  p.m = o.m, p.n = o.n, p.ld = o.ld;
  p.input = p.output = o.dtype;
  return p;
}

}  // namespace weft
