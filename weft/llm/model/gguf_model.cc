#include "weft/llm/model/gguf_model.h"

#include <array>
#include <map>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "weft/base/error.h"
#include "weft/base/index.h"
#include "weft/io/tensor/gguf.h"

namespace weft {
namespace {

constexpr std::int64_t kMostSetting = std::int64_t{1} << 24;

constexpr std::array<std::pair<std::string_view, std::string_view>, 9> kBlockNames{
    {{"input_layernorm", "attn_norm"},
     {"self_attn.q_proj", "attn_q"},
     {"self_attn.k_proj", "attn_k"},
     {"self_attn.v_proj", "attn_v"},
     {"self_attn.o_proj", "attn_output"},
     {"post_attention_layernorm", "ffn_norm"},
     {"mlp.gate_proj", "ffn_gate"},
     {"mlp.up_proj", "ffn_up"},
     {"mlp.down_proj", "ffn_down"}}};

// What each rotary pair's rate is divided by, where the file has a tensor of it (Llama 3.1 and later): the form of
// longrope, with one list for texts of any length and cosines as they are.
Json divided_rope(const GgufFile& file) {
  const StoredTensor& tensor = file.get("rope_freqs.weight");
  std::vector<float> divisors(num(tensor.elements()));
  widen(tensor, 0, tensor.elements(), divisors.data());
  return {{"rope_type", "longrope"}, {"short_factor", divisors}, {"long_factor", divisors}, {"attention_factor", 1.0}};
}

void set_rope(const GgufFile& file, std::int64_t head_dim, Json* config) {
  const std::int64_t turned = file.get_int("llama.rope.dimension_count", 0, kMostSetting, head_dim);
  if (turned != head_dim)
    bad_input(
        "{}: setting \"llama.rope.dimension_count\" is {}, but a head has {} columns; heads turned in part are "
        "not read from GGUF files",
        file.path(), turned, head_dim);
  (*config)["rope_theta"] = file.get_double("llama.rope.freq_base", 1, 1e12, 10000);
  const std::string type = file.has("llama.rope.scaling.type") ? file.get_text("llama.rope.scaling.type") : "none";
  if (type == "linear") {
    (*config)["rope_scaling"] = {{"rope_type", "linear"},
                                 {"factor", file.get_double("llama.rope.scaling.factor", 1e-3, 1e6)}};
  } else if (type != "none") {
    bad_input("{}: setting \"llama.rope.scaling.type\" is {}; none and linear are read from GGUF files", file.path(),
              weft::quoted(type));
  }
  if (file.find("rope_freqs.weight") != nullptr) (*config)["rope_scaling"] = divided_rope(file);
}

void set_ends(const GgufFile& file, std::int64_t vocab, Json* config) {
  Json ends = Json::array();
  for (const char* key : {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id"})
    if (file.has(key)) ends.push_back(file.get_int(key, 0, vocab - 1));
  if (!ends.empty()) (*config)["eos_token_id"] = ends;
}

void refuse_others(const GgufFile& file) {
  if (const std::int64_t count = file.get_int("split.count", 0, 65535, 1); count > 1)
    bad_input("{}: this is one of {} files; join them with `llama-gguf-split --merge`", file.path(), count);
  const std::string architecture = file.get_text("general.architecture");
  if (architecture != "llama")
    bad_input(
        "{}: setting \"general.architecture\" is {}; of GGUF files llama is read (Llama, Mistral), others from "
        "their folders",
        file.path(), weft::quoted(architecture));
  if (const std::int64_t experts = file.get_int("llama.expert_count", 0, kMostSetting, 0); experts > 0)
    bad_input("{}: setting \"llama.expert_count\" is {}; models of experts are not run", file.path(), experts);
}

class GgufSource final : public TensorSource {
 public:
  explicit GgufSource(const std::string& path) : file_(GgufFile::open(path)) {
    refuse_others(file_);
    const std::int64_t heads = file_.get_int("llama.attention.head_count", 1, kMostSetting);
    const std::int64_t kv_heads = file_.get_int("llama.attention.head_count_kv", 1, heads, heads);
    for (const StoredTensor& tensor : file_.tensors()) {
      const bool q = tensor.name.find(".attn_q.") != std::string::npos;
      const bool k = tensor.name.find(".attn_k.") != std::string::npos;
      StoredTensor& copy = tensors_.emplace(tensor.name, tensor).first->second;
      if ((q || k) && !tensor.shape.empty()) copy.paired_rows = tensor.shape[0] / (q ? heads : kv_heads);
    }
  }
  const StoredTensor* find(std::string_view name) const override {
    const std::string in_file = gguf_name(name);
    const auto found = tensors_.find(in_file);
    if (found != tensors_.end()) return &found->second;
    return in_file.empty() ? nullptr : file_.find(in_file);  // refuses one of another type
  }
  std::string where() const override { return file_.path(); }

 private:
  GgufFile file_;
  std::map<std::string, StoredTensor, std::less<>> tensors_;
};

}  // namespace

Json gguf_config(const GgufFile& file) {
  refuse_others(file);
  const auto setting = [&](const char* name) { return file.get_int(std::string("llama.") + name, 1, kMostSetting); };
  const StoredTensor& embedding = file.get("token_embd.weight");
  if (embedding.shape.size() != 2)
    bad_input("{}: tensor \"token_embd.weight\" has {} extents; it should have 2", file.path(), embedding.shape.size());
  const std::int64_t hidden = setting("embedding_length"), heads = setting("attention.head_count");
  const std::int64_t head_dim = file.get_int("llama.attention.key_length", 2, 4096, hidden / heads);
  if (file.get_int("llama.attention.value_length", 2, 4096, head_dim) != head_dim)
    bad_input("{}: settings \"llama.attention.key_length\" and \"value_length\" differ; they must be equal",
              file.path());
  Json config = {{"model_type", "llama"},
                 {"vocab_size", embedding.shape[0]},
                 {"hidden_size", hidden},
                 {"intermediate_size", setting("feed_forward_length")},
                 {"num_hidden_layers", setting("block_count")},
                 {"num_attention_heads", heads},
                 {"num_key_value_heads", file.get_int("llama.attention.head_count_kv", 1, heads, heads)},
                 {"head_dim", head_dim},
                 {"max_position_embeddings", setting("context_length")},
                 {"rms_norm_eps", file.get_double("llama.attention.layer_norm_rms_epsilon", 0, 1)},
                 {"tie_word_embeddings", file.find("output.weight") == nullptr},
                 {"attention_bias", file.find("blk.0.attn_q.bias") != nullptr}};
  set_rope(file, head_dim, &config);
  set_ends(file, embedding.shape[0], &config);
  return config;
}

std::string gguf_name(std::string_view name) {
  if (name == "model.embed_tokens.weight") return "token_embd.weight";
  if (name == "model.norm.weight") return "output_norm.weight";
  if (name == "lm_head.weight") return "output.weight";
  constexpr std::string_view kLayers = "model.layers.";
  if (!name.starts_with(kLayers)) return "";
  name.remove_prefix(kLayers.size());
  const std::size_t dot = name.find('.'), last = name.rfind('.');
  if (dot == std::string_view::npos || last <= dot) return "";
  const std::string_view part = name.substr(dot + 1, last - dot - 1);
  for (const auto& [folder, file] : kBlockNames)
    if (part == folder) return fmt::format("blk.{}.{}{}", name.substr(0, dot), file, name.substr(last));
  return "";
}

std::shared_ptr<const TensorSource> gguf_source(const std::string& path) { return std::make_shared<GgufSource>(path); }

}  // namespace weft
