#include "weft/llm/quantise/quantise_model.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "weft/base/error.h"
#include "weft/base/index.h"
#include "weft/base/quant/blocks.h"
#include "weft/base/thread_pool.h"
#include "weft/io/tensor/gguf.h"
#include "weft/io/tensor/write_gguf.h"
#include "weft/io/text/tokenizer.h"
#include "weft/llm/gguf/file_tensors.h"
#include "weft/llm/gguf/gguf_facts.h"
#include "weft/llm/gguf/gguf_tokenizer_settings.h"
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

Settings model_settings(const GgufFacts& facts, const std::string& folder, const QuantiseOptions& options) {
  Settings out = {{"general.architecture", std::string(facts.family->architecture)},
                  {"general.name", std::filesystem::path(folder).filename().string()},
                  {"general.file_type", file_type(options)},
                  {"general.quantization_version", std::uint32_t{2}}};
  Settings own = gguf_settings(facts);
  out.insert(out.end(), std::make_move_iterator(own.begin()), std::make_move_iterator(own.end()));
  return out;
}

GgufFacts facts_to_write(const ModelSource& source, Dtype type) {
  if (!is_blocked(type)) bad_input("type {} has no blocks; use q8_0, q4_0, q4_k or q6_k", to_string(type));
  refuse_experts(source.config);
  if (gguf_family_of(source.config) == nullptr)
    bad_input("{}: llama.cpp has no files of the family {}; use its folder", source.config.file,
              source.config.model_type);
  GgufFacts facts = gguf_facts_of(source.config);
  check_gguf_says_all(source.config, facts);
  return facts;
}

// Rows made into blocks by all threads. `compensation` may be null: weights are rounded one by one.
std::vector<std::byte> made_of(const FileTensor& tensor, Dtype format, const Compensation* compensation,
                               ThreadPool& threads) {
  const std::int64_t bytes = row_bytes(format, tensor.cols());
  std::vector<std::byte> out(num(tensor.rows() * bytes));
  each_row(tensor, threads, [&](std::int64_t row, std::span<float> values) {
    std::byte* to = out.data() + row * bytes;
    if (compensation != nullptr)
      compensation->quantise(format, 1, values.data(), to);
    else if (is_blocked(format))
      quantise(format, tensor.cols(), values.data(), to);
    else
      std::memcpy(to, values.data(), num(bytes));
  });
  return out;
}

class ModelWriter {
 public:
  ModelWriter(const ModelSource& source, const GgufFacts& facts, const QuantiseOptions& options)
      : source_(source), facts_(facts), options_(options) {}

  QuantiseReport write(const std::string& folder, const std::string& path, ThreadPool& threads,
                       Calibration* calibration) {
    Settings settings = model_settings(facts_, folder, options_);
    report_.has_tokenizer = add_tokenizer_settings(folder, &settings);
    std::vector<GgufTensor> tensors;
    const std::vector<FileTensor> all = file_tensors(source_, *facts_.family);
    std::int64_t done = 0;
    for (const FileTensor& tensor : all)
      tensors.push_back({tensor.name, stored_format(format_of(tensor)), tensor.shape, [&] {
                           if (options_.progress) options_.progress(done++, std::ssize(all));
                           return made(tensor, calibration, threads);
                         }});
    for (const FileTensor& tensor : all) count(tensor);
    for (GgufTensor& tensor : rotary_tensors(facts_)) tensors.push_back(std::move(tensor));
    write_gguf(path, settings, tensors);
    report_.bits_per_weight = 8 * static_cast<double>(matrix_bytes_) / static_cast<double>(matrix_values_);
    return report_;
  }

 private:
  Dtype format_of(const FileTensor& tensor) const {
    if (tensor.kind == FileTensorKind::vector || tensor.kind == FileTensorKind::positions) return Dtype::f32;
    const bool few_bits = options_.type == Dtype::q4_k || options_.type == Dtype::q4_0;
    bool more = tensor.kind == FileTensorKind::embedding;
    if (options_.mix == BitMix::more && tensor.block >= 0)
      more = (tensor.part == BlockPart::v || tensor.part == BlockPart::down) &&
             has_more_bits(tensor.block, source_.config.blocks);
    return fitting_format(more && few_bits ? Dtype::q6_k : options_.type, tensor.cols());
  }

  // Parts that share a tensor have the same inputs, so the first of them has the sums of all.
  std::vector<std::byte> made(const FileTensor& tensor, Calibration* calibration, ThreadPool& threads) const {
    const Dtype format = format_of(tensor);
    const bool calibrated = calibration != nullptr && tensor.block >= 0 && is_blocked(format);
    return made_of(tensor, format, calibrated ? &calibration->of(tensor.block, tensor.part) : nullptr, threads);
  }

  void count(const FileTensor& tensor) {
    const Dtype format = format_of(tensor);
    const std::int64_t bytes = tensor.rows() * row_bytes(format, tensor.cols());
    ++report_.tensors[std::string(to_string(format))];
    report_.bytes_read += tensor.bytes_read();
    report_.bytes_written += bytes;
    if (tensor.shape.size() == 2) matrix_bytes_ += bytes, matrix_values_ += tensor.rows() * tensor.cols();
  }

  const ModelSource& source_;
  const GgufFacts& facts_;
  const QuantiseOptions& options_;
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
  if (is_gguf(folder)) bad_input("{}: this is a GGUF file already; give the folder of the model", folder);
  const ModelSource source = open_model(folder);
  const GgufFacts facts = facts_to_write(source, options.type);
  if (options.calibrate.empty()) {
    ThreadPool threads(options.threads);
    return ModelWriter(source, facts, options).write(folder, path, threads, nullptr);
  }
  const std::vector<int> stream = read_stream(*Tokenizer::load(folder), options.calibrate);
  const std::int64_t length = window_length(source.config, 0);
  const std::vector<TokenWindow> windows =
      cut_windows(stream, length, std::max<std::int64_t>(1, options.tokens / length));
  QuantiseReport report;
  World::local(1,
               [&](World& world) {
                 Calibration calibration(world, source, windows);
                 report = ModelWriter(source, facts, options).write(folder, path, world.threads(), &calibration);
               },
               {.threads = options.threads});
  return report;
}

}  // namespace weft
