// The engine on weights in blocks beside a reference that shares no kernel with it: weights widened, activations
// rounded to bytes as the kernels do, all else in float64. Rounding has steps, and two right computations of one
// activation may fall on either side of one; so a value of the reference within kTie of a step goes the way that the
// engine's went. Every other difference stays, and the next product would double it.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>
#include <vector>

#include <gtest/gtest.h>

#include "weft/base/index.h"
#include "weft/base/quant/blocks.h"
#include "weft/io/scratch_folder_test.h"
#include "weft/kernel/quant/variant.h"
#include "weft/llm/engine/engine.h"
#include "weft/llm/engine/golden_test.h"
#include "weft/llm/quantise/quantise_model.h"
#include "weft/world/world.h"

namespace weft {
namespace {

constexpr double kTie = 0.002;  // of a byte

struct SeenProduct {
  const Weight* weight;
  std::vector<float> x;  // (rows, weight->cols)
};

// y = x . w^T over rows of x.
class RoundedProducts {
 public:
  RoundedProducts(std::int64_t rows, std::vector<SeenProduct> seen) : rows_(rows), seen_(std::move(seen)) {}

  std::vector<double> product(const Weight& w, const std::vector<double>& x) {
    if (next_ >= seen_.size() || seen_[next_].weight != &w) {
      ADD_FAILURE() << "product " << next_ << " is another one in the engine";
      return std::vector<double>(num(rows_ * w.rows));
    }
    const std::vector<double> bytes = rounded(x, seen_[next_++].x, w);
    std::vector<double> y(num(rows_ * w.rows));
    std::vector<float> row(num(w.cols));
    for (std::int64_t n = 0; n < w.rows; ++n) {
      dequantise(w.dtype, static_cast<const std::byte*>(w.data) + n * row_bytes(w.dtype, w.ld), w.first, w.cols,
                 row.data());
      for (std::int64_t r = 0; r < rows_; ++r) {
        double sum = 0;
        for (std::int64_t c = 0; c < w.cols; ++c) sum += double{row[at(c)]} * bytes[at(r * w.cols + c)];
        y[at(r * w.rows + n)] = sum;
      }
    }
    return y;
  }

  std::int64_t ties() const { return ties_; }
  std::int64_t values() const { return values_; }
  bool all_seen() const { return next_ == seen_.size(); }

 private:
  std::vector<double> rounded(const std::vector<double>& x, const std::vector<float>& theirs, const Weight& w) {
    std::vector<double> out(x.size());
    const std::size_t block = num(block_shape(w.dtype).values), cols = num(w.cols);
    for (std::size_t begin = 0, end; begin < x.size(); begin = end) {
      end = std::min(begin + block, begin - begin % cols + cols);
      round_block(std::span(x).subspan(begin, end - begin), std::span(theirs).subspan(begin, end - begin),
                  block == num(kPart) ? 1 : largest_factor(w.dtype), out.data() + begin);
    }
    values_ += std::ssize(x);
    return out;
  }

  template <typename T>
  static T largest(std::span<const T> x) {
    T most = 0;
    for (const T value : x) most = std::max(most, std::abs(value));
    return most;
  }

  // `theirs` in f32, as the kernels do.
  void round_block(std::span<const double> x, std::span<const float> theirs, int factors, double* out) {
    const double scale = largest(x) / (127 * factors);
    const float their_scale = largest(theirs) / static_cast<float>(127 * factors);
    for (std::size_t begin = 0; begin < x.size() && scale > 0; begin += num(kPart)) {
      const auto part = x.subspan(begin, std::min(num(kPart), x.size() - begin));
      const auto other = theirs.subspan(begin, part.size());
      const double share = largest(part) * factors / largest(x);
      const float their_share = largest(other) * (static_cast<float>(factors) / largest(theirs));
      double factor = std::clamp(std::ceil(share), 1.0, double(factors));
      const float their_factor = std::clamp(std::ceil(their_share), 1.0f, static_cast<float>(factors));
      if (factor != their_factor && std::abs(share - std::round(share)) < kTie) factor = their_factor, ++ties_;
      const float their_inverse = 1 / (their_scale * their_factor);
      for (std::size_t j = 0; j < part.size(); ++j) {
        double byte = std::nearbyint(part[j] / (scale * factor));
        const double their_byte = std::nearbyintf(other[j] * their_inverse);
        if (byte != their_byte && std::abs(part[j] / (scale * factor) - 0.5 * (byte + their_byte)) < kTie)
          byte = their_byte, ++ties_;
        out[begin + j] = scale * factor * byte;
      }
    }
  }

