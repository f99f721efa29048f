#include "weft/llm/gguf/gguf_model.h"

#include <map>
#include <memory>
#include <set>
#include <utility>

#include <nlohmann/json.hpp>

#include "weft/base/error.h"
#include "weft/base/index.h"
#include "weft/llm/gguf/gguf_facts.h"
#include "weft/llm/gguf/gguf_files.h"
#include "weft/llm/model/tensor_names.h"

namespace weft {
namespace {

// The files, and q and k marked where their rows lie in pairs.
class GgufSource final : public TensorSource {
 public:
  GgufSource(std::unique_ptr<const GgufFiles> files, const GgufFacts& facts) : files_(std::move(files)) {
    if (!facts.family->paired) return;
    for (const auto& [name, tensor] : files_->tensors())
      if (name.find(".attn_q.") != std::string::npos || name.find(".attn_k.") != std::string::npos)
        paired_.emplace(name, *tensor).first->second.paired_rows = facts.head_dim;
  }
  const StoredTensor* find(std::string_view name) const override {
    if (const auto found = paired_.find(name); found != paired_.end()) return &found->second;
    return files_->find(name);
  }
  std::string where() const override { return files_->path(); }

 private:
  std::unique_ptr<const GgufFiles> files_;
  std::map<std::string, StoredTensor, std::less<>> paired_;
};

// A tensor that the description does not have would be left out of the sum: scales, norms, biases of other kinds.
void refuse_other_tensors(const GgufFiles& files, const ModelConfig& config) {
  std::set<std::string, std::less<>> known = {"rope_freqs.weight", "rope_factors_long.weight",
                                              "rope_factors_short.weight"};
  for (NamedShape& tensor : all_tensors(config)) known.insert(std::move(tensor.name));
  for (const auto& [name, tensor] : files.tensors())
    if (!known.contains(name) && !name.ends_with(".attn_rot_embd.weight"))
      bad_input(
          "{}: tensor {} is none that a model of this architecture has here, so leaving it out could change what "
          "the model computes; use the model's folder",
          files.path(), weft::quoted(name));
}

}  // namespace

Json gguf_config(const std::string& path) { return gguf_config_json(read_gguf_facts(GgufFiles(path))); }

ModelSource gguf_model(const std::string& path) {
  auto files = std::make_unique<const GgufFiles>(path);
  const GgufFacts facts = read_gguf_facts(*files);
  ModelSource out{parse_config(gguf_config_json(facts), path), nullptr, nullptr};
  set_gguf_layout(files->has("blk.0.attn_qkv.weight"), &out.config);
  refuse_other_tensors(*files, out.config);
  out.tensors = std::make_shared<GgufSource>(std::move(files), facts);
  return out;
}

}  // namespace weft
