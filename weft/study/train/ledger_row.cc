#include "weft/study/train/ledger_row.h"

#include <algorithm>

#include <fmt/core.h>

#include "weft/base/index.h"
#include "weft/base/units.h"
#include "weft/study/train/compare.h"

namespace weft {
namespace {

constexpr std::int64_t kTrainSequence = 128;
constexpr int kMicroBatchesPerStage = 4, kTrainRounds = 3;

pipeline::TrainConfig config_like(const ModelConfig& model, std::int64_t sequence, int stages) {
  pipeline::TrainConfig config;
  config.file = model.file;
  config.model = {.vocab = model.vocab,
                  .hidden = model.hidden,
                  .layers = model.blocks,
                  .heads = model.heads,
                  .kv_heads = model.kv_heads,
                  .mlp = model.intermediate,
                  .sequence = sequence};
  config.stages.assign(num(stages), {});
  config.micro_batches = kMicroBatchesPerStage * stages;
  config.batch = config.micro_batches;
  settle(&config);
  return config;
}

}  // namespace

std::optional<LedgerRow> training_row(World& world, const ModelTask& task) {
  const ModelConfig& model = task.source.config;
  const bool as_trained = model.design.gated && why_not_trainable(model.design).empty();
  if (!as_trained || model.blocks < world.size() || model.head_dim * model.heads != model.hidden) return std::nullopt;
  const std::int64_t sequence = std::min<std::int64_t>(kTrainSequence, std::ssize(task.prompt) - 1);
  const pipeline::TrainConfig config = config_like(model, sequence, world.size());
  const pipeline::TokenData data(task.prompt, sequence, 1);
  TrainContestOptions options;
  options.rounds = kTrainRounds;
  options.styles = {"send_recv", "broadcast + overlap + eager_1f1b", "one element"};
  const TrainContest contest = compare_training(world, config, data, options);
  const TrainStyleResult& full = contest.style(options.styles[1]);
  LedgerRow row{.name = "training"};
  row.measured_us = full.step_us;
  row.predicted_us = full.predicted_us + contest.outside_us;
  row.exposed_us = full.step_us - contest.style("one element").step_us;
  row.cpu_us = full.cpu_us;
  row.note =
      fmt::format("a step of {} tokens in {} stages, eager_1f1b; {} where stages stop for transfers",
                  config.batch * sequence, world.size(), format_duration(1e-6 * contest.style("send_recv").step_us));
  return row;
}

}  // namespace weft
