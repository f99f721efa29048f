#include "weft/llm/quantise/quantise_model.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <map>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "weft/base/error.h"
#include "weft/base/index.h"
#include "weft/base/quant/blocks.h"
#include "weft/base/thread_pool.h"
#include "weft/io/tensor/write_gguf.h"
#include "weft/io/text/tokenizer.h"
#include "weft/llm/model/gguf_model.h"
#include "weft/llm/model/gguf_tokenizer_settings.h"
#include "weft/llm/model/tensor_names.h"
#include "weft/llm/quantise/calibration.h"
#include "weft/world/world.h"

namespace weft {
namespace {

using Settings = std::vector<std::pair<std::string, GgufSetting>>;

StoredDtype stored_format(Dtype dtype) {
  for (const StoredDtype stored : {StoredDtype::q8_0, StoredDtype::q4_0, StoredDtype::q4_k, StoredDtype::q6_k})
    if (blocked_dtype(stored) == dtype) return stored;
  return StoredDtype::f32;
}

std::uint32_t file_type(const QuantiseOptions& options) {  // llama.cpp's numbers for "mostly of this type"
  if (options.type == Dtype::q4_k) return options.mix == BitMix::more ? 15 : 14;
  return options.type == Dtype::q8_0 ? 7 : options.type == Dtype::q4_0 ? 2 : 18;
}

bool is_turned(std::string_view name) {
  return name.find(".q_proj.") != std::string_view::npos || name.find(".k_proj.") != std::string_view::npos;
}

Settings model_settings(const ModelConfig& c, const std::string& folder, const QuantiseOptions& options) {
  const auto whole = [](std::int64_t value) { return static_cast<std::uint32_t>(value); };
  const RotaryDesign& rotary = c.design.rotaries[0];
  Settings out = {{"general.architecture", std::string("llama")},
                  {"general.name", std::filesystem::path(folder).filename().string()},
                  {"general.file_type", file_type(options)},
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

// A tensor on its way into the file.
struct Rounding {
  StoredTensor tensor;
  Dtype format = Dtype::f32;
  std::int64_t head_rows = 0;                  // of a head whose rows are turned; 0: none is
  const Compensation* compensation = nullptr;  // null: weights are rounded one by one
};

// Rows of a tensor as f32, in the file's order, made into blocks by all threads.
std::vector<std::byte> made_of(const Rounding& rounding, ThreadPool& threads) {
  const StoredTensor& tensor = rounding.tensor;
  const Dtype format = rounding.format;
  const std::int64_t head_rows = rounding.head_rows;
  const Compensation* compensation = rounding.compensation;
  const std::int64_t cols = tensor.shape.back(), rows = tensor.elements() / cols;
  const std::int64_t bytes = row_bytes(format, cols);
  std::vector<std::byte> out(num(rows * bytes));
  threads.run([&](int thread) {
    std::vector<float> row(num(cols));
    for (std::int64_t r = rows * thread / threads.size(); r < rows * (thread + 1) / threads.size(); ++r) {
      widen(tensor, r * cols, cols, row.data());
      std::byte* to = out.data() + (head_rows == 0 ? r : gguf_row(r, head_rows)) * bytes;
      if (compensation != nullptr)
        compensation->quantise(format, 1, row.data(), to);
      else if (is_blocked(format))
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

// Which weight of which block.
struct BlockWeightName {
  std::int64_t block = 0;
  BlockPart part = BlockPart::q;
};

std::map<std::string, BlockWeightName> weights_of_blocks(const ModelConfig& config) {
  std::map<std::string, BlockWeightName> out;
  for (std::int64_t block = 0; block < config.blocks; ++block)
    for (const BlockPart part : block_parts(config))
      if (shape_of(config, part).size() == 2) out[weight_name(config, block, part)] = {block, part};
  return out;
}

class ModelWriter {
 public:
  ModelWriter(const ModelSource& source, const std::string& folder, const QuantiseOptions& options)
      : source_(source), folder_(folder), options_(options), of_blocks_(weights_of_blocks(source.config)) {}

  QuantiseReport write(const std::string& path, ThreadPool& threads, Calibration* calibration) {
    Settings settings = model_settings(source_.config, folder_, options_);
    report_.has_tokenizer = add_tokenizer_settings(folder_, &settings);
    std::vector<GgufTensor> tensors;
    const std::vector<NamedShape> all = all_tensors(source_.config);
    std::int64_t done = 0;
    for (const NamedShape& named : all)
      tensors.push_back({gguf_name(named.name), stored_format(format_of(named)), named.shape, [&] {
                           if (options_.progress) options_.progress(done++, std::ssize(all));
                           return made_of(rounding_of(named, calibration), threads);
                         }});
    for (const NamedShape& named : all) count(named);
    add_divisors(&tensors);
    write_gguf(path, settings, tensors);
    report_.bits_per_weight = 8 * static_cast<double>(matrix_bytes_) / static_cast<double>(matrix_values_);
    return report_;
  }

 private:
  const StoredTensor& stored(const NamedShape& named) const {
    const StoredTensor* tensor = source_.tensors->find(named.name);
    if (tensor == nullptr || tensor->shape != named.shape)
      bad_input("{}: there is no tensor \"{}\" of the shape that its config.json says; is the folder whole?", folder_,
                named.name);
    return *tensor;
  }

  Dtype format_of(const NamedShape& named) const {
    if (named.shape.size() < 2) return Dtype::f32;
    const bool few_bits = options_.type == Dtype::q4_k || options_.type == Dtype::q4_0;
    bool more = named.name == embedding_name(source_.config) || named.name == head_name(source_.config);
    const auto of = of_blocks_.find(named.name);
    if (options_.mix == BitMix::more && of != of_blocks_.end())
      more = (of->second.part == BlockPart::v || of->second.part == BlockPart::down) &&
             has_more_bits(of->second.block, source_.config.blocks);
    return fitting_format(more && few_bits ? Dtype::q6_k : options_.type, named.shape.back());
  }

  void count(const NamedShape& named) {
    const Dtype format = format_of(named);
    const StoredTensor& tensor = stored(named);
    const std::int64_t values = tensor.elements();
    const std::int64_t bytes = named.shape.size() < 2 ? 4 * values : row_bytes(format, values);
    ++report_.tensors[std::string(to_string(format))];
    report_.bytes_read += static_cast<std::int64_t>(tensor.bytes);
    report_.bytes_written += bytes;
    if (named.shape.size() == 2) matrix_bytes_ += bytes, matrix_values_ += values;
  }

  Rounding rounding_of(const NamedShape& named, Calibration* calibration) const {
    Rounding rounding{.tensor = stored(named), .format = format_of(named)};
    if (is_turned(named.name)) rounding.head_rows = source_.config.head_dim;
    if (rounding.tensor.shape.size() == 1 && rounding.head_rows > 0)
      rounding.tensor.shape.push_back(1);  // a bias is turned as rows of one column
    const auto of = of_blocks_.find(named.name);
    if (calibration != nullptr && of != of_blocks_.end() && is_blocked(rounding.format))
      rounding.compensation = &calibration->of(of->second.block, of->second.part);
    return rounding;
  }

  void add_divisors(std::vector<GgufTensor>* tensors) const {
    const std::vector<float> divisors = rotary_divisors(source_.config);
    if (divisors.empty()) return;
    tensors->push_back({"rope_freqs.weight", StoredDtype::f32, {std::ssize(divisors)}, [divisors] {
                          std::vector<std::byte> bytes(divisors.size() * 4);
                          std::memcpy(bytes.data(), divisors.data(), bytes.size());
                          return bytes;
                        }});
  }

  const ModelSource& source_;
  const std::string& folder_;
  const QuantiseOptions& options_;
  std::map<std::string, BlockWeightName> of_blocks_;
  QuantiseReport report_;
  std::int64_t matrix_bytes_ = 0, matrix_values_ = 0;
};

}  // namespace

Dtype fitting_format(Dtype type, std::int64_t cols) {
  if (cols % block_shape(type).values == 0) return type;
  if (cols % 32 != 0) return Dtype::f32;
  return type == Dtype::q4_k ? Dtype::q4_0 : Dtype::q8_0;
}

bool has_more_bits(std::int64_t block, std::int64_t blocks) {
  const std::int64_t eighth = blocks / 8;
  return block < eighth || block >= blocks - eighth || (block - eighth) % 3 == 2;
}

QuantiseReport quantise_model(const std::string& folder, const std::string& path, const QuantiseOptions& options) {
  const ModelSource source = open_model(folder);
  check_model(source, options.type);
  if (options.calibrate.empty()) {
    ThreadPool threads(options.threads);
    return ModelWriter(source, folder, options).write(path, threads, nullptr);
  }
  const std::vector<int> stream = read_stream(*Tokenizer::load(folder), options.calibrate);
  const std::int64_t length = window_length(source.config, 0);
  const std::vector<TokenWindow> windows =
      cut_windows(stream, length, std::max<std::int64_t>(1, options.tokens / length));
  QuantiseReport report;
  World::local(1,
               [&](World& world) {
                 Calibration calibration(world, source, windows);
                 report = ModelWriter(source, folder, options).write(path, world.threads(), &calibration);
               },
               {.threads = options.threads});
  return report;
}

}  // namespace weft
