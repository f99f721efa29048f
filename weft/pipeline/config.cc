#include "weft/pipeline/config.h"

#include <cstdlib>
#include <functional>

#include <nlohmann/json.hpp>

#include "weft/base/error.h"
#include "weft/base/names.h"
#include "weft/mesh/box.h"

namespace weft::pipeline {
namespace {

constexpr std::int64_t kMostSteps = 1'000'000'000, kMostBatch = 1 << 20;
constexpr int kMostStageRanks = 1024;

std::int64_t int_or(const Json& json, const char* key, const std::string& where, std::int64_t otherwise,
                    std::int64_t least, std::int64_t most) {
  return find_field(json, key, where) == nullptr ? otherwise : get_int(json, key, where, least, most);
}

double number_or(const Json& json, const char* key, const std::string& where, double otherwise, double least,
                 double most) {
  return find_field(json, key, where) == nullptr ? otherwise : get_double(json, key, where, least, most);
}

void read_model(const Json& json, const std::string& where, GptShape* model) {
  check_fields(json, {"kind", "hidden", "layers", "heads", "kv_heads", "mlp", "sequence", "rope_theta"}, where);
  const std::string kind = find_field(json, "kind", where) == nullptr ? "gpt" : get_string(json, "kind", where);
  if (kind != "gpt" && kind != "u_transformer")
    bad_input("{}: \"kind\" is {}; use \"gpt\" or \"u_transformer\"", where, weft::quoted(kind));
  model->u_shaped = kind == "u_transformer";
  model->hidden = get_int(json, "hidden", where, 2, 1 << 16);
  model->layers = get_int(json, "layers", where, 1, 1024);
  model->heads = get_int(json, "heads", where, 1, 1024);
  model->kv_heads = int_or(json, "kv_heads", where, model->heads, 1, 1024);
  model->mlp = int_or(json, "mlp", where, 3 * model->hidden, 1, 1 << 18);
  model->sequence = get_int(json, "sequence", where, 1, 1 << 16);
  model->rope_theta = number_or(json, "rope_theta", where, model->rope_theta, 1, 1e12);
}

void read_data(const Json& json, const std::string& where, TrainConfig* config) {
  check_fields(json, {"text", "tokenizer"}, where);
  const Json* text = find_field(json, "text", where);
  if (text != nullptr && text->is_array()) {
    for (const Json& one : *text) {
      if (!one.is_string()) bad_input("{}: \"text\" has {}; give names of files", where, one.dump());
      config->texts.push_back(one.get<std::string>());
    }
    if (config->texts.empty()) bad_input("{}: \"text\" names no file; give at least one", where);
  } else {
    config->texts = {get_string(json, "text", where)};
  }
  config->tokenizer = get_string(json, "tokenizer", where);
}

void read_training(const Json& json, const std::string& where, TrainConfig* config) {
  check_fields(json,
               {"steps", "batch", "micro_batches", "lr", "warm_up", "last_lr", "weight_decay", "beta1", "beta2", "clip",
                "seed", "dtype"},
               where);
  config->steps = int_or(json, "steps", where, config->steps, 0, kMostSteps);
  config->batch = int_or(json, "batch", where, config->batch, 1, kMostBatch);
  config->micro_batches = static_cast<int>(int_or(json, "micro_batches", where, 1, 1, kMaxMicroBatches));
  config->lr.peak = number_or(json, "lr", where, config->lr.peak, 0, 1e3);
  config->lr.warm_up = int_or(json, "warm_up", where, config->steps / 20, 0, kMostSteps);
  config->lr.last = number_or(json, "last_lr", where, 0.1, 0, 1);
  config->adamw.weight_decay = static_cast<float>(number_or(json, "weight_decay", where, 0.1, 0, 1e3));
  config->adamw.beta1 = static_cast<float>(number_or(json, "beta1", where, 0.9, 0, 0.999999));
  config->adamw.beta2 = static_cast<float>(number_or(json, "beta2", where, 0.95, 0, 0.999999));
  config->clip = number_or(json, "clip", where, config->clip, 0, 1e30);
  config->seed = static_cast<std::uint64_t>(int_or(json, "seed", where, 1, 0, INT64_MAX));
  if (find_field(json, "dtype", where) == nullptr) return;
  const std::string dtype = get_string(json, "dtype", where);
  if (dtype != "f32" && dtype != "bf16")
    bad_input("{}: \"dtype\" is {}; use \"f32\" or \"bf16\"", where, weft::quoted(dtype));
  config->precision = dtype == "bf16" ? Precision::bf16 : Precision::f32;
}

StageSize read_stage(const Json& json, const std::string& where) {
  check_fields(json, {"layers", "data", "tensor"}, where);
  return {int_or(json, "layers", where, 0, 1, 1024),
          static_cast<int>(int_or(json, "data", where, 1, 1, kMostStageRanks)),
          static_cast<int>(int_or(json, "tensor", where, 1, 1, kMostStageRanks))};
}

void read_mesh(const Json& json, const std::string& where, TrainConfig* config) {
  check_fields(json, {"stages", "data", "tensor"}, where);
  const Json* stages = find_field(json, "stages", where);
  if (stages != nullptr && stages->is_array()) {
    if (find_field(json, "data", where) != nullptr || find_field(json, "tensor", where) != nullptr)
      bad_input("{}: \"stages\" is a list, so each of them has its own \"data\" and \"tensor\"; move them there",
                where);
    config->stages.clear();
    for (const Json& stage : *stages) config->stages.push_back(read_stage(stage, where));
    if (config->stages.empty()) bad_input("{}: \"stages\" is empty; give at least one", where);
    return;
  }
  const StageSize each{0, static_cast<int>(int_or(json, "data", where, 1, 1, kMostStageRanks)),
                       static_cast<int>(int_or(json, "tensor", where, 1, 1, kMostStageRanks))};
  config->stages.assign(num(int_or(json, "stages", where, 1, 1, kMaxStages)), each);
}

void read_transfers(const Json& json, const std::string& where, TransferOptions* transfers) {
  check_fields(json, {"strategy", "overlap", "delay_weights", "stream"}, where);
  if (find_field(json, "strategy", where) != nullptr)
    transfers->strategy = parse_strategy(get_string(json, "strategy", where));
  if (find_field(json, "overlap", where) != nullptr) transfers->overlap = get_bool(json, "overlap", where);
  if (find_field(json, "delay_weights", where) != nullptr)
    transfers->delay_weights = get_bool(json, "delay_weights", where);
  if (find_field(json, "stream", where) != nullptr) transfers->stream = get_bool(json, "stream", where);
}

// The number nearest to `asked` for which it holds; the smaller of two. 1 always does.
int nearest(int asked, const std::function<bool(int)>& holds) {
  for (int off = 0; off < asked; ++off) {
    if (holds(asked - off)) return asked - off;
    if (holds(asked + off)) return asked + off;
  }
  return 1;
}

void settle_layers(TrainConfig* config) {
  const std::int64_t layers = config->model.layers;
  const int stages = config->num_stages();
  if (stages > layers)
    bad_input("{}: {} stages for {} layers leave some with none; the nearest possible mesh has {} stages", config->file,
              stages, layers, layers);
  std::int64_t named = 0, open = 0;
  for (const StageSize& stage : config->stages) named += stage.layers, open += stage.layers == 0 ? 1 : 0;
  if (open == 0 ? named != layers : named + open > layers)
    bad_input("{}: the stages name {} layers, but the model has {}; make them add up", config->file, named, layers);
  std::int64_t next = 0;
  const std::int64_t rest = layers - named;
  for (StageSize& stage : config->stages)
    if (stage.layers == 0) stage.layers = cut(rest, open, next + 1) - cut(rest, open, next), ++next;
}

void check_stage(const TrainConfig& config, int index) {
  const StageSize& stage = config.stages[at(index)];
  const GptShape& model = config.model;
  const auto shares = [&](int ranks) { return model.kv_heads % ranks == 0 && model.mlp % ranks == 0; };
  if (!shares(stage.tensor))
    bad_input(
        "{}: stage {} has \"tensor\": {}, which cannot share {} key/value heads and {} columns of the feed-forward "
        "layer; the nearest possible is {}",
        config.file, index, stage.tensor, model.kv_heads, model.mlp, nearest(stage.tensor, shares));
  const auto divides = [&](int ranks) { return config.sequences() % ranks == 0; };
  if (!divides(stage.data))
    bad_input(
        "{}: stage {} has \"data\": {}, which cannot share the {} sequences of a micro-batch; the nearest possible is "
        "{}, or a batch of {}",
        config.file, index, stage.data, config.sequences(), nearest(stage.data, divides),
        (config.sequences() / stage.data + 1) * stage.data * config.micro_batches);
}

}  // namespace

int TrainConfig::num_ranks() const {
  int ranks = 0;
  for (const StageSize& stage : stages) ranks += stage.ranks();
  return ranks;
}

TrainConfig parse_train_config(const Json& json, const std::string& where) {
  check_fields(json, {"model", "data", "training", "mesh", "schedule", "transfers", "out", "checkpoint_every"}, where);
  TrainConfig config;
  config.file = where;
  read_model(get_object(json, "model", where), where + ": model", &config.model);
  read_data(get_object(json, "data", where), where + ": data", &config);
  if (find_field(json, "training", where) != nullptr)
    read_training(get_object(json, "training", where), where + ": training", &config);
  if (find_field(json, "mesh", where) != nullptr) read_mesh(get_object(json, "mesh", where), where + ": mesh", &config);
  if (find_field(json, "schedule", where) != nullptr) config.schedule = parse_kind(get_string(json, "schedule", where));
  if (find_field(json, "transfers", where) != nullptr)
    read_transfers(get_object(json, "transfers", where), where + ": transfers", &config.transfers);
  if (find_field(json, "out", where) != nullptr) config.out = get_string(json, "out", where);
  config.checkpoint_every = int_or(json, "checkpoint_every", where, 0, 0, kMostSteps);
  return config;
}

TrainConfig load_train_config(const std::string& path) {
  return parse_train_config(load_json(path, {.bytes = std::size_t{1} << 20}), path);
}

void settle(TrainConfig* config) {
  check_gpt(config->model);
  if (config->schedule != Kind::gpipe && config->schedule != Kind::one_f_one_b && config->schedule != Kind::eager_1f1b)
    bad_input(
        "{}: \"schedule\" is \"{}\"; the trainer runs gpipe, 1f1b and eager_1f1b (weft schedule draws the others)",
        config->file, to_string(config->schedule));
  if (config->batch % config->micro_batches != 0) {
    const auto divides = [&](int parts) { return config->batch % parts == 0; };
    bad_input("{}: {} micro_batches cannot share a batch of {}; the nearest possible are {}", config->file,
              config->micro_batches, config->batch, nearest(config->micro_batches, divides));
  }
  settle_layers(config);
  for (int stage = 0; stage < config->num_stages(); ++stage) check_stage(*config, stage);
  config->lr.steps = config->steps;
}

}  // namespace weft::pipeline
