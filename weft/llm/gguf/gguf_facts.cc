// Facts out of a file's settings. A setting of the model's architecture that nobody has read could change what the
// model computes, and so could a tensor: both are refused, but for those that are known to change nothing.
#include "weft/llm/gguf/gguf_facts.h"

#include <algorithm>
#include <set>

#include "weft/base/error.h"
#include "weft/base/index.h"
#include "weft/llm/model/config_reader.h"

namespace weft {
namespace {

constexpr std::int64_t kMostSetting = std::int64_t{1} << 24;
constexpr double kMostReal = 1e12;

// Names of settings without their architecture that change no logits.
constexpr std::string_view kIdleSettings[] = {"vocab_size", "tensor_data_layout", "pooling_type",
                                              "rope.scaling.finetuned", "expert_used_count"};

class SettingReader {
 public:
  SettingReader(const GgufFile& file, std::string_view prefix) : file_(file), prefix_(std::string(prefix) + ".") {}

  bool has(std::string_view name) { return file_.has(key(name)); }
  std::int64_t whole(std::string_view name, std::int64_t most = kMostSetting) {
    return file_.get_int(key(name), 1, most);
  }
  std::int64_t whole_or(std::string_view name, std::int64_t otherwise) {
    return file_.get_int(key(name), 0, kMostSetting, otherwise);
  }
  double real(std::string_view name) { return file_.get_double(key(name), 0, kMostReal); }
  double real_or(std::string_view name, double otherwise) {
    return file_.get_double(key(name), 0, kMostReal, otherwise);
  }
  bool flag_or(std::string_view name, bool otherwise) { return file_.get_bool(key(name), otherwise); }
  std::string text_or(std::string_view name, const char* otherwise) {
    return has(name) ? file_.get_text(key(name)) : otherwise;
  }
  // A number that holds for all blocks, or one per block.
  std::int64_t same_in_all(std::string_view name, std::int64_t otherwise) {
    const auto found = file_.values().find(key(name));
    if (found == file_.values().end() || !found->second.is_array) return whole_or(name, otherwise);
    const std::vector<std::int64_t> all = file_.get_ints(key(name));
    for (const std::int64_t one : all)
      if (one != all[0] || one < 0 || one > kMostSetting)
        bad_input("{}: setting {} differs from block to block, which is not computed; use a model without it",
                  file_.path(), weft::quoted(key(name)));
    return all.empty() ? otherwise : all[0];
  }
  // Which blocks have a window: a list of the blocks, or a number n for "all but every n-th".
  std::vector<bool> pattern(std::string_view name, std::int64_t blocks, std::int64_t otherwise) {
    std::vector<bool> out;
    const auto found = file_.values().find(key(name));
    if (found != file_.values().end() && found->second.is_array) {
      if (found->second.kind == GgufKind::boolean)
        for (const std::byte item : found->second.bytes) out.push_back(item != std::byte{0});
      else
        for (const std::int64_t item : file_.get_ints(key(name))) out.push_back(item != 0);
      if (std::ssize(out) != blocks)
        bad_input("{}: setting {} has {} items for {} blocks; the file is damaged", file_.path(),
                  weft::quoted(key(name)), out.size(), blocks);
      return out;
    }
    const std::int64_t period = whole_or(name, otherwise);
    for (std::int64_t i = 0; i < blocks; ++i) out.push_back(period == 0 || i % period < period - 1);
    return out;
  }
  void must_be(std::string_view name, bool is_so, std::string_view why) {
    if (!is_so) bad_input("{}: setting {}: {}", file_.path(), weft::quoted(key(name)), why);
  }

  void refuse_rest() const {
    for (const auto& [name, value] : file_.values()) {
      if (!name.starts_with(prefix_) || read_.contains(name)) continue;
      const std::string_view rest = std::string_view(name).substr(prefix_.size());
      if (std::find(std::begin(kIdleSettings), std::end(kIdleSettings), rest) != std::end(kIdleSettings)) continue;
      bad_input("{}: setting {} is one that Weft does not know, so it could change what the model computes",
                file_.path(), weft::quoted(name));
    }
  }

 private:
  const std::string& key(std::string_view name) { return *read_.insert(prefix_ + std::string(name)).first; }

