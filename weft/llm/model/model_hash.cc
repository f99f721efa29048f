// The hash that ties an spd file to its model.
#include <algorithm>

#include <nlohmann/json.hpp>

#include "weft/base/error.h"
#include "weft/base/sha256.h"
#include "weft/io/tensor/gguf.h"
#include "weft/io/tensor/safetensors.h"
#include "weft/llm/gguf/gguf_model.h"
#include "weft/llm/model/model.h"
#include "weft/llm/model/tensor_names.h"

namespace weft {
namespace {

constexpr std::size_t kSamples = 16, kSampleBytes = 64;

void add_samples(const StoredTensor& tensor, std::string* text) {
  const std::size_t size = std::min(kSampleBytes, tensor.bytes);
  const std::size_t span = tensor.bytes - size;
  for (std::size_t i = 0; i < kSamples; ++i) {
    const std::size_t at = span / (kSamples - 1) * i;
    text->append(reinterpret_cast<const char*>(tensor.data) + at, size);
  }
}

}  // namespace

std::string model_hash(const std::string& folder) {
  const ModelSource source = open_model(folder);
  std::string text =
      is_gguf(folder) ? gguf_config(folder).dump() : read_text_file(folder + "/config.json", std::size_t{1} << 20);
  for (const auto& [name, shape] : all_tensors(source.config)) {
    const StoredTensor* tensor = source.tensors->find(name);
    if (tensor == nullptr) bad_input("{}: there is no tensor \"{}\"; is the folder whole?", folder, name);
    text += fmt::format("\n{} {}", name, static_cast<int>(tensor->dtype));
    for (const std::int64_t size : tensor->shape) text += fmt::format(" {}", size);
    text += '\n';
    add_samples(*tensor, &text);
  }
  return to_hex(sha256(text));
}

}  // namespace weft
