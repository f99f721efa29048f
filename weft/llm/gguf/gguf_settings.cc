// Facts of a model, and the settings that a file of it has.
#include <algorithm>
#include <cmath>

#include <nlohmann/json.hpp>

#include "weft/base/error.h"
#include "weft/base/index.h"
#include "weft/llm/gguf/gguf_facts.h"

namespace weft {
namespace {

bool nearly(double a, double b) { return std::abs(a - b) <= 1e-6 * std::max(std::abs(a), std::abs(b)); }

double plain_growth(double factor) { return factor <= 1 ? 1 : 0.1 * std::log(factor) + 1; }  // yarn's, of scores

// What each rate of Llama 3's scaling is divided by: a file keeps them as a tensor.
std::vector<float> rate_divisors(const RotaryDesign& rotary, std::int64_t positions) {
  std::vector<float> out;
  const std::vector<double> rates = rotary_rates(rotary, positions);
  for (std::size_t i = 0; i < rates.size(); ++i) {
    const double plain = std::pow(rotary.theta, -2.0 * static_cast<double>(i) / static_cast<double>(rotary.columns));
    out.push_back(static_cast<float>(plain / rates[i]));
  }
  return out;
}

void set_rotary(const ModelConfig& c, GgufFacts* f) {
  if (c.design.rotaries.empty()) return;
  const RotaryDesign& r = c.design.rotaries[0];
  f->turned = r.columns;
  f->theta = r.theta;
  if (c.design.rotaries.size() > 1) f->theta_in_window = c.design.rotaries[1].theta;
  if (r.kind == RotaryKind::llama3) f->divisors = rate_divisors(r, c.max_positions);
  if (r.kind == RotaryKind::linear) f->scaling = "linear", f->factor = r.factor;
  if (r.kind == RotaryKind::yarn) {
    f->scaling = "yarn", f->factor = r.factor;
    if (r.beta_fast != 32) f->beta_fast = r.beta_fast;
    if (r.beta_slow != 1) f->beta_slow = r.beta_slow;
    if (!nearly(r.magnitude, plain_growth(r.factor))) f->magnitude = r.magnitude;
  }
  if (r.kind == RotaryKind::longrope) {
    f->divisors.assign(r.short_factors.begin(), r.short_factors.end());
    f->long_divisors.assign(r.long_factors.begin(), r.long_factors.end());
    f->magnitude = r.magnitude;
  }
  if (r.kind == RotaryKind::yarn || r.kind == RotaryKind::longrope)
    f->original_context = static_cast<std::int64_t>(r.original_positions);
}

class SettingWriter {
 public:
  explicit SettingWriter(const GgufFacts& facts) : prefix_(std::string(facts.family->architecture) + ".") {}
  void whole(std::string_view name, std::int64_t value) { add(name, static_cast<std::uint32_t>(value)); }
  void real(std::string_view name, double value) { add(name, static_cast<float>(value)); }
  void real_if(std::string_view name, double value) {
    if (value > 0) real(name, value);
  }
  void add(std::string_view name, GgufSetting value) {
    all_.push_back({prefix_ + std::string(name), std::move(value)});
  }
  std::vector<std::pair<std::string, GgufSetting>> take() { return std::move(all_); }