  const GgufFile& file_;
  std::string prefix_;
  std::set<std::string, std::less<>> read_;
};

std::vector<float> values_of(const GgufFiles& files, const char* name) {
  const StoredTensor* tensor = files.find(name);
  if (tensor == nullptr) return {};
  std::vector<float> out(num(tensor->elements()));
  widen(*tensor, 0, tensor->elements(), out.data());
  return out;
}

void read_gguf_sizes(const GgufFiles& files, SettingReader* r, GgufFacts* f) {
  const StoredTensor* embedding = files.find("token_embd.weight");
  if (embedding == nullptr) embedding = &files.settings().get("token_embd.weight");  // refuses in its words
  if (embedding->shape.size() != 2)
    bad_input("{}: tensor \"token_embd.weight\" has {} extents; it should have 2", files.path(),
              embedding->shape.size());
  f->vocab = embedding->shape[0];
  f->hidden = r->whole("embedding_length");
  f->blocks = r->whole("block_count", kMostLayers);
  f->heads = r->same_in_all("attention.head_count", 0);
  r->must_be("attention.head_count", f->heads > 0, "it is missing or 0; the file is damaged");
  f->kv_heads = r->same_in_all("attention.head_count_kv", f->heads);
  r->must_be("attention.head_count_kv", f->kv_heads > 0 && f->kv_heads <= f->heads,
             fmt::format("it is {}; give 1 to {}", f->kv_heads, f->heads));
  f->intermediate = r->same_in_all("feed_forward_length", 0);
  f->context = r->whole("context_length");
  f->head_dim = r->whole_or("attention.key_length", f->hidden / f->heads);
  r->must_be("attention.value_length", r->whole_or("attention.value_length", f->head_dim) == f->head_dim,
             "it differs from key_length; they must be equal");
  f->eps = r->real(f->family->layer_norm ? "attention.layer_norm_epsilon" : "attention.layer_norm_rms_epsilon");
  f->tied = !files.has("output.weight");
  f->attention_bias = files.has(f->family->fused ? "blk.0.attn_qkv.bias" : "blk.0.attn_q.bias");
  f->mlp_bias = files.has("blk.0.ffn_up.bias");
}

void read_rotary(const GgufFiles& files, SettingReader* r, GgufFacts* f) {
  f->turned = r->whole_or("rope.dimension_count", f->head_dim);
  r->must_be("rope.dimension_count", !f->family->paired || f->turned == f->head_dim,
             fmt::format("it is {}, but a head has {} columns; of this architecture heads turned in part are not read",
                         f->turned, f->head_dim));
  f->theta = r->real_or("rope.freq_base", 10000);
  f->scaling = r->text_or("rope.scaling.type", "none");
  f->factor = r->real_or("rope.scaling.factor", 1);
  f->original_context = r->whole_or("rope.scaling.original_context_length", 0);
  f->magnitude = r->real_or(f->scaling == "yarn" ? "rope.scaling.yarn_attn_factor" : "rope.scaling.attn_factor", 0);
  f->beta_fast = r->real_or("rope.scaling.yarn_beta_fast", 0);
  f->beta_slow = r->real_or("rope.scaling.yarn_beta_slow", 0);
  r->must_be("rope.scaling.type",
             f->scaling == "none" || f->scaling == "linear" || f->scaling == "yarn" || f->scaling == "longrope",
             fmt::format("it is {}; none, linear, yarn and longrope are read", weft::quoted(f->scaling)));
  if (r->has("rope.scale_linear") && f->scaling == "none") {  // how files of 2023 say it
    f->factor = r->real("rope.scale_linear");
    if (f->factor != 1) f->scaling = "linear";
  }
  f->divisors = values_of(files, "rope_freqs.weight");
  if (std::vector<float> short_ones = values_of(files, "rope_factors_short.weight"); !short_ones.empty()) {
    f->divisors = std::move(short_ones);
    f->long_divisors = values_of(files, "rope_factors_long.weight");
  }
  r->must_be("rope.scaling.type", f->scaling != "longrope" || !f->divisors.empty(),
             "it is longrope, but there is no tensor \"rope_factors_short.weight\"");
}

void read_windows(SettingReader* r, GgufFacts* f) {
  const bool gemma2 = f->family->model_type == "gemma2", gemma3 = f->family->model_type == "gemma3_text";
  f->window = r->whole_or("attention.sliding_window", gemma2 ? 4096 : 0);
  if (gemma3) f->theta_in_window = r->real_or("rope.freq_base_swa", 10000);
  if (gemma2 || gemma3) {
    f->windowed = r->pattern("attention.sliding_window_pattern", f->blocks, gemma2 ? 2 : 6);
    if (f->window == 0) f->windowed.assign(num(f->blocks), false);
  } else if (f->family->model_type != "phi3") {
    r->must_be("attention.sliding_window", f->window == 0,
               fmt::format("it is {}; windows are read of gemma2, gemma3 and phi3 files", f->window));
  }
}

// Only what the family computes with: of any other it stays unread, and is refused.
void read_scales(SettingReader* r, GgufFacts* f) {
  const std::string_view type = f->family->model_type;
  if (type == "gemma2") f->attention_cap = r->real_or("attn_logit_softcapping", 50);
  if (type == "gemma2" || type == "gemma3_text")
    f->logit_cap = r->real_or("final_logit_softcapping", type == "gemma2" ? 30 : 0);
  if (type == "gpt_neox") f->parallel = r->flag_or("use_parallel_residual", true);
  if (type != "granite") return;
  f->embedding_scale = r->real_or("embedding_scale", 0);
  f->residual_scale = r->real_or("residual_scale", 0);
  f->attention_scale = r->real_or("attention.scale", 0);
  f->logit_divisor = r->real_or("logit_scale", 0);
  r->must_be("rope.scaling.finetuned", r->flag_or("rope.scaling.finetuned", true),
             "it is false: this model has no positions, which is not computed");
}

void read_ends(const GgufFile& file, GgufFacts* f) {
  for (const char* key : {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id"})
    if (file.has(key)) f->ends.push_back(static_cast<int>(file.get_int(key, 0, f->vocab - 1)));
}

}  // namespace

GgufFacts read_gguf_facts(const GgufFiles& files) {
  const GgufFile& file = files.settings();
  GgufFacts f;
  f.family = &gguf_family(file.get_text("general.architecture"), file.path());
  SettingReader r(file, f.family->architecture);
  if (const std::int64_t experts = r.whole_or("expert_count", 0); experts > 0)
    r.must_be("expert_count", false, fmt::format("it is {}; models of experts are not run", experts));
  read_gguf_sizes(files, &r, &f);
  read_rotary(files, &r, &f);
  read_windows(&r, &f);
  read_scales(&r, &f);
  r.must_be("attention.causal", r.flag_or("attention.causal", true), "it is false: attention to what follows");
  r.refuse_rest();
  read_ends(file, &f);
  return f;
}

}  // namespace weft
