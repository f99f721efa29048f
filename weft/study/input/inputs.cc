#include "weft/study/input/inputs.h"

#include <unistd.h>

#include <algorithm>

#include "weft/base/dtype.h"
#include "weft/base/index.h"
#include "weft/mesh/box.h"
#include "weft/study/input/values.h"

namespace weft {
namespace {

constexpr std::int64_t kMaxCopies = 32;

std::int64_t cache_bytes() {
  const std::int64_t l3 = sysconf(_SC_LEVEL3_CACHE_SIZE), l2 = sysconf(_SC_LEVEL2_CACHE_SIZE);
  return std::clamp<std::int64_t>(std::max(l3, l2), 1 << 20, 64 << 20);
}

// Enough that none is still in the cache when its turn comes again.
std::int64_t copies_of(const Producer& p) {
  if (!p.is_product()) return 1;
  const std::int64_t bytes = p.k * p.n * size_of(p.weight);
  return std::clamp<std::int64_t>(ceil_div(2 * cache_bytes(), bytes) + 1, 1, kMaxCopies);
}

}  // namespace

double RankInputs::bytes(const OpSpec& spec) {
  const Producer& p = spec.producer;
  const double m = p.m, n = p.n, k = p.k;
  if (p.kind == ProducerKind::embedding_bag) {
    double most = 0;
    for (const auto& of_rank : spec.bags) {
      double bytes = 0;
      for (const BagTable& bag : of_rank)  // indices twice: panels hold them in their own order
        bytes += static_cast<double>(bag.rows) * p.dim * 4 + m * (bag.pooling + 1) * 8 * 2;
      most = std::max(most, bytes);
    }
    return most;
  }
  if (p.kind == ProducerKind::copy) return m * n * 4;
  return m * k * 4 + (p.addend ? 2 * m * n * 4 : 0) + k * n * size_of(p.weight) * copies_of(p);
}

RankInputs::RankInputs(const OpSpec& spec, int rank) : spec_(spec), rank_(rank), copies_(copies_of(spec.producer)) {
  const Producer& p = spec.producer;
  if (p.kind == ProducerKind::embedding_bag) {
    for (const BagTable& bag : spec.bags[at(rank)]) {
      const std::uint64_t stream = stream_of(Input::table, rank, 0, tables_.size());
      auto& table = tables_.emplace_back(bag.rows * p.dim);
      for (std::int64_t i = 0; i < std::ssize(table); ++i) table[at(i)] = value_at(stream, i);
      indices_.emplace_back(p.m * bag.pooling);
      auto& offsets = offsets_.emplace_back(p.m + 1);
      for (std::int64_t b = 0; b <= p.m; ++b) offsets[at(b)] = b * bag.pooling;
      table_pointers_.push_back(table.data());
      index_pointers_.push_back(indices_.back().data());
      offset_pointers_.push_back(offsets.data());
    }
    return;
  }
  x_.resize(num(p.m * (p.is_product() ? p.k : p.n)));
  if (!p.is_product()) return;
  if (p.addend) addend_.resize(num(p.m * p.n));
  weight_elements_ = p.k * p.n;
  const std::uint64_t stream = stream_of(Input::w, rank, 0);
  const bool narrow = p.weight != Dtype::f32;
  (narrow ? w_narrow_.resize(weight_elements_ * copies_) : w_.resize(weight_elements_ * copies_));
  for (std::int64_t i = 0; i < weight_elements_; ++i) {
    const float value = value_at(stream, i);
    for (std::int64_t c = i; c < weight_elements_ * copies_; c += weight_elements_)
      if (narrow)
        w_narrow_[c] = p.weight == Dtype::f16 ? to_f16(value).bits : to_bf16(value).bits;
      else
        w_[c] = value;
  }
}

void RankInputs::refresh(std::uint64_t round) {
  const std::uint64_t stream = stream_of(Input::x, rank_, round);
  for (std::int64_t i = 0; i < std::ssize(x_); ++i) x_[at(i)] = value_at(stream, i);
  const std::uint64_t addends = stream_of(Input::addend, rank_, round);
  for (std::int64_t i = 0; i < std::ssize(addend_); ++i) addend_[at(i)] = value_at(addends, i);
  for (std::size_t t = 0; t < indices_.size(); ++t) {
    const std::uint64_t indices = stream_of(Input::index, rank_, round, t);
    const std::int64_t rows = spec_.bags[at(rank_)][t].rows;
    for (std::int64_t i = 0; i < std::ssize(indices_[t]); ++i)
      indices_[t][at(i)] = zipf_index_at(indices, i, rows, spec_.zipf);
  }
}

const void* RankInputs::weights() {
  const std::int64_t at = turn_++ % copies_ * weight_elements_;
  return w_narrow_.empty() ? static_cast<const void*>(w_.data() + at) : w_narrow_.data() + at;
}

std::vector<const float*> RankInputs::weight_copies() const {
  std::vector<const float*> out;
  for (std::int64_t c = 0; c < copies_ && !w_.empty(); ++c) out.push_back(w_.data() + c * weight_elements_);
  return out;
}

Inputs RankInputs::next() {
  Inputs in;
  in.x = x_.data();
  in.w = weights();
  in.addend = addend_.empty() ? nullptr : addend_.data();
  in.tables = table_pointers_;
  in.indices = index_pointers_;
  in.offsets = offset_pointers_;
  return in;
}

EstimateHint bench_hint(const OpSpec& spec) {
  EstimateHint hint = hint_of(spec);
  const Producer& p = spec.producer;
  if (p.k > 0) hint.weights_in_turn = RankInputs::bytes(spec) - 4.0 * p.m * p.k;
  return hint;
}

}  // namespace weft
