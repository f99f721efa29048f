// One block of a workload on this rank, forward: its sub-layers in order, each fed by the one before. The same data
// flows in every style, so that their results can be compared. ledger_transformer.cc, ledger_moe.cc and ledger_dlrm.cc
// fill in what each kind of workload computes.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "weft/cluster/workload.h"
#include "weft/mesh/mesh.h"

#include "cli/ledger/part.h"
#include "cli/ledger/weights.h"

namespace weft::cli {

struct Stage {
  std::string name;  // of the sub-layer
  std::function<void(Style, StageLog&)> run;
  std::vector<Part*> parts;
  // Seconds on a cluster; where empty, the sum of its parts.
  std::function<double(Style, const Cluster&)> predicted_s = {};
};

class Block {
 public:
  Block(World& world, CommonClock& clock, const Workload& workload);  // collective

  void refresh(std::uint64_t round);  // new inputs
  void run(Style style, StageLog& log);
  std::span<const float> input() const { return input_; }
  std::span<const float> output() const { return output_; }

  void settle(const std::function<void(const std::string&)>& progress);  // collective, once
  const std::vector<Stage>& stages() const { return stages_; }
  const std::vector<std::unique_ptr<Part>>& parts() const { return parts_; }
  double predicted_s(const Stage& stage, Style style, const Cluster& cluster) const;
  const WeightLoad& weight_load() const { return loader_.done(); }
  const std::string& note() const { return note_; }  // where this block is not quite the workload's

  // For the three builders.
  struct Width {
    std::int64_t rows, cols;
  };
  const Workload& workload() const { return workload_; }
  World& world() { return world_; }
  int ranks() const { return ranks_; }
  int rank() const { return rank_; }
  const Mesh& mesh() const { return mesh_; }
  const SubLayer& layer(const std::string& name) const;
  float* buffer(std::int64_t elements);  // zeros; lives as long as the block
  // (k, n) for this rank, scaled so that products of `sum_k` terms in all are of the size of their inputs. A
  // transformer's are loaded from another sharding.
  const float* weights(std::int64_t k, std::int64_t n, std::int64_t sum_k);
  Part& part(const std::string& name, const Producer& producer, const Space& space, bool gathers = false);
  Part& local(const std::string& name, const GemmOptions& product) { return part(name, gemm(product), keep()); }
  void stage(Stage stage) { stages_.push_back(std::move(stage)); }
  void amend(std::function<void(Style, StageLog&)> run) { stages_.back().run = std::move(run); }  // the last stage
  void set_input(float* x, std::int64_t elements) { input_ = {x, static_cast<std::size_t>(elements)}; }
  void set_output(const float* y, std::int64_t elements) { output_ = {y, static_cast<std::size_t>(elements)}; }
  void on_refresh(std::function<void(std::uint64_t)> more) { refresh_more_ = std::move(more); }
  void set_note(std::string note) { note_ = std::move(note); }

 private:
  World& world_;
  CommonClock& clock_;
  Workload workload_;
  int ranks_, rank_;
  Mesh mesh_;
  std::vector<SubLayer> layers_;
  std::deque<std::vector<float>> buffers_;
  WeightLoader loader_;
  std::uint64_t num_weights_ = 0;
  std::vector<std::unique_ptr<Part>> parts_;
  std::vector<Stage> stages_;
  std::span<float> input_;
  std::span<const float> output_;
  std::function<void(std::uint64_t)> refresh_more_;
  std::string note_;
};

void add_transformer(Block& block);
void add_moe(Block& block);
void add_dlrm(Block& block);

// Bytes of weights, tables and activations of all ranks, about; refused before anything is touched.
double block_bytes(const Workload& workload, int ranks);

// Between parts: a result as one matrix (copied into `room` only where it lies in pieces), and out = x + result.
const float* as_one(const Result& result, std::int64_t cols, float* room);
void add_to(const Result& result, const float* x, Block::Width width, float* out);
// y (rows, cols) = x over the root mean square of its row.
void norm(const float* x, Block::Width width, float* y);

// Causal attention over columns [q | k | v] of a matrix, by heads; a rank whose share is no whole number of heads has a
// last one that is narrower.
struct HeadSplit {
  std::int64_t rows, sequence, q_cols, kv_cols, head_dim;
};
std::function<void(const float* qkv, float* y)> attention_over(const HeadSplit& split);
// A stage: attention of this rank's heads over all tokens, from the product `in`, whose result is [q | k | v].
void add_attention_of_heads(Block& block, Part& in, float* qkv, float* attended);

}  // namespace weft::cli
