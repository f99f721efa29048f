// The stages that blocks of several kinds have: a product with what is exchanged beside it, and attention.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "weft/study/ledger/block.h"

namespace weft {

// One product with the workload's shapes, which are those of the sub-layer `name`.
struct ProductStage {
  std::string name;
  std::function<const float*()> x;               // called in the stage, before the product
  std::function<void(const Result&)> then = {};  // called in the stage, after it
  Space space = keep();                          // sums and gathers take this rank's part of a product
  bool gathers = false;                          // the space feeds the product: x is the rows of this rank
  Activation activation = Activation::none;
};
MeasuredPart& add_product(WorkloadBlock& block, const ProductStage& stage);

// What goes between products; rows and columns of a matrix.
struct Width {
  std::int64_t rows, cols;
};
// A result as one matrix, copied into `room` only where it lies in pieces.
const float* as_one(const Result& result, std::int64_t cols, float* room);
void add_to(const Result& result, const float* x, Width width, float* out);  // out = x + result
// A source of a product: x, each row over its root mean square, in `room`.
std::function<const float*()> unit_rows_of(const float* x, Width width, float* room);

// Causal attention over columns [q | k | v] of a matrix, by heads. A rank whose share is no whole number of heads has a
// last one that is narrower.
struct HeadSplit {
  std::int64_t rows, sequence, q_cols, kv_cols, head_dim;
};
std::function<void(const float* qkv, float* y)> attention_over(const HeadSplit& split);

// A stage without a product, whose sub-layer the cluster's rates price: every row sees `sequence` rows.
void add_attention_stage(WorkloadBlock& block, std::int64_t sequence, std::function<void()> attend);
// Attention of this rank's heads over all tokens, from the product `in`, whose result is [q | k | v].
void add_attention_of_heads(WorkloadBlock& block, MeasuredPart& in, float* qkv, float* attended);

// Attention of a mixture-of-experts block. It ends with its output added to x, in `middle`.
struct MoeRooms {
  float *x, *h, *qkv, *attended, *middle, *y;
};
void add_moe_attention(WorkloadBlock& block, MoeRooms& at);

}  // namespace weft
