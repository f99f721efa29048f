// Causal softmax attention over rows of q, k and v, f32: the sub-layer between two products that exchanges nothing.
// Scratch does not grow with the sequence (attention_lines.h).
#pragma once

#include <cstdint>

#include "weft/kernel/attention/attention_lines.h"

namespace weft {

struct AttentionShape {
  std::int64_t sequence = 0;                        // queries, and keys: query i sees keys 0 to i
  std::int64_t heads = 0;                           // of q
  std::int64_t kv_heads = 0;                        // of k and v; heads / kv_heads neighbours share one
  std::int64_t qk_dim = 0, v_dim = 0;               // columns of a head in q and k, and in v and the output
  std::int64_t ldq = 0, ldk = 0, ldv = 0, ldy = 0;  // elements from row to row
};

class Attention {
 public:
  // Throws bad_input where a size is below 1, heads are no multiple of kv_heads, or rows are shorter than their heads.
  explicit Attention(const AttentionShape& shape);

  // y (sequence, heads * v_dim) = softmax(q k^T / sqrt(qk_dim)) v, head by head. y overlaps no input. Allocates
  // nothing; not for two threads at once.
  void run(const float* q, const float* k, const float* v, float* y);

 private:
  void run_head(const float* q, const float* k, const float* v, float* y);

  AttentionShape shape_;
  AttentionLines lines_;
};

}  // namespace weft
