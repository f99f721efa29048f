// Pooled embedding lookup. Rows of a table are summed in the order listed in the bag; an empty bag gives
// zeros. Indices are checked once, apart and ahead of time: the lookup itself trusts them.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "weft/base/choices.h"

namespace weft {

struct EmbeddingTable {
  const float* data;  // (num_rows, dim), rows contiguous
  std::int64_t num_rows;
  std::int64_t dim;
};

// Sample b holds indices[offsets[b]] .. indices[offsets[b + 1] - 1]; there are batch + 1 offsets.
struct Bags {
  const std::int64_t* indices;
  const std::int64_t* offsets;
};

// Pools the samples [begin, end) of the batch: sample b goes to out + (b - begin) * ld. The bits of a sample
// do not depend on the range it is asked for in.
void embedding_bag(const EmbeddingTable& table, const Bags& bags, Pooling pooling, std::int64_t begin, std::int64_t end,
                   float* out, std::int64_t ld);

// The gradient of a table: row i adds up the gradients of all bags that it is in, sample b's at grad + b * ld, divided
// by the size of the bag where the pooling is a mean. Bags are added in order, so the bits are fixed. `rows` is
// (num_rows, dim) and is added to. Indices as above.
void embedding_bag_backward(const float* grad, std::int64_t ld, const Bags& bags, Pooling pooling, std::int64_t batch,
                            float* rows, std::int64_t dim);

// Throws bad_input, naming the table, the position and the value, where an index of a bag is outside [0, num_rows) or
// the offsets are not an ascending cut of the indices. Indices before the first bag and behind the last are not read:
// they may be another table's.
void validate_indices(std::string_view table_name, std::int64_t num_rows, std::span<const std::int64_t> indices,
                      std::span<const std::int64_t> offsets);

}  // namespace weft
