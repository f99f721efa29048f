#include "weft/kernel/table/embedding_bag.h"

#include <iterator>

#include "weft/base/error.h"
#include "weft/base/index.h"
#include "weft/kernel/variant.h"

namespace weft {

void embedding_bag(const EmbeddingTable& table, const Bags& bags, Pooling pooling, std::int64_t begin, std::int64_t end,
                   float* out, std::int64_t ld) {
  variant().bag(table, bags, pooling, begin, end, out, ld);
}

void embedding_bag_backward(const float* grad, std::int64_t ld, const Bags& bags, Pooling pooling, std::int64_t batch,
                            float* rows, std::int64_t dim) {
  constexpr std::int64_t kAhead = 8;  // rows are far apart: no hardware sees which comes next
  const std::int64_t last = bags.offsets[batch];
  for (std::int64_t b = 0; b < batch; ++b) {
    const std::int64_t begin = bags.offsets[b], end = bags.offsets[b + 1];
    const float share = pooling == Pooling::mean && end > begin ? 1.0F / static_cast<float>(end - begin) : 1.0F;
    const float* __restrict from = grad + b * ld;
    for (std::int64_t i = begin; i < end; ++i) {
      if (i + kAhead < last) __builtin_prefetch(rows + bags.indices[i + kAhead] * dim, 1);
      float* __restrict row = rows + bags.indices[i] * dim;
      for (std::int64_t d = 0; d < dim; ++d) row[d] += share * from[d];
    }
  }
}

void validate_indices(std::string_view table_name, std::int64_t num_rows, std::span<const std::int64_t> indices,
                      std::span<const std::int64_t> offsets) {
  if (offsets.empty()) bad_input("table \"{}\" has no offsets; pass batch + 1 of them", table_name);
  std::int64_t last = 0;
  for (std::size_t b = 0; b < offsets.size(); ++b) {
    if (offsets[b] < last)
      bad_input("offset {} of table \"{}\" is {}, below {}; offsets start at 0 or above and never fall", b, table_name,
                offsets[b], last);
    last = offsets[b];
  }
  if (last > std::ssize(indices))
    bad_input("offset {} of table \"{}\" is {}, but there are {} indices; pass the indices of every bag",
              offsets.size() - 1, table_name, last, indices.size());
  for (std::size_t i = num(offsets[0]); i < num(last); ++i)
    if (indices[i] < 0 || indices[i] >= num_rows)
      bad_input("index {} of table \"{}\" is {}, but the table has {} rows; use 0 to {}", i, table_name, indices[i],
                num_rows, num_rows - 1);
}

}  // namespace weft
