// What an engine keeps between calls. Of the library: engine*.cc share it.
#pragma once

#include <initializer_list>
#include <map>
#include <memory>
#include <optional>
#include <tuple>
#include <vector>

#include "weft/base/clock.h"
#include "weft/base/thread_pool.h"
#include "weft/kernel/gemm/matmul.h"
#include "weft/llm/engine/engine.h"
#include "weft/llm/engine/reduction.h"
#include "weft/llm/model/model_attention.h"
#include "weft/world/world.h"

namespace weft {

enum class Projection { attention, mlp, joined };  // joined: the mlp's, with the attention's output as addend

// What one rank tells the others of a row. All floats, so that these are rows of a matrix; tokens are below 2^24.
struct Told {
  float largest = 0, token = 0;  // of this rank's logits; the smallest token of several
  float sum = 0;                 // of exp(logit - largest)
  float other = 0;               // the largest but the target's
  float target = 0;              // the target's, where this rank has it
};
constexpr std::int64_t kToldFloats = sizeof(Told) / sizeof(float);

// And what they know together.
struct Joined {
  float largest = 0, other = 0;
  int token = 0;
  double log_sum = 0, target = 0;
};

// One of the products of the same rows; a weight that this rank has none of is left out.
struct Projected {
  const Weight& weight;
  const float* bias;
  float* y;
  std::int64_t ldy;
};

struct Engine::State {
  State(World& world, const Model& model, const EngineOptions& options);

  // engine.cc
  void allot_memory();
  void set_modes(std::span<const BlockMode> modes);
  void compile(Projection projection, BlockWire wire, const Weight& weight);
  ReducedProduct& reduction(Projection projection, BlockWire wire, Dtype weight, std::int64_t rows);
  KvCache cache(std::int64_t block, int sequence);
  void check_sequence(int sequence) const;

  // engine_forward.cc
  void check(std::span<const Feed> feeds) const;
  void place(std::span<const Feed> feeds);
  void embed(std::span<const Feed> feeds);
  void norm(const NormWeight& weight, const float* x, float* y);
  void run_blocks(std::int64_t first, std::int64_t last, const float* x);
  void multiply(std::initializer_list<Projected> all, const float* x);
  const float* normed_by(const NormWeight& weight, const float* x);
  void feed_forward(const BlockWeights& weights, const float* x);
  void scale_addition(float* rows_of, std::int64_t width);
  const float* reduce(Projection projection, std::int64_t block, const float* x);
  const float* add_half(Projection projection, std::int64_t block, const float* x);
  void keep_attention(const BlockWeights& weights);
  const float* run_block(std::int64_t block, const float* x);

  // engine_attention.cc
  void attend(std::int64_t block, const float* x);
  void norm_heads(const BlockWeights& weights, float* q, float* k, std::int64_t ld);
  void norm_all_heads(const BlockWeights& weights, float* q, float* k, std::int64_t ld);

  // engine_head.cc
  void head_logits(std::span<const int> of);
  void finish_logits(std::int64_t count);
  void tell(std::span<const int> of, std::span<const int> targets, Joined* out);
  std::unique_ptr<Op> gather_op(std::int64_t rows, std::int64_t cols);  // collective; none with one rank

  const ModelConfig& config() const { return model.config(); }
  const ModelShard& shard() const { return model.shard(); }

  World& world;
  const Model& model;
  EngineOptions options;
  ThreadPool& threads;
  std::int64_t few;  // rows of the ops for decoding: those of a whole capacity would skip many tiles for one row
  std::vector<BlockMode> modes;
  std::vector<std::vector<float>> both_biases;  // of a block with one sum: attention's and mlp's

  // One for every kind that a mode has asked for, and both sizes.
  using Key = std::tuple<Projection, BlockWire, Dtype, bool>;
  std::map<Key, std::unique_ptr<ReducedProduct>> reductions;

  ModelAttention attention;                            // empty where this rank has no head
  std::vector<std::unique_ptr<float[]>> cache_memory;  // (block, sequence), k and v
  std::vector<std::int64_t> lengths;                   // of every sequence

  // The feeds of the forward under way.
  struct Run {
    int sequence;
    std::int64_t position, first, rows;
  };
  std::vector<Run> runs;
  std::vector<AttentionRows> attention_rows;
  std::int64_t rows = 0;

  std::vector<LinearOutput> products;  // multiply()'s
  std::vector<float> embedded;         // (rows, hidden): the first block's input
  std::vector<float> normed;           // (rows, hidden)
  std::vector<float> qkv;              // (rows, this rank's q, k and v)
  std::vector<float> attended;         // (rows, attention_width), zero beyond this rank's heads
  std::vector<float> kept;       // (rows, hidden): this rank's part of the attention's output, where it is not summed
                                 // by itself; or what leaves a block whose norms lie behind its halves
  std::vector<float> seen;       // (rows, hidden): what a dropped block's mlp reads; or what lies between such halves
  std::vector<float> squares;    // (rows, 2): sums of squares of q and of k, where all heads are normed together
  std::vector<float> wide;       // (rows, gate and up)
  std::vector<float> activated;  // (rows, mlp_width), zero beyond this rank's columns
  std::vector<float> hidden;     // (rows, hidden): after the last norm
  const float* last = nullptr;   // (rows, hidden): before it

  // The head: products of some rows at a time, and what ranks tell each other.
  std::int64_t head_rows = 0;
  std::vector<float> picked;                      // (head_rows, hidden)
  std::vector<float> logits;                      // (head_rows, this rank's rows of the head)
  std::vector<Told> told;                         // (head_rows)
  std::vector<Joined> joined;                     // (head_rows)
  std::vector<IndexRange> vocab_of;               // of every rank
  std::unique_ptr<Op> tell_few, tell_many;        // all_gather of `told`
  std::unique_ptr<Op> gather_few, gather_many;    // all_gather of `logits`; made when first asked for
  std::unique_ptr<Op> squares_few, squares_many;  // all_gather of `squares`, where they are needed

  EngineTraffic traffic;
  ProductWatch watch;  // may be empty
};

}  // namespace weft
