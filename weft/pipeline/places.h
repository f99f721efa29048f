// Who does what: which ranks a stage has, which layers, and which tensors cross from stage to stage. Pure values.
//
// Ranks fill stages in order; inside a stage they are a mesh data x tensor, tensor fastest. Value i is what enters
// block i (value `layers` enters the final norm). It is made by the stage of block i - 1, value 0 by the first. Block
// i takes it, and in a U-shaped model block layers - 1 - i does too. Where one of those is on another stage, it
// crosses.
#pragma once

#include <vector>

#include "weft/mesh/mesh.h"
#include "weft/pipeline/config.h"
#include "weft/reshard/reshard.h"

namespace weft::pipeline {

struct StagePlace {
  std::int64_t first_layer = 0, end_layer = 0;
  int data = 1, tensor = 1;
  int first_rank = 0;

  int ranks() const { return data * tensor; }
  bool has(std::int64_t layer) const { return layer >= first_layer && layer < end_layer; }
  bool makes(std::int64_t value) const {  // whether value i is made here
    return (value > first_layer && value <= end_layer) || (value == 0 && first_layer == 0);
  }
  Mesh mesh() const { return Mesh({{"data", data}, {"tensor", tensor}}); }
};

struct RankPlace {
  int stage = 0, data = 0, tensor = 0;
};

// A value that leaves the stage which makes it for one that needs it; its gradient comes back.
struct Crossing {
  std::int64_t value = 0;
  int from = 0, to = 0;  // stages
};

class Places {
 public:
  explicit Places(const TrainConfig& config);  // settled

  const std::vector<StagePlace>& stages() const { return stages_; }
  const StagePlace& stage(int index) const { return stages_[at(index)]; }
  int num_stages() const { return int_size(stages_); }
  int num_ranks() const { return num_ranks_; }
  RankPlace of(int rank) const;
  Group tensor_group(int rank) const;                                    // those that share its layers and its rows
  Group data_group(int rank) const;                                      // those that hold the same weights
  const std::vector<Crossing>& crossings() const { return crossings_; }  // by value, then by receiver
  // Whether the value is one product, plus what each rank adds, that nobody but the receiving stage needs: the end of a
  // stage whose ranks share no sums.
  bool ends_in_product(const Crossing& crossing) const;

  // Rows of a micro-batch split over "data" on both ends; f32 where they are made, `dtype` on the way and at the end.
  Reshard reshard(const Crossing& crossing, bool backward, std::int64_t rows, std::int64_t cols, Dtype dtype) const;

 private:
  int stage_of(std::int64_t layer) const;
  std::vector<StagePlace> stages_;
  std::vector<Crossing> crossings_;
  int num_ranks_ = 0;
};

}  // namespace weft::pipeline
