// The weights of one block of a model as one flat f32 array (weft/nn/block.h), whole or one rank's shard, and the ways
// between them and the model's files. Whole is the shard of one rank of one.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "weft/io/tensor/safetensors.h"
#include "weft/llm/model/config.h"
#include "weft/llm/model/model.h"
#include "weft/llm/model/shard.h"
#include "weft/nn/block.h"

namespace weft {

// Sequences of `sequence` rows, `sequences` of them at once.
BlockShape block_shape(const ModelConfig& config, const ModelShard& shard, std::int64_t sequence = 1,
                       std::int64_t sequences = 1);

// All tensors of block `block`, widened; bad_input naming the tensor that is missing or of another shape.
std::vector<float> read_block(const ModelConfig& config, const TensorSource& tensors, std::int64_t block);

// One rank's part of a whole block, and back: put_shard writes what the rank is the first to hold, so that the parts of
// all ranks, put into arrays of zeros and added up, are the whole block.
std::vector<float> take_shard(const ModelConfig& config, const ModelShard& shard, const std::vector<float>& whole);
void put_shard(const ModelConfig& config, const ModelShard& shard, const std::vector<float>& part,
               std::vector<float>* whole);

// Marks the parameters of a shard that this rank is the first to hold: each parameter of the block on one rank.
std::vector<bool> held_first(const ModelConfig& config, const ModelShard& shard);

// The tensors of a whole block under the model's names. `storage` holds their bytes and must outlive them.
std::vector<StoredTensor> name_block(const ModelConfig& config, std::int64_t block, const std::vector<float>& whole,
                                     StoredDtype dtype, std::vector<std::vector<std::byte>>* storage);

}  // namespace weft
