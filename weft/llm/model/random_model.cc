#include "weft/llm/model/random_model.h"

#include <cmath>
#include <cstring>
#include <filesystem>
#include <map>

#include <nlohmann/json.hpp>

#include "weft/base/dtype.h"
#include "weft/base/error.h"
#include "weft/base/index.h"
#include "weft/base/os/new_file.h"
#include "weft/base/pages.h"
#include "weft/base/thread_pool.h"
#include "weft/io/tensor/safetensors.h"
#include "weft/llm/model/tensor_names.h"

namespace weft {
namespace {

constexpr std::size_t kConfigBytes = std::size_t{1} << 20;

StoredDtype dtype_of(const Json& json, const std::string& where) {
  for (const char* key : {"dtype", "torch_dtype"}) {
    const Json* field = find_field(json, key, where);
    if (field == nullptr || field->is_null()) continue;
    const std::string name = get_string(json, key, where);
    if (name == "bfloat16") return StoredDtype::bf16;
    if (name == "float32") return StoredDtype::f32;
    if (name == "float16") return StoredDtype::f16;
    bad_input("{}: \"{}\" is {}; random models are made as bfloat16, float16 or float32", where, key,
              weft::quoted(name));
  }
  return StoredDtype::bf16;
}

std::uint64_t next(std::uint64_t* state) {  // xorshift64*
  *state ^= *state >> 12;
  *state ^= *state << 25;
  *state ^= *state >> 27;
  return *state * 0x2545f4914f6cdd1du;
}

std::uint64_t seed_of(const std::string& name, std::uint64_t seed, std::size_t stretch) {
  std::uint64_t hash = 0xcbf29ce484222325u ^ (seed * 0x9e3779b97f4a7c15u) ^ (stretch << 32);
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return hash | 1;
}

struct Spread {
  float middle = 0, width = 0;  // values lie in middle +- width
};

Spread spread_of(const NamedShape& tensor) {
  const bool norm = tensor.name.find("norm") != std::string::npos;
  if (tensor.name.ends_with(".bias")) return {0, 0.1f};
  if (norm) return {1, 0.2f};
  return {0, static_cast<float>(std::sqrt(3.0 / tensor.shape.back()))};
}

void fill(std::byte* out, std::size_t count, StoredDtype dtype, const Spread& spread, std::uint64_t state) {
  std::uint64_t bits = 0;
  for (std::size_t i = 0; i < count; ++i) {
    if (i % 4 == 0) bits = next(&state);
    const auto draw = static_cast<std::int16_t>(bits >> (16 * (i % 4)));
    const float value = spread.middle + spread.width * (static_cast<float>(draw) * 0x1p-15f);
    const std::uint16_t rounded = dtype == StoredDtype::f16 ? to_f16(value).bits : to_bf16(value).bits;
    if (dtype == StoredDtype::f32)
      std::memcpy(out + i * 4, &value, 4);
    else
      std::memcpy(out + i * 2, &rounded, 2);
  }
}

class RandomSource final : public TensorSource {
 public:
  RandomSource(const ModelConfig& config, StoredDtype dtype, const RandomModelOptions& options) : where_(config.file) {
    ThreadPool threads(options.threads);
    for (const NamedShape& shape : all_tensors(config)) add(shape, dtype, options.seed, threads);
  }

  const StoredTensor* find(std::string_view name) const override {
    const auto at = tensors_.find(name);
    return at == tensors_.end() ? nullptr : &at->second;
  }
  std::string where() const override { return where_; }

  std::vector<StoredTensor> all() const {
    std::vector<StoredTensor> out;
    for (const auto& [name, tensor] : tensors_) out.push_back(tensor);
    return out;
  }

 private:
  static constexpr std::size_t kStretch = std::size_t{1} << 20;  // elements with a seed of their own

  void add(const NamedShape& named, StoredDtype dtype, std::uint64_t seed, ThreadPool& threads) {
    std::size_t count = 1;
    for (const std::int64_t size : named.shape) count *= num(size);
    const std::size_t size = dtype == StoredDtype::f32 ? 4 : 2;
    auto& memory = memory_.emplace_back(new std::byte[count * size]);
    std::byte* out = memory.get();
    ask_for_huge_pages(out, count * size);
    threads.run([&](int thread) {
      for (std::size_t s = num(thread); s * kStretch < count; s += num(threads.size()))
        fill(out + s * kStretch * size, std::min(kStretch, count - s * kStretch), dtype, spread_of(named),
             seed_of(named.name, seed, s));
    });
    tensors_[named.name] = {named.name, dtype, named.shape, out, count * size};
  }

  std::string where_;
  std::map<std::string, StoredTensor, std::less<>> tensors_;
  std::vector<std::unique_ptr<std::byte[]>> memory_;
};

}  // namespace

ModelSource random_model(const std::string& config_path, const RandomModelOptions& options) {
  const Json json = load_json(config_path, {.bytes = kConfigBytes});
  ModelConfig config = parse_config(json, config_path);
  auto tensors = std::make_shared<RandomSource>(config, dtype_of(json, config_path), options);
  return {std::move(config), std::move(tensors), nullptr};
}

void write_random_model(const std::string& config_path, const std::string& folder, const RandomModelOptions& options) {
  const Json json = load_json(config_path, {.bytes = kConfigBytes});
  const RandomSource source(parse_config(json, config_path), dtype_of(json, config_path), options);
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  write_safetensors(folder + "/model.safetensors", source.all());
  write_file(folder + "/config.json", read_text_file(config_path, kConfigBytes));
}

}  // namespace weft
