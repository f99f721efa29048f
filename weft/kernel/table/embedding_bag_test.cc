#include "weft/kernel/table/embedding_bag.h"

#include <random>
#include <string>

#include <gtest/gtest.h>

#include "weft/base/error.h"
#include "weft/base/index.h"
#include "weft/kernel/random_test.h"
#include "weft/kernel/reference.h"
#include "weft/kernel/variant.h"

namespace weft {
namespace {

struct Batch {
  explicit Batch(std::int64_t size, std::int64_t num_rows) {
    std::mt19937 engine(9);
    for (std::int64_t b = 0; b < size; ++b) {
      const auto count = b % 4 == 1 ? 0 : engine() % 90;  // some bags empty, some longer than the prefetch
      for (unsigned i = 0; i < count; ++i)
        indices.push_back(static_cast<std::int64_t>(engine() % static_cast<unsigned>(num_rows)));
      offsets.push_back(std::ssize(indices));
    }
  }
  std::vector<std::int64_t> indices;
  std::vector<std::int64_t> offsets = {0};
};

TEST(EmbeddingBag, AgreesWithTheReferenceWithTheSameBitsOnEveryVariantAndSplit) {
  const std::int64_t num_rows = 101, size = 13;
  const Batch batch(size, num_rows);
  const Bags bags{batch.indices.data(), batch.offsets.data()};
  for (std::int64_t dim : {1, 5, 16, 63, 64, 67, 128, 200})
    for (Pooling pooling : {Pooling::sum, Pooling::mean}) {
      const std::int64_t ld = dim + 2;
      const std::vector<float> values = random_floats(num_rows * dim, 10);
      const EmbeddingTable table{values.data(), num_rows, dim};
      std::vector<float> whole(num(size * ld), 7.0f);
      embedding_bag(table, bags, pooling, 0, size, whole.data(), ld);
      std::vector<double> exact(num(size * dim));
      embedding_bag_f64(table, bags, pooling, 0, size, exact.data(), dim);
      for (std::int64_t b = 0; b < size; ++b)
        for (std::int64_t d = 0; d < ld; ++d) {
          const float got = whole[at(b * ld + d)];
          const double want = d < dim ? exact[at(b * dim + d)] : 7.0;  // past dim: untouched
          ASSERT_NEAR(got, want, 2e-5) << "sample " << b << " column " << d;
        }
      for (Isa isa : reachable_isas()) {
        std::vector<float> split(whole.size(), 7.0f);
        for (std::int64_t b = 0; b < size; b += 5)
          variant(isa).bag(table, bags, pooling, b, std::min(b + 5, size), split.data() + b * ld, ld);
        ASSERT_TRUE(same_bits(whole, split)) << to_string(isa) << " dim " << dim;
      }
    }
}

TEST(EmbeddingBag, ItsGradientAddsUpTheBagsThatARowIsIn) {
  const std::int64_t num_rows = 11, size = 13;
  const Batch batch(size, num_rows);
  const Bags bags{batch.indices.data(), batch.offsets.data()};
  for (std::int64_t dim : {1, 5, 64, 67})
    for (Pooling pooling : {Pooling::sum, Pooling::mean}) {
      const std::int64_t ld = dim + 3;
      const std::vector<float> grad = random_floats(size * ld, 12);
      std::vector<float> rows(num(num_rows * dim), 1.0f);
      embedding_bag_backward(grad.data(), ld, bags, pooling, size, rows.data(), dim);
      std::vector<double> exact(rows.size(), 1.0);
      for (std::int64_t b = 0; b < size; ++b) {
        const std::int64_t begin = batch.offsets[at(b)], end = batch.offsets[at(b + 1)];
        const double share = pooling == Pooling::mean ? 1.0 / static_cast<double>(end - begin) : 1.0;
        for (std::int64_t i = begin; i < end; ++i)
          for (std::int64_t d = 0; d < dim; ++d)
            exact[at(batch.indices[at(i)] * dim + d)] += share * static_cast<double>(grad[at(b * ld + d)]);
      }
      for (std::size_t i = 0; i < rows.size(); ++i)
        ASSERT_NEAR(rows[i], exact[i], 1e-4) << "dim " << dim << " at " << i;
    }
}

std::string refusal(std::vector<std::int64_t> indices, std::vector<std::int64_t> offsets) {
  try {
    validate_indices("users", 10, indices, offsets);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::bad_input);
    return error.what();
  }
  return "";
}

TEST(EmbeddingBag, BadIndicesAreNamed) {
  EXPECT_EQ(refusal({0, 9}, {0, 1, 2}), "");
  EXPECT_EQ(refusal({}, {0, 0}), "");
  EXPECT_EQ(refusal({0, 10}, {0, 2}), "index 1 of table \"users\" is 10, but the table has 10 rows; use 0 to 9");
  EXPECT_NE(refusal({-1}, {0, 1}).find("is -1"), std::string::npos);
  EXPECT_NE(refusal({1, 2}, {0, 2, 1}).find("offset 2"), std::string::npos);
  EXPECT_NE(refusal({1, 2}, {-1, 2}).find("offset 0"), std::string::npos);
  EXPECT_NE(refusal({1, 2}, {0, 3}).find("2 indices"), std::string::npos);
  EXPECT_NE(refusal({}, {}).find("no offsets"), std::string::npos);
  EXPECT_EQ(refusal({99, 0, 9, 99}, {1, 2, 3}), "") << "of other tables";
  EXPECT_NE(refusal({99, 0, 99, 99}, {1, 2, 3}).find("index 2"), std::string::npos);
}

TEST(EmbeddingBag, PoolingNamesRoundTrip) {
  for (Pooling pooling : {Pooling::sum, Pooling::mean}) EXPECT_EQ(parse_pooling(to_string(pooling)), pooling);
  EXPECT_THROW(parse_pooling("max"), Error);
}

}  // namespace
}  // namespace weft
