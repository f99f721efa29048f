// Models with stored logits of Hugging Face transformers (tools/golden_logits.py), for tests.
#pragma once

#include <cmath>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "weft/base/json.h"
#include "weft/io/tensor/npy.h"

namespace weft {

inline const std::vector<std::string>& golden_folders() {
  static const std::vector<std::string> folders = [] {
    std::vector<std::string> out{std::string(WEFT_SOURCE) + "/models/weft-16"};
    for (const char* name : {"llama-gqa", "llama-untied", "mistral-window", "opt-bias", "qwen2", "qwen3", "gemma2",
                             "gemma3", "phi3", "olmo2", "granite", "smollm3", "gpt2", "neox", "neox-serial"})
      out.push_back(std::string(WEFT_SOURCE) + "/tests/models/" + name);
    return out;
  }();
  return folders;
}

inline std::string golden_folder(const std::string& name) { return std::string(WEFT_SOURCE) + "/tests/models/" + name; }

struct GoldenPrompt {
  std::vector<int> ids;
  NpyArray rows;  // logits of the last rows.shape[0] positions
};

inline std::vector<GoldenPrompt> golden_prompts(const std::string& folder) {
  const Json golden = load_json(folder + "/golden/golden.json");
  std::vector<GoldenPrompt> out;
  for (const Json& prompt : golden.at("prompts"))
    out.push_back({prompt.at("ids").get<std::vector<int>>(),
                   read_npy(folder + "/golden/rows-" + std::to_string(out.size()) + ".npy")});
  return out;
}

// Largest difference of the prompt's last rows, relative to the largest golden logit. `logits` has all positions.
inline double golden_error(const GoldenPrompt& prompt, const std::vector<float>& logits) {
  const auto& want = prompt.rows.values;
  const std::size_t first = logits.size() - want.size();
  double worst = 0, largest = 0;
  for (std::size_t i = 0; i < want.size(); ++i) {
    largest = std::max(largest, std::abs(static_cast<double>(want[i])));
    const double off = std::abs(static_cast<double>(logits[first + i]) - want[i]);
    worst = off <= worst ? worst : off;  // NaN becomes the worst
  }
  return worst / largest;
}

}  // namespace weft
