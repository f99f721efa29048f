// The engine: tokens in, hidden rows and logits out, over all ranks of a world. Every rank calls the same functions
// with the same arguments in the same order and ends with the same bits. A block makes its two output projections as
// ops: a product into an all_reduce, whose epilogue adds bias and residual; a dropped block keeps its attention output
// here and has one all_reduce (docs/spd.md), and so has a parallel one. What a block computes is the model's Design
// (weft/nn/design.h). Sequences of different lengths go through one forward together.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "weft/base/dtype.h"
#include "weft/llm/model/block_mode.h"
#include "weft/llm/model/model.h"
#include "weft/world/style.h"

namespace weft {

class World;

struct EngineOptions {
  int sequences = 1;          // that can be open at once
  std::int64_t capacity = 0;  // tokens of a sequence; 0: the model's longest
  std::int64_t rows = 512;    // most rows of a forward
  Style sync = Style::fused;
  int panels = 4;  // of the style `panels`
  // Of prompts, where weights are bf16. bf16: rounded where the processor multiplies pairs of bf16, at twice the rate
  // (Linear::activations); fused products keep f32.
  Dtype activations = Dtype::f32;
};

Dtype parse_activations(std::string_view name);  // f32 or bf16; throws bad_input

// Tokens to append to a sequence.
struct Feed {
  int sequence = 0;
  std::span<const int> tokens;
};

struct TokenScore {
  double log_probability = 0;  // of the target, natural logarithm
  double margin = 0;           // the target's logit minus the largest of any other token
  bool is_greedy = false;      // the target has the largest logit (the smallest id of several)
};

// Since the engine was made, on this rank.
struct EngineTraffic {
  std::int64_t block_bytes = 0;  // sent to other ranks by the blocks' synchronisations, and for norms over all heads
  std::int64_t head_bytes = 0;   // and by the head
  std::int64_t syncs_made = 0;   // all_reduces of blocks; counted with one rank too
  std::int64_t syncs_dropped = 0;
  double block_op_s = 0;  // time in the blocks' output projections with their all_reduces
  double forward_s = 0;   // time in forward()
  double head_s = 0;      // time in logits(), greedy() and score()

  EngineTraffic& operator+=(const EngineTraffic& other);
};

// The bytes of all ranks together; the rest is this rank's. Collective.
EngineTraffic with_all_bytes(World& world, EngineTraffic traffic);

// A product that is about to be made: the model's weight, and its input, (rows, weight.cols) with ld.
using ProductWatch = std::function<void(const Weight& weight, const float* x, std::int64_t rows, std::int64_t ld)>;

class Engine {
 public:
  // Collective: compiles the ops. The model outlives the engine. Throws bad_input where the model is another rank's, or
  // the options do not fit it.
  Engine(World& world, const Model& model, const EngineOptions& options);
  Engine(Engine&&) noexcept;
  ~Engine();

  // Every block's mode, in order; all f32 and synchronised at first. Between forwards, the same on all ranks.
  // Collective: the first use of a kind of mode compiles its ops. bad_input where a mode drops what cannot be dropped.
  void set_modes(std::span<const BlockMode> modes);

  // Appends the feeds' tokens to their sequences, all rows in one pass; a sequence comes once at most. Throws bad_input
  // beyond `rows` rows or `capacity` tokens, and for tokens outside the vocabulary. Buffers are allotted
  // by the constructor; a forward allots none.
  void forward(std::span<const Feed> feeds);
  // The same for blocks [first, last) alone: rows enter block `first` as x, (rows, hidden), or as embeddings where x is
  // empty and first 0; residual() has them as they leave, hidden() and the head only where last is the number of
  // blocks. Keys and values of these blocks are appended, and sequences grow: truncate() between runs of parts of the
  // model.
  void forward_blocks(std::int64_t first, std::int64_t last, std::span<const Feed> feeds, std::span<const float> x);
  // The rows of the last forward after the last norm, feed after feed: (rows, hidden). Readable until the next forward.
  std::span<const float> hidden() const;
  std::int64_t rows() const;  // of the last forward
  // The rows as they left the last block of the last forward, before any norm. Readable until the next forward; may be
  // the x of the next forward_blocks.
  std::span<const float> residual() const;

  std::int64_t length(int sequence) const;
  void truncate(int sequence, std::int64_t length);
  void clear(int sequence) { truncate(sequence, 0); }
  // Makes `to` a copy of `from`: its first `length` tokens. For choices that share a context.
  void copy_sequence(int from, int to, std::int64_t length);

  // Of rows of the last forward; the same on every rank, and collective.
  std::vector<float> logits(std::span<const int> rows);  // (rows, vocab)
  std::vector<int> greedy(std::span<const int> rows);    // the largest logit's token, the smallest id of several
  // One target for every row of the last forward; -1: this row is not asked for, and its score is {0, 0, false}.
  std::vector<TokenScore> score(std::span<const int> targets);

  // Called before every product of a block and of the head, on this rank; empty: no more. For calibration and tests.
  void watch_products(ProductWatch watch);

  const Model& model() const;
  const EngineOptions& options() const;  // as given, what was left to the engine filled in
  EngineTraffic traffic() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace weft
