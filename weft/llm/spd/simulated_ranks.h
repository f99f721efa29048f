// Tensor-parallel blocks computed rank after rank in one process, sums made in plain loops: slow and obvious. It shares
// no code with the engine but the kernels, so it checks the engine's dropped blocks; and it can run the block in the
// *wrong* orders that the paper's ablation measures, which the engine cannot.
//
// P_i is rank i's part of the attention's output projection, Z_i of the MLP's, x the block's input, b the bias of the
// output projection, d of the MLP.
//   sync            u = x + ΣP_j + b;      x' = u + ΣZ_j(u) + d
//   dropped         u_i = x + P_i + b;     x' = x + Σ(P_j + Z_j(u_j)) + b + d         as it should be
//   partial_after   u_i as above;          x'_i = x + P_i + ΣZ_j(u_j) + b + d         the all-reduce carries Z_j alone,
//                   and each rank adds its own P_i behind it: the ranks' x differ from here on
//   bias_before     u_i as above;          x' = x + Σ(P_j + b + Z_j(u_j)) + d         the bias is summed once per rank
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "weft/llm/eval/statistics.h"
#include "weft/llm/model/model.h"

namespace weft {

class ThreadPool;

enum class BlockOrder { sync, dropped, partial_after, bias_before };
std::string_view to_string(BlockOrder order);

class SimulatedRanks {
 public:
  // `rows`: the longest window. Reads the model once for every rank. bad_input for a model whose blocks cannot be
  // dropped.
  SimulatedRanks(const ModelSource& source, int ranks, std::int64_t rows, int threads);
  ~SimulatedRanks();

  const ModelConfig& config() const { return models_.front().config(); }

  // Log-probabilities of the tokens of a window but its first. Each rank's rows of the head read that rank's own x.
  WindowScore score(std::span<const int> window, std::span<const BlockOrder> orders);

  // Of all windows scored since the last call: the mean output of every head, (blocks, heads * head_dim).
  std::vector<std::vector<float>> take_head_means();

 private:
  struct Rank;

  void embed(std::span<const int> tokens);
  void attend(const Model& model, std::int64_t block, Rank* rank);
  void feed_forward(const Model& model, std::int64_t block, const float* u, Rank* rank);
  void run_block(std::int64_t block, BlockOrder order);
  void norm(const NormWeight& weight, const float* x, float* y) const;
  void multiply(const Weight& weight, const float* bias, const float* x, std::int64_t ldx, float* y,
                std::int64_t ldy) const;
  WindowScore look(std::span<const int> targets);

  std::vector<Model> models_;
  std::vector<Rank> ranks_;
  std::unique_ptr<ThreadPool> threads_;
  std::int64_t most_rows_ = 0, rows_ = 0;
  std::vector<std::vector<double>> head_sums_;  // (blocks, heads * head_dim)
  std::int64_t summed_rows_ = 0;
};

}  // namespace weft
