#include "weft/llm/eval/eval.h"

#include <algorithm>
#include <numeric>

#include "weft/base/error.h"
#include "weft/base/index.h"
#include "weft/base/json.h"
#include "weft/io/text/tokenizer.h"

namespace weft {
namespace {

constexpr std::int64_t kPaperWindow = 2048;
constexpr std::int64_t kCacheBytes = std::int64_t{256} << 20;
constexpr std::int64_t kMostSequences = 256;

}  // namespace

std::vector<int> text_stream(const Tokenizer& tokenizer, std::string_view text) {
  std::vector<int> stream = tokenizer.encode(text);
  if (tokenizer.adds_bos() && tokenizer.bos()) stream.insert(stream.begin(), *tokenizer.bos());
  return stream;
}

std::vector<int> read_stream(const Tokenizer& tokenizer, const std::string& path) {
  return text_stream(tokenizer, read_text_file(path, kMostTextBytes));
}

std::int64_t window_length(const ModelConfig& config, std::int64_t asked) {
  if (asked == 0) return std::min(config.max_positions, kPaperWindow);
  if (asked < 2 || asked > config.max_positions)
    bad_input("a window of {} tokens; use 2 to {}, the model's length", asked, config.max_positions);
  return asked;
}

std::vector<TokenWindow> cut_windows(std::span<const int> stream, std::int64_t length, std::int64_t limit) {
  std::int64_t count = std::ssize(stream) / length;
  if (count == 0)
    bad_input("the text has {} tokens, less than one window of {}; give a longer text or a shorter --window",
              stream.size(), length);
  if (limit > 0) count = std::min(count, limit);
  std::vector<TokenWindow> windows;
  for (std::int64_t i = 0; i < count; ++i) windows.push_back(stream.subspan(num(i * length), num(length)));
  return windows;
}

WindowBatch::WindowBatch(std::span<const TokenWindow> windows) {
  for (const TokenWindow window : windows) {
    feeds_.push_back({int_size(feeds_), window.first(window.size() - 1)});
    targets_.insert(targets_.end(), window.begin() + 1, window.end());
  }
}

void WindowBatch::clear(Engine& engine) const {
  for (const Feed& feed : feeds_) engine.clear(feed.sequence);
}

std::vector<WindowScore> WindowBatch::score(Engine& engine) const {
  const std::vector<TokenScore> rows = engine.score(targets_);
  std::vector<WindowScore> scores;
  std::size_t row = 0;
  for (const Feed& feed : feeds_) {
    WindowScore& sum = scores.emplace_back();
    for (std::size_t i = 0; i < feed.tokens.size(); ++i) sum.log_probability += rows[row++].log_probability;
    sum.tokens = std::ssize(feed.tokens);
  }
  return scores;
}

EngineOptions eval_engine(const ModelConfig& config, std::int64_t capacity, std::int64_t rows_per_sequence,
                          std::int64_t rows) {
  const std::int64_t cache_bytes = capacity * config.blocks * config.kv_heads * config.head_dim * 2 * 4;
  const std::int64_t fit = std::max<std::int64_t>(1, kCacheBytes / std::max<std::int64_t>(1, cache_bytes));
  const std::int64_t fill = std::max<std::int64_t>(1, rows / rows_per_sequence);
  EngineOptions options;
  options.sequences = static_cast<int>(std::min({fit, fill, kMostSequences}));
  options.capacity = capacity;
  options.rows = std::max(options.sequences * rows_per_sequence, capacity);
  return options;
}

std::vector<WindowScore> score_windows(Engine& engine, std::span<const TokenWindow> windows,
                                       const EvalProgress& progress) {
  std::vector<WindowScore> scores;
  const auto most = num(engine.options().sequences);
  for (std::size_t begin = 0; begin < windows.size(); begin += most) {
    const WindowBatch batch(windows.subspan(begin, std::min(most, windows.size() - begin)));
    batch.clear(engine);
    engine.forward(batch.feeds());
    const std::vector<WindowScore> found = batch.score(engine);
    scores.insert(scores.end(), found.begin(), found.end());
    if (progress) progress("windows", std::ssize(scores), std::ssize(windows));
  }
  return scores;
}

}  // namespace weft
