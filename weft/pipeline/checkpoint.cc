#include "weft/pipeline/checkpoint.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <map>
#include <numeric>

#include <fmt/core.h>

#include "weft/base/error.h"
#include "weft/base/json.h"
#include "weft/base/os/new_file.h"
#include "weft/io/tensor/safetensors.h"
#include "weft/io/text/tokenizer.h"
#include "weft/nn/rank_sum.h"
#include "weft/pipeline/places.h"

namespace weft::pipeline {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "checkpoint-", kSuffix = ".safetensors";
constexpr const char* kTokenizerFiles[] = {"tokenizer.json", "tokenizer_config.json",   "tokenizer.model",
                                           "vocab.json",     "special_tokens_map.json", "merges.txt"};
constexpr std::size_t kMostTokenizerBytes = std::size_t{1} << 28;

// The step in the name of a file, or -1.
std::int64_t step_in(const fs::path& path) {
  const std::string name = path.filename().string();
  if (!name.starts_with(kPrefix) || !name.ends_with(kSuffix)) return -1;
  const std::string_view digits(name.data() + kPrefix.size(), name.size() - kPrefix.size() - kSuffix.size());
  std::int64_t step = -1;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), step);
  return error == std::errc{} && end == digits.data() + digits.size() ? step : -1;
}

std::map<std::int64_t, std::string> checkpoints_in(const std::string& folder) {
  std::map<std::int64_t, std::string> found;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error))
    if (const std::int64_t step = step_in(entry.path()); step >= 0) found[step] = entry.path().string();
  return found;
}

// All that weights depend on but the mesh, in one line.
std::string about(const TrainConfig& config) {
  const GptShape& m = config.model;
  return fmt::format("{} vocab {} hidden {} layers {} heads {} kv_heads {} mlp {} sequence {}",
                     m.u_shaped ? "u_transformer" : "gpt", m.vocab, m.hidden, m.layers, m.heads, m.kv_heads, m.mlp,
                     m.sequence);
}

void make_folder(const std::string& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) fail(Code::io, "cannot make the folder \"{}\": {}; give another \"out\"", folder, error.message());
}

// Every tensor of the model, from the stage that has it to rank 0.
Reshard to_rank_zero(const TrainConfig& config, const Places& places) {
  Reshard reshard;
  reshard.num_ranks = places.num_ranks();
  reshard.placements.push_back({"writer", Mesh({{"one", 1}}), {0}});
  for (int index = 0; index < places.num_stages(); ++index) {
    const StagePlace& stage = places.stage(index);
    Placement placement{fmt::format("stage{}", index), stage.mesh(), std::vector<int>(num(stage.ranks()))};
    std::iota(placement.ranks.begin(), placement.ranks.end(), stage.first_rank);
    reshard.placements.push_back(std::move(placement));
    const ParameterList list(config.model, stage, 0);
    for (const HeldTensor& held : list.tensors()) {
      Sharding split, whole;
      for (int d = 0; d < int_size(held.tensor.shape); ++d) {
        split.dims.push_back(d == held.tensor.split ? Split{{"tensor"}} : Split{});
        whole.dims.emplace_back();
      }
      const ShardedTensor from{held.tensor.name, held.tensor.shape, Dtype::f32, index + 1, split};
      const ShardedTensor to{held.tensor.name, held.tensor.shape, Dtype::f32, 0, whole};
      reshard.transfers.push_back({{{from, std::vector<std::int64_t>(held.tensor.shape.size(), 0)}}, to});
    }
  }
  return reshard;
}

StoredTensor stored(const std::string& name, const Shape& shape, const std::vector<float>& values) {
  return {name, StoredDtype::f32, shape, reinterpret_cast<const std::byte*>(values.data()),
          values.size() * sizeof(float)};
}

}  // namespace

std::string checkpoint_path(const std::string& folder, std::int64_t step) {
  return (fs::path(folder) / fmt::format("{}{:06}{}", kPrefix, step, kSuffix)).string();
}

std::optional<std::string> latest_checkpoint(const std::string& folder) {
  const auto found = checkpoints_in(folder);
  if (found.empty()) return std::nullopt;
  return found.rbegin()->second;
}

struct Saver::State {
  World& world;
  TrainConfig config;
  Trainer& trainer;
  Places places;
  Reshard reshard;
  Op op;

  State(World& world_in, const TrainConfig& config_in, Trainer& trainer_in)
      : world(world_in),
        config(config_in),
        trainer(trainer_in),
        places(config),
        reshard(to_rank_zero(config, places)),
        op(world.compile(reshard)) {}

  // The whole tensors of an array that lies as the weights do, on rank 0; elsewhere none.
  std::vector<std::vector<float>> gather(std::span<const float> values) {
    std::vector<const void*> inputs(reshard.transfers.size());
    for (const HeldTensor& held : trainer.parameters().tensors())
      for (std::size_t t = 0; t < inputs.size(); ++t)
        if (reshard.transfers[t].destination.name == held.tensor.name) inputs[t] = values.data() + held.begin;
    op.run(inputs);
    std::vector<std::vector<float>> out;
    for (std::size_t t = 0; t < inputs.size(); ++t) {
      const BufferView view = op.view(fmt::format("dst{}", t));
      if (world.rank() == 0)
        out.emplace_back(static_cast<const float*>(view.data),
                         static_cast<const float*>(view.data) + view.bytes / sizeof(float));
    }
    return out;
  }

