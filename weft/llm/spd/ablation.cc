#include "weft/llm/spd/ablation.h"

#include <algorithm>
#include <map>
#include <memory>

#include "weft/base/error.h"
#include "weft/base/index.h"
#include "weft/io/tensor/safetensors.h"
#include "weft/llm/model/tensor_names.h"

namespace weft {
namespace {

// Tensors in memory under the model's names.
class MemorySource : public TensorSource {
 public:
  void put(const std::string& name, std::vector<float> values) {
    Entry& entry = entries_[name];
    entry.values = std::move(values);
    entry.tensor = {.name = name,
                    .dtype = StoredDtype::f32,
                    .shape = {std::ssize(entry.values)},
                    .data = reinterpret_cast<const std::byte*>(entry.values.data()),
                    .bytes = entry.values.size() * sizeof(float)};
  }
  const StoredTensor* find(std::string_view name) const override {
    const auto found = entries_.find(name);
    return found == entries_.end() ? nullptr : &found->second.tensor;
  }
  std::string where() const override { return "biases of centred heads"; }

 private:
  struct Entry {
    std::vector<float> values;
    StoredTensor tensor;
  };
  std::map<std::string, Entry, std::less<>> entries_;
};

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

// W_O c, in float64: both sides must cancel.
std::vector<float> projected(const ModelSource& source, std::int64_t block, std::span<const float> c) {
  const std::string name = weight_name(source.config, block, BlockPart::o);
  const StoredTensor* weight = source.tensors->find(name);
  if (weight == nullptr) bad_input("{}: no tensor \"{}\"; give a whole model", source.tensors->where(), name);
  std::vector<float> row(c.size()), out;
  for (std::int64_t r = 0; r < source.config.hidden; ++r) {
    widen(*weight, r * std::ssize(c), std::ssize(c), row.data());
    double sum = 0;
    for (std::size_t i = 0; i < c.size(); ++i) sum += static_cast<double>(row[i]) * c[i];
    out.push_back(static_cast<float>(sum));
  }
  return out;
}

}  // namespace

std::vector<AblationRow> run_orders(SimulatedRanks& ranks, std::int64_t block, std::span<const BlockOrder> orders,
                                    std::span<const TokenWindow> windows,
                                    const std::function<void(std::int64_t done, std::int64_t of)>& progress) {
  if (block != kAllBlocks && (block < 0 || block >= ranks.config().blocks))
    bad_input("block {} of a model that has {}; use 0 to {}", block, ranks.config().blocks, ranks.config().blocks - 1);
  std::vector<AblationRow> rows;
  std::int64_t done = 0;
  for (const BlockOrder order : orders) {
    std::vector<BlockOrder> all(num(ranks.config().blocks), BlockOrder::sync);
    if (block == kAllBlocks)
      std::fill(all.begin(), all.end(), order);
    else
      all[at(block)] = order;
    AblationRow& row = rows.emplace_back();
    row.order = order;
    for (const auto window : windows) {
      row.windows.push_back(ranks.score(window, all));
      if (progress) progress(++done, static_cast<std::int64_t>(orders.size() * windows.size()));
    }
  }
  return rows;
}

Ablation ablate(const ModelSource& source, std::span<const TokenWindow> windows, const AblationOptions& options,
                const EvalProgress& progress) {
  constexpr BlockOrder kPartials[] = {BlockOrder::sync, BlockOrder::dropped, BlockOrder::partial_after};
  constexpr BlockOrder kBiases[] = {BlockOrder::sync, BlockOrder::dropped, BlockOrder::bias_before};
  std::int64_t longest = 1;
  for (const TokenWindow window : windows) longest = std::max(longest, std::ssize(window) - 1);
  const auto orders = [&](SimulatedRanks& ranks, std::span<const BlockOrder> some, const char* what) {
    return run_orders(ranks, options.block, some, windows, [&](std::int64_t done, std::int64_t of) {
      if (progress) progress(what, done, of);
    });
  };
  SimulatedRanks plain(source, options.ranks, longest, options.threads);
  Ablation out{.has_biases = source.config.design.output_bias};
  out.partials = orders(plain, std::span(kPartials).first(1), "means of heads");
  const auto means = plain.take_head_means();  // of the synchronised model alone
  for (AblationRow& row : orders(plain, std::span(kPartials).subspan(1), "partial sums"))
    out.partials.push_back(std::move(row));
  if (out.has_biases) {
    out.biases = orders(plain, kBiases, "biases");
  } else {
    SimulatedRanks biased(with_centred_heads(source, means), options.ranks, longest, options.threads);
    out.biases = orders(biased, kBiases, "biases");
  }
  return out;
}

ModelSource with_centred_heads(const ModelSource& source, std::span<const std::vector<float>> head_means) {
  const ModelConfig& config = source.config;
  if (config.design.qkv_bias || config.design.output_bias)
    bad_input("{}: the model has biases already; measure it as it is", config.file);
  if (std::ssize(head_means) != config.blocks)
    bad_input("means of {} blocks for a model of {}", head_means.size(), config.blocks);
  auto biases = std::make_shared<MemorySource>();
  ModelSource out = source;
  out.config.design.qkv_bias = out.config.design.output_bias = true;
  const std::int64_t d = config.head_dim, group = config.heads_per_kv();
  for (std::int64_t block = 0; block < config.blocks; ++block) {
    const std::vector<float> c = shared_means(config, head_means[at(block)]);
    std::vector<float> values;
    for (std::int64_t kv = 0; kv < config.kv_heads; ++kv)
      for (std::int64_t i = 0; i < d; ++i) values.push_back(-c[at(kv * group * d + i)]);
    biases->put(bias_name(out.config, block, BlockPart::q), std::vector<float>(num(config.heads * d)));
    biases->put(bias_name(out.config, block, BlockPart::k), std::vector<float>(num(config.kv_heads * d)));
    biases->put(bias_name(out.config, block, BlockPart::v), std::move(values));
    biases->put(bias_name(out.config, block, BlockPart::o), projected(source, block, c));
  }
  out.repaired = biases;
  return out;
}

}  // namespace weft
