// Models of random weights: for tests, and to measure a model's shape without its files. A tensor's values depend on
// its name, its shape and the seed alone, so every rank makes the same ones.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "weft/llm/model/model.h"

namespace weft {

struct RandomModelOptions {
  std::uint64_t seed = 1;
  int threads = 1;
};

// All tensors of the model that a config.json describes, in this rank's memory, in the dtype that the file names (bf16
// where it names none). Products keep the size of what they multiply; norms are near one.
ModelSource random_model(const std::string& config_path, const RandomModelOptions& options = {});

// The same as a folder that transformers reads too: config.json and model.safetensors.
void write_random_model(const std::string& config_path, const std::string& folder,
                        const RandomModelOptions& options = {});

}  // namespace weft