  std::int64_t rows_, ties_ = 0, values_ = 0;
  std::vector<SeenProduct> seen_;
  std::size_t next_ = 0;
};

// A model of the plain design (Llama), one sequence from its beginning.
class PlainLlama {
 public:
  PlainLlama(const Model& model, RoundedProducts& products, std::int64_t rows)
      : model_(model), c_(model.config()), products_(products), rows_(rows) {}

  std::vector<double> logits(const std::vector<int>& tokens) {
    std::vector<double> x;
    const Weight& table = model_.embedding();
    std::vector<float> row(num(c_.hidden));
    for (const int token : tokens) {
      dequantise(table.dtype, static_cast<const std::byte*>(table.data) + token * row_bytes(table.dtype, table.ld), 0,
                 c_.hidden, row.data());
      x.insert(x.end(), row.begin(), row.end());
    }
    for (std::int64_t block = 0; block < c_.blocks; ++block) {
      const BlockWeights& w = model_.block(block);
      add(attended(w, normed(w.norm1, x)), x);
      add(fed_forward(w, normed(w.norm2, x)), x);
    }
    return products_.product(model_.head(), normed(model_.final_norm(), x));
  }

 private:
  static void add(const std::vector<double>& more, std::vector<double>& x) {
    for (std::size_t i = 0; i < x.size(); ++i) x[i] += more[i];
  }

  std::vector<double> normed(const NormWeight& norm, const std::vector<double>& x) const {
    std::vector<double> y(x.size());
    for (std::int64_t r = 0; r < rows_; ++r) {
      double squares = 0;
      for (std::int64_t i = 0; i < c_.hidden; ++i) squares += std::pow(x[at(r * c_.hidden + i)], 2);
      const double scale = 1 / std::sqrt(squares / static_cast<double>(c_.hidden) + c_.norm_eps);
      for (std::int64_t i = 0; i < c_.hidden; ++i)
        y[at(r * c_.hidden + i)] = x[at(r * c_.hidden + i)] * scale * norm.weight[i];
    }
    return y;
  }

  void turn(std::vector<double>& heads, std::int64_t count) const {
    const std::vector<double> rates = rotary_rates(c_.design.rotaries[0], c_.max_positions);
    const std::int64_t half = c_.head_dim / 2;
    for (std::int64_t r = 0; r < rows_; ++r)
      for (std::int64_t h = 0; h < count; ++h)
        for (std::int64_t j = 0; j < half; ++j) {
          double& a = heads[at((r * count + h) * c_.head_dim + j)];
          double& b = heads[at((r * count + h) * c_.head_dim + j + half)];
          const double angle = static_cast<double>(r) * rates[at(j)], cosine = std::cos(angle), sine = std::sin(angle);
          const double turned = a * cosine - b * sine;
          b = b * cosine + a * sine, a = turned;
        }
  }

