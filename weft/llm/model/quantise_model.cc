#include "weft/llm/model/quantise_model.h"

#include <cmath>
#include <cstring>
#include <filesystem>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "weft/base/error.h"
#include "weft/base/index.h"
#include "weft/base/quant/blocks.h"
#include "weft/base/thread_pool.h"
#include "weft/io/tensor/write_gguf.h"
#include "weft/llm/model/gguf_model.h"
#include "weft/llm/model/gguf_tokenizer_settings.h"
#include "weft/llm/model/tensor_names.h"

namespace weft {
namespace {

using Settings = std::vector<std::pair<std::string, GgufSetting>>;

StoredDtype stored_format(Dtype dtype) {
  for (const StoredDtype stored : {StoredDtype::q8_0, StoredDtype::q4_0, StoredDtype::q4_k, StoredDtype::q6_k})
    if (blocked_dtype(stored) == dtype) return stored;
  return StoredDtype::f32;
}

std::uint32_t file_type(Dtype type) {  // llama.cpp's numbers for "mostly of this type"
  return type == Dtype::q8_0 ? 7 : type == Dtype::q4_0 ? 2 : type == Dtype::q4_k ? 15 : 18;
}

bool is_turned(std::string_view name) {
  return name.find(".q_proj.") != std::string_view::npos || name.find(".k_proj.") != std::string_view::npos;
}

Settings model_settings(const ModelConfig& c, const std::string& folder, Dtype type) {
  const auto whole = [](std::int64_t value) { return static_cast<std::uint32_t>(value); };
  const RotaryDesign& rotary = c.design.rotaries[0];
  Settings out = {{"general.architecture", std::string("llama")},
                  {"general.name", std::filesystem::path(folder).filename().string()},
                  {"general.file_type", file_type(type)},
                  {"general.quantization_version", std::uint32_t{2}},
                  {"llama.vocab_size", whole(c.vocab)},
                  {"llama.context_length", whole(c.max_positions)},
                  {"llama.embedding_length", whole(c.hidden)},
                  {"llama.block_count", whole(c.blocks)},
                  {"llama.feed_forward_length", whole(c.intermediate)},
                  {"llama.attention.head_count", whole(c.heads)},
                  {"llama.attention.head_count_kv", whole(c.kv_heads)},
                  {"llama.attention.key_length", whole(c.head_dim)},
                  {"llama.attention.value_length", whole(c.head_dim)},
                  {"llama.attention.layer_norm_rms_epsilon", static_cast<float>(c.norm_eps)},
                  {"llama.rope.dimension_count", whole(c.head_dim)},
                  {"llama.rope.freq_base", static_cast<float>(rotary.theta)}};
  if (rotary.kind == RotaryKind::linear) {
    out.push_back({"llama.rope.scaling.type", std::string("linear")});
    out.push_back({"llama.rope.scaling.factor", static_cast<float>(rotary.factor)});
  }
  return out;
}

// What each rotary pair's rate is divided by, where the rates are not the plain ones: as a tensor.
std::vector<float> rotary_divisors(const ModelConfig& c) {
  const RotaryDesign& rotary = c.design.rotaries[0];
  if (rotary.kind != RotaryKind::llama3) return {};
  std::vector<float> out;
  const std::vector<double> rates = rotary_rates(rotary, c.max_positions);
  for (std::size_t i = 0; i < rates.size(); ++i) {
    const double plain = std::pow(rotary.theta, -2.0 * static_cast<double>(i) / static_cast<double>(c.head_dim));
    out.push_back(static_cast<float>(plain / rates[i]));
  }
  return out;
}

// Rows of a tensor as f32, in the file's order, made into blocks by all threads.
std::vector<std::byte> made_of(const StoredTensor& tensor, Dtype format, std::int64_t head_rows, ThreadPool& threads) {
  const std::int64_t cols = tensor.shape.back(), rows = tensor.elements() / cols;
  const std::int64_t bytes = row_bytes(format, cols);
  std::vector<std::byte> out(num(rows * bytes));
  threads.run([&](int thread) {
    std::vector<float> row(num(cols));
    for (std::int64_t r = rows * thread / threads.size(); r < rows * (thread + 1) / threads.size(); ++r) {
      widen(tensor, r * cols, cols, row.data());
      std::byte* to = out.data() + (head_rows == 0 ? r : gguf_row(r, head_rows)) * bytes;
      if (is_blocked(format))
        quantise(format, cols, row.data(), to);
      else
        std::memcpy(to, row.data(), num(bytes));
    }
  });
  return out;
}

void check_model(const ModelSource& source, Dtype type) {
  if (!is_blocked(type)) bad_input("type {} has no blocks; use q8_0, q4_0, q4_k or q6_k", to_string(type));
  const ModelConfig& c = source.config;
  Design plain;  // of llama: what may differ is what the settings and the tensors say
  plain.qkv_bias = c.design.qkv_bias, plain.output_bias = c.design.output_bias;
  plain.rotaries = c.design.rotaries, plain.blocks = c.design.blocks;
  bool fits = c.design == plain && c.names == &kLlamaNames && c.design.rotaries.size() == 1;
  for (const BlockDesign& block : c.design.blocks) fits = fits && block == BlockDesign{};
  if (fits) {
    const RotaryKind kind = c.design.rotaries[0].kind;
    fits = c.design.rotaries[0].columns == c.head_dim &&
           (kind == RotaryKind::plain || kind == RotaryKind::linear || kind == RotaryKind::llama3);
  }
  if (!fits)
    bad_input("{}: GGUF files are written of the architecture llama alone: Llama, and Mistral without windows", c.file);
}

}  // namespace

Dtype fitting_format(Dtype type, std::int64_t cols) {
  if (cols % block_shape(type).values == 0) return type;
  if (cols % 32 != 0) return Dtype::f32;
  return type == Dtype::q4_k ? Dtype::q4_0 : Dtype::q8_0;
}

QuantiseReport quantise_model(const std::string& folder, const std::string& path, const QuantiseOptions& options) {
  const ModelSource source = open_model(folder);
  const ModelConfig& config = source.config;
  check_model(source, options.type);
  Settings settings = model_settings(config, folder, options.type);
  QuantiseReport report;
  report.has_tokenizer = add_tokenizer_settings(folder, &settings);
  ThreadPool threads(options.threads);
  std::vector<GgufTensor> tensors;
  const std::vector<NamedShape> all = all_tensors(config);
  std::int64_t done = 0;
  for (const NamedShape& named : all) {
    const StoredTensor* tensor = source.tensors->find(named.name);
    if (tensor == nullptr || tensor->shape != named.shape)
      bad_input("{}: there is no tensor \"{}\" of the shape that its config.json says; is the folder whole?", folder,
                named.name);
    const bool few_bits = options.type == Dtype::q4_k || options.type == Dtype::q4_0;
    const bool embeds = named.name == embedding_name(config) || named.name == head_name(config);
    const Dtype wanted = embeds && few_bits ? Dtype::q6_k : options.type;
    const Dtype format = named.shape.size() < 2 ? Dtype::f32 : fitting_format(wanted, named.shape.back());
    std::int64_t rows = 1;  // a bias is turned as rows of one column
    for (const std::int64_t extent : named.shape) rows *= extent;
    const std::int64_t head_rows = is_turned(named.name) ? config.head_dim : 0;
    ++report.tensors[std::string(to_string(format))];
    report.bytes_read += static_cast<std::int64_t>(tensor->bytes);
    report.bytes_written += named.shape.size() < 2 ? 4 * rows : row_bytes(format, rows);
    tensors.push_back({gguf_name(named.name), stored_format(format), named.shape, [&, tensor, format, head_rows] {
                         StoredTensor of = *tensor;
                         if (of.shape.size() == 1 && head_rows > 0) of.shape.push_back(1);
                         if (options.progress) options.progress(done++, std::ssize(all));
                         return made_of(of, format, head_rows, threads);
                       }});
  }
  if (const std::vector<float> divisors = rotary_divisors(config); !divisors.empty())
    tensors.push_back({"rope_freqs.weight", StoredDtype::f32, {std::ssize(divisors)}, [divisors] {
                         std::vector<std::byte> bytes(divisors.size() * 4);
                         std::memcpy(bytes.data(), divisors.data(), bytes.size());
                         return bytes;
                       }});
  write_gguf(path, settings, tensors);
  return report;
}

}  // namespace weft
