// Softmax attention of up to 256 lines, each the query of one head at one position, against keys and values that all of
// them share: what Attention and CachedAttention are made of. Keys are taken 64 at a time, and a running maximum and
// sum of every line carry the softmax from block to block. Both products of a block go through GemmKernel.
//
// Blocks of keys begin at multiples of 64 whatever the lines, and elements of products are chains in order: the bits of
// a line depend on its query, on the keys it sees and their values alone, not on the lines beside it.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "weft/kernel/gemm/gemm.h"

namespace weft {

class AttentionLines {
 public:
  static constexpr std::int64_t kMost = 256;

  struct Shape {
    std::int64_t qk_dim, v_dim;  // columns of a query and a key, and of a value
    std::int64_t ldk, ldv;       // elements from key to key
    float scale;                 // of the scores
    float cap = 0;               // scores become cap * tanh(score / cap); 0: they stay
  };

  explicit AttentionLines(const Shape& shape);

  // Line i sees keys [first, end), at least one; neither falls from a line to the next. Returns where its query goes.
  float* line(std::int64_t i, std::int64_t first, std::int64_t end);

  // Lines 0 to count - 1 against keys and values from position 0 on; what no line sees is not read. Allocates nothing.
  void run(std::int64_t count, const float* k, const float* v);

  const float* result(std::int64_t i) const { return results_.get() + i * shape_.v_dim; }  // (v_dim)

 private:
  using Floats = std::unique_ptr<float[], void (*)(void*)>;  // on a cache line
  static Floats floats(std::int64_t count);

  struct Keys {  // a block of them
    std::int64_t begin, count;
  };

  Keys load_keys(std::int64_t begin, std::int64_t end, const float* k, const float* v);
  void add_block(std::int64_t line, std::int64_t rows, const Keys& keys);
  float weigh_line(std::int64_t line, const Keys& keys, float* scores);

  Shape shape_;
  GemmKernel scores_, values_, tail_values_;
  Floats queries_;                         // (kMost, qk_dim)
  Floats results_;                         // (kMost, v_dim)
  Floats keys_, packed_, tail_;            // of a block: packed keys, packed values, values filled up with zeros
  Floats tile_, made_;                     // (64, 64): scores, then weights; (64, v_dim)
  std::vector<float> largest_, sum_;       // of every line's scores so far
  std::vector<std::int64_t> first_, end_;  // of the keys a line sees
};

}  // namespace weft
