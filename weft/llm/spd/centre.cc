#include "weft/llm/spd/centre.h"

#include <algorithm>
#include <filesystem>

#include "weft/base/error.h"
#include "weft/base/index.h"
#include "weft/base/sha256.h"
#include "weft/io/tensor/safetensors.h"
#include "weft/llm/model/tensor_names.h"
#include "weft/llm/spd/memory_source.h"
#include "weft/llm/spd/simulated_ranks.h"
#include "weft/llm/spd/spd_file.h"
#include "weft/llm/spd/spd_model.h"

namespace weft {
namespace {

constexpr const char* kWeights = "centred.safetensors";

// Of every key/value head the mean output of the query heads that read it, once for each of these.
std::vector<float> shared_means(const ModelConfig& config, std::span<const float> means) {
  std::vector<float> shared(means.size());
  const std::int64_t d = config.head_dim, group = config.heads_per_kv();
  for (std::int64_t head = 0; head < config.heads; ++head)
    for (std::int64_t c = 0; c < d; ++c) {
      double sum = 0;
      for (std::int64_t other = head / group * group; other < (head / group + 1) * group; ++other)
        sum += means[at(other * d + c)];
      shared[at(head * d + c)] = static_cast<float>(sum / group);
    }
  return shared;
}

const StoredTensor& tensor_of(const ModelSource& source, const std::string& name) {
  const StoredTensor* tensor = source.tensors->find(name);
  if (tensor == nullptr) bad_input("{}: no tensor \"{}\"; give a whole model", source.tensors->where(), name);
  return *tensor;
}

// The model's own bias, or zeros.
std::vector<float> own_bias(const ModelSource& source, std::int64_t block, BlockPart part, std::int64_t size) {
  std::vector<float> values(num(size));
  if (has_bias(source.config, part))
    widen(tensor_of(source, bias_name(source.config, block, part)), 0, size, values.data());
  return values;
}

// bias + W_O c, in float64: both sides must cancel.
std::vector<float> projected(const ModelSource& source, std::int64_t block, std::span<const float> c) {
  const PartPlace place = place_of(source.config, block, BlockPart::o);
  const StoredTensor& weight = tensor_of(source, weight_name(source.config, block, BlockPart::o));
  const std::int64_t hidden = source.config.hidden, k = std::ssize(c);
  std::vector<float> all(num(hidden * k));
  widen(weight, 0, hidden * k, all.data());
  std::vector<float> out = own_bias(source, block, BlockPart::o, hidden);
  for (std::int64_t r = 0; r < hidden; ++r) {
    double sum = out[at(r)];
    for (std::int64_t i = 0; i < k; ++i)
      sum += static_cast<double>(all[at(place.transposed ? i * hidden + r : r * k + i)]) * c[at(i)];
    out[at(r)] = static_cast<float>(sum);
  }
  return out;
}

}  // namespace

std::vector<std::vector<float>> measure_head_means(const ModelSource& source, std::span<const TokenWindow> windows,
                                                   int threads, const EvalProgress& progress) {
  std::int64_t longest = 1;
  for (const TokenWindow window : windows) longest = std::max(longest, std::ssize(window) - 1);
  SimulatedRanks whole(source, 1, longest, threads);
  const std::vector<BlockOrder> sync(num(source.config.blocks), BlockOrder::sync);
  std::int64_t done = 0;
  for (const TokenWindow window : windows) {
    whole.score(window, sync);
    if (progress) progress("means of heads", ++done, std::ssize(windows));
  }
  return whole.take_head_means();
}

std::vector<NamedBias> centred_biases(const ModelSource& source, std::span<const std::vector<float>> head_means) {
  const ModelConfig& config = source.config;
  if (std::ssize(head_means) != config.blocks)
    bad_input("means of {} blocks for a model of {}", head_means.size(), config.blocks);
  const std::int64_t d = config.head_dim, group = config.heads_per_kv(), width = config.kv_heads * d;
  if (!place_of(config, 0, BlockPart::v).alone(width))
    bad_input("{}: values are in one tensor with other parts; centre a model that keeps them apart, as Llama's",
              config.file);
  ModelConfig biased = config;
  biased.design.qkv_bias = biased.design.output_bias = true;
  std::vector<NamedBias> out;
  for (std::int64_t block = 0; block < config.blocks; ++block) {
    const std::vector<float> c = shared_means(config, head_means[at(block)]);
    std::vector<float> values = own_bias(source, block, BlockPart::v, width);
    for (std::int64_t i = 0; i < width; ++i) values[at(i)] -= c[at(i / d * group * d + i % d)];
    out.push_back({bias_name(biased, block, BlockPart::v), std::move(values)});
    out.push_back({bias_name(biased, block, BlockPart::o), projected(source, block, c)});
  }
  return out;
}

ModelSource with_biases(const ModelSource& source, std::vector<NamedBias> biases) {
  auto given = std::make_shared<MemorySource>("biases of centred heads");
  for (NamedBias& bias : biases) given->put(bias.name, std::move(bias.values));
  ModelSource out = source;
  out.repaired = given;
  return with_all_biases(std::move(out));
}

void write_centred(const std::string& folder, const CentredModel& model, std::span<const NamedBias> biases) {
  const std::filesystem::path path(folder);
  std::vector<StoredTensor> tensors;
  for (const NamedBias& bias : biases) tensors.push_back(MemorySource::f32_tensor(bias.name, bias.values));
  write_safetensors((path / kWeights).string(), tensors);
  SpdFile spd{.model = model.hash, .tp = model.tp};
  spd.blocks.assign(num(model.blocks), BlockMode{.drop = true});
  spd.weights = kWeights;
  spd.weights_sha256 = file_sha256((path / kWeights).string());
  spd.why = model.why;
  save_spd(spd, (path / "centred.spd").string());
}

}  // namespace weft