  std::vector<double> attended(const BlockWeights& w, const std::vector<double>& x) {
    std::vector<double> q = products_.product(w.q, x), k = products_.product(w.k, x);
    const std::vector<double> v = products_.product(w.v, x);
    turn(q, c_.heads), turn(k, c_.kv_heads);
    const std::int64_t d = c_.head_dim;
    std::vector<double> y(q.size());
    for (std::int64_t r = 0; r < rows_; ++r)
      for (std::int64_t h = 0; h < c_.heads; ++h) {
        const auto key = [&](std::int64_t p, std::int64_t i) {
          return at((p * c_.kv_heads + h / c_.heads_per_kv()) * d + i);
        };
        const auto query = [&](std::int64_t i) { return at((r * c_.heads + h) * d + i); };
        std::vector<double> scores;
        for (std::int64_t p = 0; p <= r; ++p) {
          double score = 0;
          for (std::int64_t i = 0; i < d; ++i) score += q[query(i)] * k[key(p, i)];
          scores.push_back(score / std::sqrt(static_cast<double>(d)));
        }
        const double top = *std::max_element(scores.begin(), scores.end());
        double sum = 0;
        for (double& score : scores) sum += score = std::exp(score - top);
        for (std::int64_t p = 0; p <= r; ++p)
          for (std::int64_t i = 0; i < d; ++i) y[query(i)] += scores[at(p)] / sum * v[key(p, i)];
      }
    return products_.product(w.o, y);
  }

  std::vector<double> fed_forward(const BlockWeights& w, const std::vector<double>& x) {
    std::vector<double> gate = products_.product(w.gate, x);
    const std::vector<double> up = products_.product(w.up, x);
    for (std::size_t i = 0; i < gate.size(); ++i) gate[i] = gate[i] / (1 + std::exp(-gate[i])) * up[i];
    return products_.product(w.down, gate);
  }

  const Model& model_;
  const ModelConfig& c_;
  RoundedProducts& products_;
  std::int64_t rows_;
};

double largest_off(const std::vector<float>& got, const std::vector<double>& wanted) {
  double off = 0, largest = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    largest = std::max(largest, std::abs(wanted[i]));
    const double one = std::abs(got[i] - wanted[i]);
    off = one <= off ? off : one;  // NaN becomes the worst
  }
  return off / largest;
}

void expect_reference_logits(const std::string& file, const std::vector<int>& tokens) {
  World::local(1, [&](World& world) {
    const Model model = Model::load(file, 0, 1);
    Engine engine(world, model, {.rows = 64});
    std::vector<SeenProduct> seen;
    engine.watch_products([&](const Weight& weight, const float* x, std::int64_t rows, std::int64_t ld) {
      SeenProduct& one = seen.emplace_back(SeenProduct{&weight, {}});
      for (std::int64_t r = 0; r < rows; ++r) one.x.insert(one.x.end(), x + r * ld, x + r * ld + weight.cols);
    });
    const Feed feed{0, tokens};
    engine.forward({&feed, 1});
    std::vector<int> rows(tokens.size());
    std::iota(rows.begin(), rows.end(), 0);
    const std::vector<float> logits = engine.logits(rows);
    ASSERT_EQ(std::ssize(seen), 7 * model.config().blocks + 1);
    RoundedProducts products(std::ssize(tokens), seen);
    const std::vector<double> wanted = PlainLlama(model, products, std::ssize(tokens)).logits(tokens);
    EXPECT_TRUE(products.all_seen());
    EXPECT_LT(largest_off(logits, wanted), 1e-5) << file;  // seen: 2.4e-7
    EXPECT_LT(products.ties(), products.values() / 1000) << "ties are rare";
  });
}

TEST(QuantisedLogits, AreThoseOfAReferenceWithWidenedWeightsAndRoundedActivations) {
  const ScratchFolder folder;
  const std::string weft16 = std::string(WEFT_SOURCE) + "/models/weft-16";
  std::vector<int> tokens = golden_prompts(weft16)[0].ids;
  tokens.resize(std::min<std::size_t>(tokens.size(), 10));
  for (const QuantiseOptions& options : {QuantiseOptions{.type = Dtype::q8_0, .threads = 2},
                                         {.type = Dtype::q4_0, .threads = 2},
                                         {.type = Dtype::q6_k, .threads = 2},
                                         {.type = Dtype::q4_k, .mix = BitMix::more, .threads = 2}}) {
    const std::string file = folder.file(std::string(to_string(options.type)) + ".gguf");
    quantise_model(weft16, file, options);
    expect_reference_logits(file, tokens);
  }
}

}  // namespace
}  // namespace weft
