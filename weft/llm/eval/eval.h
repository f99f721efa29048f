// What a model can do, measured through the engine: log-probabilities of windows of text, and zero-shot items. Every
// rank calls these with the same arguments and ends with the same values. Several windows or items share a forward.
//
// Perplexity is the papers' protocol: the whole text is one stream of tokens (with a bos at its beginning where the
// tokenizer adds one), cut into windows that do not overlap; the first token of a window is not scored, nor is a last
// partial window.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "weft/llm/engine/engine.h"
#include "weft/llm/eval/statistics.h"
#include "weft/llm/eval/tasks.h"

namespace weft {

class Tokenizer;

using EvalProgress = std::function<void(std::string_view what, std::int64_t done, std::int64_t of)>;

// The tokens of a text as perplexity scores them.
std::vector<int> text_stream(const Tokenizer& tokenizer, std::string_view text);
inline constexpr std::size_t kMostTextBytes = std::size_t{1} << 30;                 // of a file
std::vector<int> read_stream(const Tokenizer& tokenizer, const std::string& path);  // of a file's text

// The length of windows: `asked`, or the model's length and 2048 at most where 0. Throws bad_input beyond the model's.
std::int64_t window_length(const ModelConfig& config, std::int64_t asked);

using TokenWindow = std::span<const int>;
// Throws bad_input where the stream has not one window. `limit` windows at most; 0: all.
std::vector<TokenWindow> cut_windows(std::span<const int> stream, std::int64_t length, std::int64_t limit = 0);

// Windows that go through one forward together, window i as sequence i: all of a window but its last token is fed, and
// each token but the first is a target. Refers to the windows' tokens.
class WindowBatch {
 public:
  explicit WindowBatch(std::span<const TokenWindow> windows);
  std::span<const Feed> feeds() const { return feeds_; }
  void clear(Engine& engine) const;                      // the sequences it uses
  std::vector<WindowScore> score(Engine& engine) const;  // collective; after the feeds' forward

 private:
  std::vector<Feed> feeds_;
  std::vector<int> targets_;
};

// Options of an engine that suits: as many sequences of `capacity` tokens as about `rows` rows take, within 256 MB of
// cache over all ranks.
EngineOptions eval_engine(const ModelConfig& config, std::int64_t capacity, std::int64_t rows_per_sequence,
                          std::int64_t rows = 4096);

std::vector<WindowScore> score_windows(Engine& engine, std::span<const TokenWindow> windows,
                                       const EvalProgress& progress = {});

// The longest context and choice, in tokens, and the mean rows of a unit's first forward: what an engine for them
// needs.
struct UnitSizes {
  std::int64_t capacity = 1, mean_rows = 1;
};
UnitSizes unit_sizes(std::span<const TaskUnit> units);

// One for each item. A context is computed once for all choices that share it: its cache is cut back to the context
// after each. The engine has room for unit_sizes().
std::vector<ItemScore> score_items(Engine& engine, std::span<const TaskItem> items, std::span<const TaskUnit> units,
                                   const EvalProgress& progress = {});

}  // namespace weft
