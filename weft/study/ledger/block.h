// One block of a workload on this rank, forward: its sub-layers in order, each fed by the one before. The same data
// flows in every style, so that their results can be compared. transformer.cc, moe.cc and dlrm.cc say what each kind of
// workload computes; stages.h has the stages that they share.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "weft/base/index.h"
#include "weft/cluster/workload.h"
#include "weft/mesh/mesh.h"
#include "weft/study/ledger/part.h"
#include "weft/study/ledger/weights.h"

namespace weft {

struct Stage {
  std::string name;  // of the sub-layer
  std::function<void(Style, StageLog&)> run;
  std::vector<MeasuredPart*> parts;
  // Seconds on a cluster; where empty, the sum of its parts.
  std::function<double(Style, const Cluster&)> predicted_s = {};
};

class WorkloadBlock {
 public:
  WorkloadBlock(World& world, CommonClock& clock, const Workload& workload);  // collective

  void refresh(std::uint64_t round);  // new inputs
  void run(Style style, StageLog& log);
  std::span<const float> input() const { return input_; }
  std::span<const float> output() const { return output_; }

  void settle(const std::function<void(const std::string&)>& progress);  // collective, once
  const std::vector<Stage>& stages() const { return stages_; }
  const std::vector<std::unique_ptr<MeasuredPart>>& parts() const { return parts_; }
  double predicted_s(const Stage& stage, Style style, const Cluster& cluster) const;
  const WeightLoad& weight_load() const { return loader_.done(); }
  const std::string& note() const { return note_; }  // where this block is not quite the workload's

  // For the three builders.
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
  MeasuredPart& part(const std::string& name, const Producer& producer, const Space& space, bool gathers = false);
  void stage(Stage stage) { stages_.push_back(std::move(stage)); }
  void set_input(float* x, std::int64_t elements) { input_ = {x, num(elements)}; }
  void set_output(const float* y, std::int64_t elements) { output_ = {y, num(elements)}; }
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
  std::vector<std::unique_ptr<MeasuredPart>> parts_;
  std::vector<Stage> stages_;
  std::span<float> input_;
  std::span<const float> output_;
  std::function<void(std::uint64_t)> refresh_more_;
  std::string note_;
};

void add_transformer(WorkloadBlock& block);
void add_moe(WorkloadBlock& block);
void add_dlrm(WorkloadBlock& block);

// About how many bytes the weights, tables and activations of all ranks take; so that too much is refused before
// anything is touched.
double block_bytes(const Workload& workload, int ranks);

}  // namespace weft
