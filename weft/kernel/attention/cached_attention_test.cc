#include "weft/kernel/attention/cached_attention.h"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "weft/base/error.h"
#include "weft/base/index.h"
#include "weft/base/thread_pool.h"
#include "weft/kernel/random_test.h"

namespace weft {
namespace {

// A sequence's rows of q, k and v, and what attention makes of them.
struct Sequence {
  CachedAttentionShape shape;
  std::int64_t length, ldq, ldk;
  std::vector<float> q, k, v;

  Sequence(const CachedAttentionShape& s, std::int64_t length_in, unsigned seed, float spread = 1)
      : shape(s), length(length_in), ldq(s.heads * s.head_dim + 3), ldk(s.kv_heads * s.head_dim + 1) {
    q = random_floats(length * ldq, seed, -spread, spread);
    k = random_floats(length * ldk, seed + 1);
    v = random_floats(length * ldk, seed + 2);
  }

  std::int64_t kv_of(std::int64_t h) const {
    return shape.kv_of.empty() ? h / (shape.heads / shape.kv_heads) : shape.kv_of[at(h)];
  }

  // Row i of head h, in float64.
  std::vector<double> exact(std::int64_t i, std::int64_t h) const {
    const std::int64_t d = shape.head_dim, kv = kv_of(h) * d;
    const double scale = shape.scale != 0 ? static_cast<double>(shape.scale) : 1 / std::sqrt(static_cast<double>(d));
    std::vector<double> weights, out(num(d));
    double sum = 0;
    for (std::int64_t j = 0; j <= i; ++j) {
      double score = 0;
      for (std::int64_t c = 0; c < d; ++c) score += double(q[i * ldq + h * d + c]) * double(k[j * ldk + kv + c]);
      const bool seen = shape.window == 0 || i - j < shape.window;
      score *= scale;
      if (shape.cap > 0) score = shape.cap * std::tanh(score / shape.cap);
      weights.push_back(seen ? std::exp(score) : 0);
      sum += weights.back();
    }
    for (std::int64_t j = 0; j <= i; ++j)
      for (std::int64_t c = 0; c < d; ++c) out[c] += weights[j] / sum * double(v[j * ldk + kv + c]);
    return out;
  }
};

// The rows of a sequence, run in pieces of the sizes given, the last again and again. Nothing the attention may not
// look at is a number.
std::vector<float> run(ThreadPool& threads, const Sequence& s, std::vector<std::int64_t> pieces) {
  CachedAttention attention(s.shape, threads.size());
  const auto floats = num(attention.cache_floats());
  std::vector<float> k(floats, std::numeric_limits<float>::quiet_NaN()), v = k;
  const KvCache cache{k.data(), v.data()};
  std::vector<float> y(num(s.length * s.ldq), 7.0f);
  for (std::int64_t position = 0, piece = 0; position < s.length; ++piece) {
    const std::int64_t size = pieces[std::min<std::size_t>(num(piece), pieces.size() - 1)];
    const std::int64_t rows = std::min(size, s.length - position);
    attention.append(cache, position, rows, s.k.data() + position * s.ldk, s.ldk, s.v.data() + position * s.ldk, s.ldk);
    const AttentionRows part{cache, position, rows, s.q.data() + position * s.ldq, y.data() + position * s.ldq};
    attention.run(threads, {&part, 1}, s.ldq, s.ldq);
    position += rows;
  }
  return y;
}

double error_of(const Sequence& s, const std::vector<float>& y) {
  double error = 0;
  for (std::int64_t i = 0; i < s.length; ++i) {
    for (std::int64_t h = 0; h < s.shape.heads; ++h) {
      const std::vector<double> exact = s.exact(i, h);
      for (std::int64_t c = 0; c < s.shape.head_dim; ++c) {
        const double off = std::abs(double(y[i * s.ldq + h * s.shape.head_dim + c]) - exact[c]);
        if (!(off <= error)) error = off;  // a NaN is an error too
      }
    }
    for (std::int64_t j = s.shape.heads * s.shape.head_dim; j < s.ldq; ++j) EXPECT_EQ(y[i * s.ldq + j], 7.0f);
  }
  return error;
}

const CachedAttentionShape kShapes[] = {
    {.heads = 1, .kv_heads = 1, .head_dim = 16, .capacity = 300},
    {.heads = 4, .kv_heads = 2, .head_dim = 33, .capacity = 280},
    {.heads = 6, .kv_heads = 1, .head_dim = 64, .capacity = 261, .window = 40},
    {.heads = 3, .kv_heads = 3, .head_dim = 8, .capacity = 270, .window = 1},
    {.heads = 3, .kv_heads = 2, .head_dim = 32, .capacity = 290, .window = 130, .scale = 0.3f, .kv_of = {0, 0, 1}},
};

TEST(CachedAttention, AgreesWithTheReferenceHoweverThePromptIsCut) {
  ThreadPool threads(2);
  for (const CachedAttentionShape& shape : kShapes)
    for (const std::int64_t length : {1, 65, 259}) {
      const Sequence s(shape, length, 1);
      EXPECT_LT(error_of(s, run(threads, s, {length})), 3e-6) << shape.heads << " heads, " << length;
      EXPECT_LT(error_of(s, run(threads, s, {100, 1})), 3e-6) << shape.heads << " heads, " << length;
      EXPECT_LT(error_of(s, run(threads, s, {3, 70})), 3e-6) << shape.heads << " heads, " << length;
    }
}

TEST(CachedAttention, BitsDependNeitherOnTheCutNorOnThreads) {
  ThreadPool one(1), two(2), seven(7);
  for (const CachedAttentionShape& shape : kShapes) {
    const Sequence s(shape, 257, 4);
    const std::vector<float> whole = run(one, s, {257});
    EXPECT_TRUE(same_bits(whole, run(one, s, {1}))) << shape.heads << " heads";
    EXPECT_TRUE(same_bits(whole, run(two, s, {130, 2, 9, 64}))) << shape.heads << " heads";
    EXPECT_TRUE(same_bits(whole, run(seven, s, {257}))) << shape.heads << " heads";
  }
}

TEST(CachedAttention, ManySequencesInOneCall) {
  ThreadPool threads(2);
  const CachedAttentionShape& shape = kShapes[1];
  CachedAttention attention(shape, 2);
  const auto floats = num(attention.cache_floats());
  std::vector<Sequence> sequences;
  std::vector<std::vector<float>> caches(6, std::vector<float>(floats)), y;
  std::vector<AttentionRows> rows;
  for (unsigned i = 0; i < 3; ++i) {
    sequences.emplace_back(shape, 10 + 80 * i, 10 * i);
    y.emplace_back(sequences.back().q.size(), 7.0f);
  }
  for (std::size_t i = 0; i < 3; ++i) {
    const Sequence& s = sequences[i];
    const KvCache cache{caches[2 * i].data(), caches[2 * i + 1].data()};
    attention.append(cache, 0, s.length, s.k.data(), s.ldk, s.v.data(), s.ldk);
    rows.push_back({cache, 0, s.length, s.q.data(), y[i].data()});
  }
  attention.run(threads, rows, sequences[0].ldq, sequences[0].ldq);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_LT(error_of(sequences[i], y[i]), 3e-6) << i;
}

// Scores of up to 40 become 3 at most; without the cap the result is another.
TEST(CachedAttention, CapsScores) {
  CachedAttentionShape shape{.heads = 4, .kv_heads = 2, .head_dim = 20, .capacity = 90, .window = 70, .scale = 0.5f};
  shape.cap = 3;
  ThreadPool threads(2);
  const Sequence capped(shape, 90, 7, 6);
  const std::vector<float> y = run(threads, capped, {40, 1});
  EXPECT_LT(error_of(capped, y), 1e-5);
  shape.cap = 0;
  EXPECT_GT(error_of(Sequence(shape, 90, 7, 6), y), 0.1);
  shape.cap = -1;
  EXPECT_THROW(CachedAttention(shape, 1), Error);
}

TEST(CachedAttention, SharpWeightsStayFinite) {
  ThreadPool threads(1);
  const Sequence s({.heads = 2, .kv_heads = 1, .head_dim = 64, .capacity = 150}, 150, 1, 100);
  EXPECT_LT(error_of(s, run(threads, s, {90, 1})), 1e-4);
}

TEST(CachedAttention, RefusesWhatCannotBe) {
  EXPECT_THROW(CachedAttention({.heads = 4, .kv_heads = 3, .head_dim = 8, .capacity = 8}, 1), Error);
  EXPECT_THROW(CachedAttention({.heads = 4, .kv_heads = 2, .head_dim = 8, .capacity = 0}, 1), Error);
  EXPECT_THROW(CachedAttention({.heads = 1, .kv_heads = 1, .head_dim = 8, .capacity = 8, .kv_of = {1}}, 1), Error);
  CachedAttention attention({.heads = 1, .kv_heads = 1, .head_dim = 2, .capacity = 4}, 1);
  float data[8] = {};
  EXPECT_THROW(attention.append({data, data}, 3, 2, data, 2, data, 2), Error);
  ThreadPool threads(2), one(1);
  const AttentionRows beyond{{data, data}, 3, 2, data, data};
  EXPECT_THROW(attention.run(one, {&beyond, 1}, 2, 2), Error);
  const AttentionRows fine{{data, data}, 3, 1, data, data};
  EXPECT_THROW(attention.run(threads, {&fine, 1}, 2, 2), Error);
}

}  // namespace
}  // namespace weft
