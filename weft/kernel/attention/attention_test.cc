#include "weft/kernel/attention/attention.h"

#include <cmath>
#include <string>

#include <fmt/core.h>
#include <gtest/gtest.h>

#include "weft/base/error.h"
#include "weft/base/index.h"
#include "weft/kernel/random_test.h"
#include "weft/kernel/reference.h"

namespace weft {
namespace {

std::string text(const AttentionShape& s) {
  return fmt::format("{} rows, {}/{} heads of {} and {}", s.sequence, s.heads, s.kv_heads, s.qk_dim, s.v_dim);
}

// Rows further apart than their heads, so that a wrong leading dimension shows.
AttentionShape shape_of(std::int64_t sequence, std::int64_t heads, std::int64_t kv_heads, std::int64_t qk,
                        std::int64_t v) {
  return {.sequence = sequence,
          .heads = heads,
          .kv_heads = kv_heads,
          .qk_dim = qk,
          .v_dim = v,
          .ldq = heads * qk + 3,
          .ldk = kv_heads * qk + 1,
          .ldv = kv_heads * v + 2,
          .ldy = heads * v + 5};
}

struct Result {
  double error = 0;   // largest, against float64
  bool stays = true;  // what lies between the rows of y is as it was
};

Result run(const AttentionShape& s, float spread) {
  const auto q = random_floats(s.sequence * s.ldq, 1, -spread, spread), k = random_floats(s.sequence * s.ldk, 2),
             v = random_floats(s.sequence * s.ldv, 3);
  std::vector<float> y(num(s.sequence * s.ldy), 7.0f);
  std::vector<double> exact(num(s.sequence * s.heads * s.v_dim));
  Attention attention(s);
  for (int turn = 0; turn < 2; ++turn) attention.run(q.data(), k.data(), v.data(), y.data());  // nothing is left over
  attention_f64(s, q.data(), k.data(), v.data(), exact.data());
  Result out;
  const std::int64_t width = s.heads * s.v_dim;
  for (std::int64_t i = 0; i < s.sequence; ++i)
    for (std::int64_t j = 0; j < s.ldy; ++j) {
      const double made = y[at(i * s.ldy + j)];
      if (j < width)
        out.error = std::max(out.error, std::abs(made - exact[at(i * width + j)]));
      else
        out.stays = out.stays && made == 7.0;
    }
  return out;
}

TEST(Attention, AgreesWithTheReferenceOnRaggedSizes) {
  for (const std::int64_t sequence : {1, 2, 63, 64, 65, 130, 200})
    for (const AttentionShape& s : {shape_of(sequence, 1, 1, 16, 16), shape_of(sequence, 3, 3, 152, 152),
                                    shape_of(sequence, 4, 2, 33, 7), shape_of(sequence, 4, 1, 24, 16)}) {
      const Result result = run(s, 1);
      EXPECT_LT(result.error, 3e-6) << text(s);
      EXPECT_TRUE(result.stays) << text(s);
    }
}

TEST(Attention, SharpWeightsStayFinite) {
  const Result result = run(shape_of(150, 2, 1, 64, 64), 200);  // scores of some hundreds: all but a few weights vanish
  EXPECT_LT(result.error, 1e-4);
}

TEST(Attention, AQuerySeesNothingAfterItself) {
  const AttentionShape s = shape_of(100, 2, 2, 32, 32);
  auto q = random_floats(s.sequence * s.ldq, 1), k = random_floats(s.sequence * s.ldk, 2),
       v = random_floats(s.sequence * s.ldv, 3);
  std::vector<float> before(num(s.sequence * s.ldy)), after = before;
  Attention attention(s);
  attention.run(q.data(), k.data(), v.data(), before.data());
  for (std::int64_t j = 70 * s.ldk; j < s.sequence * s.ldk; ++j) k[at(j)] = 100;
  for (std::int64_t j = 70 * s.ldv; j < s.sequence * s.ldv; ++j) v[at(j)] = 100;
  attention.run(q.data(), k.data(), v.data(), after.data());
  for (std::int64_t i = 0; i < 70; ++i)
    for (std::int64_t j = 0; j < s.heads * s.v_dim; ++j)
      ASSERT_EQ(before[at(i * s.ldy + j)], after[at(i * s.ldy + j)]) << i;
  EXPECT_NE(before[at(70 * s.ldy)], after[at(70 * s.ldy)]);
}

TEST(Attention, RefusesWhatCannotBe) {
  AttentionShape s = shape_of(10, 4, 3, 8, 8);
  EXPECT_THROW(Attention{s}, Error);
  s = shape_of(10, 4, 2, 8, 8);
  s.ldk = 15;
  EXPECT_THROW(Attention{s}, Error);
  s = shape_of(0, 4, 2, 8, 8);
  EXPECT_THROW(Attention{s}, Error);
}

}  // namespace
}  // namespace weft