 private:
  std::string prefix_;
  std::vector<std::pair<std::string, GgufSetting>> all_;
};

void write_rotary(const GgufFacts& f, SettingWriter* w) {
  if (f.turned == 0) return;
  w->whole("rope.dimension_count", f.turned);
  w->real("rope.freq_base", f.theta);
  if (f.family->model_type == "gemma3_text") w->real("rope.freq_base_swa", f.theta_in_window);
  if (f.scaling != "none") {
    w->add("rope.scaling.type", f.scaling);
    w->real("rope.scaling.factor", f.factor);
  }
  if (f.original_context > 0) w->whole("rope.scaling.original_context_length", f.original_context);
  w->real_if(f.scaling == "yarn" ? "rope.scaling.yarn_attn_factor" : "rope.scaling.attn_factor", f.magnitude);
  w->real_if("rope.scaling.yarn_beta_fast", f.beta_fast);
  w->real_if("rope.scaling.yarn_beta_slow", f.beta_slow);
}

// "All but every n-th" where that says it, as llama.cpp's own converter has it; else a list.
void write_windows(const GgufFacts& f, SettingWriter* w) {
  const bool phi3 = f.family->model_type == "phi3";  // whose files have it for all blocks, and 0 for none
  if (f.window > 0 || phi3) w->whole("attention.sliding_window", f.window);
  if (f.window == 0 || phi3) return;
  for (std::int64_t period = 1; period <= f.blocks + 1; ++period) {
    bool says_it = true;
    for (std::int64_t i = 0; i < f.blocks; ++i) says_it = says_it && f.windowed[at(i)] == (i % period < period - 1);
    if (says_it) return w->whole("attention.sliding_window_pattern", period);
  }
  std::vector<std::int32_t> pattern(f.windowed.begin(), f.windowed.end());
  w->add("attention.sliding_window_pattern", std::move(pattern));
}

// Whether two descriptions turn heads alike at every position, whatever they call it.
bool same_rotary(const RotaryDesign& a, const RotaryDesign& b, std::int64_t positions) {
  if (a.columns != b.columns || !nearly(a.magnitude, b.magnitude)) return false;
  for (const std::int64_t longest : {std::int64_t{1}, positions}) {
    const std::vector<double> x = rotary_rates(a, longest), y = rotary_rates(b, longest);
    if (!std::equal(x.begin(), x.end(), y.begin(), y.end(), nearly)) return false;
  }
  return true;
}

}  // namespace

GgufFacts gguf_facts_of(const ModelConfig& c) {
  const Design& d = c.design;
  GgufFacts f{.family = gguf_family_of(c), .vocab = c.vocab, .context = c.max_positions, .hidden = c.hidden};
  f.blocks = c.blocks, f.intermediate = c.intermediate;
  f.heads = c.heads, f.kv_heads = c.kv_heads, f.head_dim = c.head_dim;
  f.eps = c.norm_eps;
  f.tied = c.tied_head, f.parallel = d.parallel;
  f.attention_bias = d.qkv_bias, f.mlp_bias = d.mlp_bias;
  f.turned = d.rotaries.empty() ? c.head_dim : d.rotaries[0].columns;
  set_rotary(c, &f);
  for (std::int64_t i = 0; i < c.blocks; ++i) {
    f.window = std::max(f.window, d.block(i).window);
    f.windowed.push_back(d.block(i).window > 0);
  }
  f.attention_cap = d.attention_cap, f.logit_cap = d.logit_cap;
  f.embedding_scale = d.embedding_scale, f.residual_scale = d.residual_scale;
  f.attention_scale = d.attention_scale, f.logit_divisor = 1 / d.logit_scale;
  f.ends = c.eos;
  return f;
}

std::vector<std::pair<std::string, GgufSetting>> gguf_settings(const GgufFacts& f) {
  SettingWriter w(f);
  w.whole("vocab_size", f.vocab);
  w.whole("context_length", f.context);
  w.whole("embedding_length", f.hidden);
  w.whole("block_count", f.blocks);
  w.whole("feed_forward_length", f.intermediate);
  w.whole("attention.head_count", f.heads);
  w.whole("attention.head_count_kv", f.kv_heads);
  w.whole("attention.key_length", f.head_dim);
  w.whole("attention.value_length", f.head_dim);
  w.real(f.family->layer_norm ? "attention.layer_norm_epsilon" : "attention.layer_norm_rms_epsilon", f.eps);
  if (f.family->model_type != "gpt2") write_rotary(f, &w);
  if (f.family->model_type == "gpt_neox") w.add("use_parallel_residual", f.parallel);
  write_windows(f, &w);
  w.real_if("attn_logit_softcapping", f.attention_cap);
  w.real_if("final_logit_softcapping", f.logit_cap);
  if (f.family->model_type == "granite") {
    w.real("embedding_scale", f.embedding_scale);
    w.real("residual_scale", f.residual_scale);
    w.real("attention.scale", f.attention_scale);
    w.real("logit_scale", f.logit_divisor);
  }
  return w.take();
}

void check_gguf_says_all(const ModelConfig& config, const GgufFacts& facts) {
  const auto refuse = [&](std::string_view what) {
    bad_input("{}: llama.cpp's files of architecture {} cannot say {} of this model; use its folder", config.file,
              facts.family->architecture, what);
  };
  Design said = parse_config(gguf_config_json(facts), config.file).design;
  const Design& d = config.design;
  for (std::int64_t i = 0; i < config.blocks; ++i) {
    if (said.block(i).window != d.block(i).window) refuse("the windows");
    if ((said.rotary_of(i) == nullptr) != (d.rotary_of(i) == nullptr)) refuse("which blocks have positions");
    if (d.rotary_of(i) != nullptr && !same_rotary(*said.rotary_of(i), *d.rotary_of(i), config.max_positions))
      refuse("the rotary positions");
  }
  for (const auto& [a, b] : {std::pair<double*, double>{&said.embedding_scale, d.embedding_scale},
                             {&said.residual_scale, d.residual_scale},
                             {&said.attention_scale, d.attention_scale},
                             {&said.logit_scale, d.logit_scale},
                             {&said.attention_cap, d.attention_cap},
                             {&said.logit_cap, d.logit_cap}})
    if (nearly(*a, b)) *a = b;
  if (said.attention_scale != d.attention_scale) refuse("the scale of scores");
  said.rotaries = d.rotaries, said.blocks = d.blocks;
  if (!(said == d)) refuse("biases, caps or the activation");
}

}  // namespace weft