  const ShardedTensor& tensor(std::size_t t) const { return reshard.transfers[t].destination; }

  void tell_all(const std::string& failure) {
    RankSum sum(world, 1);
    float failed = failure.empty() ? 0.0f : 1.0f;
    sum.add_up(&failed);
    if (!failure.empty()) fail(Code::io, "{}", failure);
    if (failed > 0) throw Error(Code::peer_failed, "rank 0 could not write; its message says why", 0);
  }
};

Saver::Saver(World& world, const TrainConfig& config, Trainer& trainer)
    : state_(std::make_unique<State>(world, config, trainer)) {}
Saver::~Saver() = default;

void Saver::save(const std::string& folder, int keep) {
  State& s = *state_;
  const auto weights = s.gather(s.trainer.weights());
  const auto mean = s.gather(s.trainer.optimiser().mean()), square = s.gather(s.trainer.optimiser().square());
  std::string failure;
  if (s.world.rank() == 0) {
    std::vector<StoredTensor> tensors;
    for (std::size_t t = 0; t < weights.size(); ++t) {
      const ShardedTensor& tensor = s.tensor(t);
      tensors.push_back(stored(tensor.name, tensor.shape, weights[t]));
      tensors.push_back(stored("mean." + tensor.name, tensor.shape, mean[t]));
      tensors.push_back(stored("square." + tensor.name, tensor.shape, square[t]));
    }
    try {
      make_folder(folder);
      write_safetensors(checkpoint_path(folder, s.trainer.steps()), tensors,
                        {{"format", "weft-checkpoint-1"},
                         {"step", fmt::format("{}", s.trainer.steps())},
                         {"model", about(s.config)},
                         {"seed", fmt::format("{}", s.config.seed)},
                         {"batch", fmt::format("{}", s.config.batch)}});
      auto found = checkpoints_in(folder);
      for (std::error_code error; keep > 0 && int_size(found) > keep; found.erase(found.begin()))
        fs::remove(found.begin()->second, error);
    } catch (const Error& error) {
      failure = error.what();
    }
  }
  s.tell_all(failure);
}

void Saver::write_model(const std::string& folder) {
  State& s = *state_;
  if (s.config.model.u_shaped)
    bad_input("a u_transformer has no Llama folder: no other program knows its skips; its checkpoints are in \"{}\"",
              s.config.out);
  const auto weights = s.gather(s.trainer.weights());
  std::string failure;
  if (s.world.rank() == 0) {
    std::vector<StoredTensor> tensors;
    for (std::size_t t = 0; t < weights.size(); ++t)
      tensors.push_back(stored(s.tensor(t).name, s.tensor(t).shape, weights[t]));
    try {
      make_folder(folder);
      const auto tokenizer = Tokenizer::load(s.config.tokenizer);
      for (const char* name : kTokenizerFiles)
        if (const fs::path from = fs::path(s.config.tokenizer) / name; fs::exists(from))
          write_file((fs::path(folder) / name).string(), read_text_file(from.string(), kMostTokenizerBytes));
      write_file(folder + "/config.json",
                 llama_config(s.config.model, "float32", tokenizer->bos().value_or(-1), tokenizer->eos().value_or(-1)));
      write_safetensors(folder + "/model.safetensors", tensors, {{"format", "pt"}});
    } catch (const Error& error) {
      failure = error.what();
    }
  }
  s.tell_all(failure);
}

void load_checkpoint(const std::string& path, const TrainConfig& config, Trainer& trainer) {
  const TensorFile file = TensorFile::open(path);
  const auto get = [&](const std::string& key) {
    const auto found = file.metadata().find(key);
    if (found == file.metadata().end())
      bad_input("{}: its metadata has no \"{}\", so it is no checkpoint of weft train; give another file", path, key);
    return found->second;
  };
  if (get("model") != about(config))
    bad_input("{}: it is of another model ({}; now {}); give another \"out\", or the config it was made with", path,
              get("model"), about(config));
  std::int64_t step = -1;
  const std::string text = get("step");
  std::from_chars(text.data(), text.data() + text.size(), step);
  if (step < 0) bad_input("{}: \"step\" of its metadata is {}; give another file", path, weft::quoted(text));
  const auto read = [&](const std::string& prefix, std::span<float> into) {
    for (const HeldTensor& held : trainer.parameters().tensors()) {
      const StoredTensor& tensor = file.get(prefix + held.tensor.name);
      if (tensor.shape != held.tensor.shape)
        bad_input("{}: \"{}\" has another shape than the model's; give another file", path, tensor.name);
      for_each_row(held, [&](std::int64_t from, std::int64_t to, std::int64_t count) {
        widen(tensor, from, count, into.data() + to);
      });
    }
  };
  read("", trainer.weights());
  read("mean.", trainer.optimiser().mean());
  read("square.", trainer.optimiser().square());
  trainer.set_steps(step);
}

}  // namespace weft::pipeline
