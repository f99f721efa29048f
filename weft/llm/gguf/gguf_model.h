// Models in GGUF files: one per architecture of llama.cpp that gguf_families.cc lists. The settings become the
// config.json that such a model would have, and tensors have names of their own (tensor_names.cc), so that everything
// behind is the same for files and folders. Weights in blocks stay in blocks.
#pragma once

#include <string>

#include "weft/base/json.h"
#include "weft/llm/model/model.h"

namespace weft {

// Of a file, or of several by the first. Throws bad_input naming file and setting or tensor where the model is none
// that Weft computes exactly.
ModelSource gguf_model(const std::string& path);

// What stands for its config.json.
Json gguf_config(const std::string& path);

// Files of some architectures keep the two rows that a rotary position turns side by side; folders, half a head apart.
// Row r of a folder's q or k, as it lies in a file; `rows` to a head.
constexpr std::int64_t gguf_row(std::int64_t r, std::int64_t rows) {
  const std::int64_t within = r % rows, half = rows / 2;
  return r - within + within % half * 2 + within / half;
}

}  // namespace weft
