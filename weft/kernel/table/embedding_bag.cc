#include "weft/kernel/table/embedding_bag.h"

#include <iterator>

#include "weft/base/error.h"
#include "weft/kernel/variant.h"

namespace weft {

void embedding_bag(const EmbeddingTable& table, const Bags& bags, Pooling pooling, std::int64_t begin, std::int64_t end,
                   float* out, std::int64_t ld) {
  variant().bag(table, bags, pooling, begin, end, out, ld);
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
  for (std::size_t i = 0; i < indices.size(); ++i)
    if (indices[i] < 0 || indices[i] >= num_rows)
      bad_input("index {} of table \"{}\" is {}, but the table has {} rows; use 0 to {}", i, table_name, indices[i],
                num_rows, num_rows - 1);
}

}  // namespace weft
