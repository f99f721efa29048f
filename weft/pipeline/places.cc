#include "weft/pipeline/places.h"

#include <algorithm>
#include <numeric>
#include <set>

#include <fmt/core.h>

namespace weft::pipeline {

Places::Places(const TrainConfig& config) {
  std::int64_t layer = 0;
  for (const StageSize& size : config.stages) {
    stages_.push_back({layer, layer + size.layers, size.data, size.tensor, num_ranks_});
    layer += size.layers;
    num_ranks_ += size.ranks();
  }
  for (std::int64_t value = 0; value < config.model.layers; ++value) {
    const int from = value == 0 ? 0 : stage_of(value - 1);
    std::set<int> takers{stage_of(value)};
    for (std::int64_t block = value + 1; block < config.model.layers; ++block)
      if (config.model.skip_into(block) == value) takers.insert(stage_of(block));
    for (const int to : takers)
      if (to != from) crossings_.push_back({value, from, to});
  }
}

int Places::stage_of(std::int64_t layer) const {
  int stage = 0;
  while (!stages_[at(stage)].has(layer)) ++stage;
  return stage;
}

bool Places::ends_in_product(const Crossing& crossing) const {
  const StagePlace& maker = stage(crossing.from);
  if (crossing.value != maker.end_layer || maker.tensor > 1) return false;
  return std::count_if(crossings_.begin(), crossings_.end(),
                       [&](const Crossing& other) { return other.value == crossing.value; }) == 1;
}

RankPlace Places::of(int rank) const {
  int stage = 0;
  while (rank >= stages_[at(stage)].first_rank + stages_[at(stage)].ranks()) ++stage;
  const int local = rank - stages_[at(stage)].first_rank, tensor = stages_[at(stage)].tensor;
  return {stage, local / tensor, local % tensor};
}

Group Places::tensor_group(int rank) const {
  const RankPlace place = of(rank);
  Group group;
  group.position = place.tensor;
  for (int t = 0; t < stage(place.stage).tensor; ++t) group.ranks.push_back(rank - place.tensor + t);
  return group;
}

Group Places::data_group(int rank) const {
  const RankPlace place = of(rank);
  const StagePlace& stage = stages_[at(place.stage)];
  Group group;
  group.position = place.data;
  for (int d = 0; d < stage.data; ++d) group.ranks.push_back(rank + (d - place.data) * stage.tensor);
  return group;
}

Reshard Places::reshard(const Crossing& crossing, bool backward, std::int64_t rows, std::int64_t cols,
                        Dtype dtype) const {
  Reshard reshard;
  reshard.num_ranks = num_ranks_;
  for (const int index : {backward ? crossing.to : crossing.from, backward ? crossing.from : crossing.to}) {
    const StagePlace& stage = stages_[at(index)];
    Placement placement{fmt::format("stage{}", index), stage.mesh(), std::vector<int>(num(stage.ranks()))};
    std::iota(placement.ranks.begin(), placement.ranks.end(), stage.first_rank);
    reshard.placements.push_back(std::move(placement));
  }
  const auto tensor = [&](int placement, Dtype as) {
    return ShardedTensor{fmt::format("value{}", crossing.value),
                         {rows, cols},
                         as,
                         placement,
                         parse_sharding("S(data),R", reshard.placements[at(placement)].mesh)};
  };
  reshard.transfers = {{{{tensor(0, Dtype::f32), {0, 0}}}, tensor(1, dtype)}};
  check_reshard(reshard);
  return reshard;
}

}  // namespace weft::pipeline
