// What one rank of a benchmark computes with: memory filled from values.h.
#pragma once

#include <cstdint>
#include <vector>

#include "weft/exec/bindings.h"
#include "weft/study/op_spec.h"

namespace weft {

// Fresh x and indices every round. Weights lie in several copies that runs take in turn, together more than twice the
// last-level cache where that is affordable: a model's next layer is never in the cache either.
class RankInputs {
 public:
  RankInputs(const OpSpec& spec, int rank);

  void refresh(std::uint64_t round);
  Inputs next();  // of this round, with the next copy of the weights; valid until the next refresh
  bool rotates() const { return copies_ > 1; }
  std::vector<const float*> weight_copies() const;  // that next() takes in turn; none unless they are f32

  static double bytes(const OpSpec& spec);  // of one rank; a double, for it may be absurdly much

 private:
  const void* weights();

  const OpSpec& spec_;
  int rank_;
  std::int64_t copies_ = 1, turn_ = 0, weight_elements_ = 0;
  std::vector<float> x_, w_, addend_;
  std::vector<std::uint16_t> w_narrow_;
  std::vector<std::vector<float>> tables_;
  std::vector<std::vector<std::int64_t>> indices_, offsets_;
  std::vector<const float*> table_pointers_;
  std::vector<const std::int64_t*> index_pointers_, offset_pointers_;
};

EstimateHint bench_hint(const OpSpec& spec);  // hint_of, and the weights that runs take in turn

}  // namespace weft
