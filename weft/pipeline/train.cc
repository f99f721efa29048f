#include "weft/pipeline/train.h"

#include "weft/base/clock.h"
#include "weft/base/log.h"
#include "weft/io/text/tokenizer.h"

namespace weft::pipeline {

TokenData load_data(TrainConfig* config) {
  const auto tokenizer = Tokenizer::load(config->tokenizer);
  config->model.vocab = tokenizer->vocab_size();
  settle(config);
  return TokenData(read_tokens(*tokenizer, config->texts), config->model.sequence, config->seed);
}

TrainResult train(World& world, const TrainConfig& config, const TokenData& data, const TrainOptions& options,
                  const std::function<void(const StepReport&)>& tell) {
  TrainResult result;
  Trainer trainer(world, config, data, {.threads = options.threads, .pace = {}});
  if (options.resume)
    if (const auto latest = latest_checkpoint(config.out)) {
      load_checkpoint(*latest, config, trainer);
      result.resumed_at = trainer.steps();
    }
  world.barrier();  // nobody makes a checkpoint before all have looked for one
  Saver saver(world, config, trainer);
  const std::int64_t begin = now_ns();
  bool saved = trainer.steps() == config.steps;  // nothing to add to what was loaded
  while (trainer.steps() < config.steps) {
    result.steps.push_back(trainer.step());
    tell(result.steps.back());
    saved = config.checkpoint_every > 0 && trainer.steps() % config.checkpoint_every == 0;
    if (saved) saver.save(config.out, options.keep);
  }
  result.seconds = seconds_since(begin);
  const auto tokens = std::ssize(result.steps) * config.batch * config.model.sequence;
  result.tokens_per_s = result.seconds > 0 ? static_cast<double>(tokens) / result.seconds : 0;
  result.peak_activations = trainer.peak_activations();
  if (config.out.empty()) return result;
  if (!saved && (config.checkpoint_every > 0 || config.model.u_shaped)) saver.save(config.out, options.keep);
  if (!config.model.u_shaped) {
    saver.write_model(config.out);
    result.model = config.out;
  }
  return result;
}

}  // namespace weft::pipeline
