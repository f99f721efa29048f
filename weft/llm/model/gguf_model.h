// Models in GGUF files, of llama.cpp's architecture "llama": Llama 2 and 3, Mistral and their kin. The settings become
// the config.json that such a model would have, and tensors are found under the names that its folder would give them,
// so that everything behind is the same for files and folders. Weights in blocks stay in blocks.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "weft/base/json.h"
#include "weft/llm/model/model.h"

namespace weft {

class GgufFile;

// Throws bad_input naming file and setting where the model is none that Weft computes exactly.
Json gguf_config(const GgufFile& file);

// "model.layers.3.mlp.up_proj.weight" -> "blk.3.ffn_up.weight"; empty where files have no such tensor.
std::string gguf_name(std::string_view name);

std::shared_ptr<const TensorSource> gguf_source(const std::string& path);

// Files of llama keep the two rows that a rotary position turns side by side; folders, half a head apart. Row r of a
// folder's q or k, as it lies in a file; `rows` to a head.
constexpr std::int64_t gguf_row(std::int64_t r, std::int64_t rows) {
  const std::int64_t within = r % rows, half = rows / 2;
  return r - within + within % half * 2 + within / half;
}

}  // namespace weft
