#include "weft/study/ledger/model_ledger.h"

#include <algorithm>
#include <filesystem>
#include <memory>

#include <fmt/core.h>

#include "weft/base/index.h"
#include "weft/io/text/tokenizer.h"
#include "weft/llm/engine/generate.h"
#include "weft/study/peers/torch_row.h"
#include "weft/study/rounds.h"
#include "weft/study/train/ledger_row.h"
#include "weft/world/world.h"

namespace weft {
namespace {

constexpr const char* kFused = "fused";
constexpr std::size_t kShownTokens = 24;  // of the prompt, before the text

// One engine for every form that needs its own: by how synchronisations are made, and by the weights.
class FormEngines {
 public:
  FormEngines(World& world, const ModelTask& task, const Say& say) {
    ModelSource plain = task.source;
    plain.repaired = nullptr;
    models_.push_back(std::make_unique<Model>(plain, world.rank(), world.size()));
    if (task.source.repaired) models_.push_back(std::make_unique<Model>(task.source, world.rank(), world.size()));
    for (const ModelForm& form : forms_of(task)) {
      const std::size_t model = model_of(form);
      if (find(form.sync, model) != nullptr) continue;
      say(fmt::format("planning and proving what {} needs", form.name));
      const std::int64_t tokens = int_size(task.prompt);
      const EngineOptions options{.capacity = tokens + task.new_tokens, .rows = tokens, .sync = form.sync};
      made_.push_back({form.sync, model, std::make_unique<Engine>(world, *models_[model], options)});
    }
  }

  Engine& of(const ModelForm& form) { return *find(form.sync, model_of(form)); }

 private:
  struct Made {
    Style sync;
    std::size_t model;
    std::unique_ptr<Engine> engine;
  };
  std::size_t model_of(const ModelForm& form) const { return form.repaired ? models_.size() - 1 : 0; }
  Engine* find(Style sync, std::size_t model) {
    for (Made& made : made_)
      if (made.sync == sync && made.model == model) return made.engine.get();
    return nullptr;
  }

  std::vector<std::unique_ptr<Model>> models_;
  std::vector<Made> made_;
};

class ModelRounds {
 public:
  ModelRounds(World& world, const ModelTask& task, const Say& say)
      : task_(task),
        clock_(world),
        engines_(world, task, say),
        torch_(clock_, task, world.rank(), say),
        forms_(forms_of(task)),
        tokens_(forms_.size(), -1),
        rounds_(clock_, contestants(),
                {.rounds = task.rounds, .twice = kFused, .refresh = [this, &say](std::uint64_t round) {
                   say(fmt::format("round {} of {}", round, task_.rounds));
                 }}) {}

  void run() { rounds_.run(); }

  void fill(ModelLedger* out) {
    for (std::size_t i = 0; i < forms_.size(); ++i) {
      const ModelForm& form = forms_[i];
      LedgerRow row{.name = form.name, .measured_us = rounds_.median_us(form.name)};
      double sent = 0;
      for (const std::int64_t bytes : rounds_.turns(form.name).front().said) sent += bytes;
      row.sent_bytes = sent;
      row.dropped = num_dropped(form.modes);
      row.syncs = 2 * int_size(form.modes) - row.dropped;
      if (form.sync == Style::compute) row.syncs = row.dropped = 0;
      out->table.rows.push_back(row);
      if (keeps_values(form)) out->same_token = out->same_token && tokens_[i] == tokens_[0];
    }
    set_exposed(&out->table);
    torch_.add_row(rounds_, tokens_[0], &out->table);
    out->torch = torch_.note();
    out->table.aa_band = rounds_.aa_band();
  }

  // Text of the last form before the floor, from where its prompt ended; milliseconds per token.
  double generate(const Tokenizer& tokenizer, std::string* text) {
    const ModelForm& form = forms_[forms_.size() - 2];
    Engine& engine = engines_.of(form);
    engine.set_modes(form.modes);
    const GenerateOptions options{.max_tokens = task_.new_tokens, .goes_on = true};
    const GenerateResult made = weft::generate(engine, &tokenizer, {&task_.prompt, 1}, options);
    *text = made.texts.front().text;
    return made.seconds_per_token() * 1e3;
  }

 private:
  // A turn is the prompt until its first token; it says what this rank's blocks sent.
  std::vector<Contestant> contestants() {
    std::vector<Contestant> out;
    for (std::size_t i = 0; i < forms_.size(); ++i) {
      const ModelForm& form = forms_[i];
      Engine& engine = engines_.of(form);
      out.push_back({.name = form.name,
                     .run =
                         [this, i, &engine] {
                           const Feed feed{.sequence = 0, .tokens = task_.prompt};
                           const int last = int_size(task_.prompt) - 1;
                           engine.forward({&feed, 1});
                           tokens_[i] = engine.greedy({&last, 1}).front();
                         },
                     .prepare =
                         [this, &form, &engine] {
                           engine.set_modes(form.modes);
                           engine.clear(0);
                           sent_before_ = engine.traffic().block_bytes;
                         },
                     .after = [this, &engine](std::uint64_t) { return engine.traffic().block_bytes - sent_before_; }});
    }
    for (Contestant& one : torch_.contestants()) out.push_back(std::move(one));
    return out;
  }

  const ModelTask& task_;
  CommonClock clock_;
  FormEngines engines_;
  TorchRank torch_;
  const std::vector<ModelForm> forms_;
  std::vector<int> tokens_;  // the first one, by form
  std::int64_t sent_before_ = 0;
  Rounds rounds_;
};

}  // namespace

ModelLedger measure_model_rounds(World& world, const ModelTask& task, const Tokenizer& tokenizer, const Say& say) {
  ModelRounds rounds(world, task, say);
  rounds.run();
  say("generating");
  ModelLedger out;
  out.model = task.folder;
  std::error_code error;
  const std::string calibration = task.folder + "/calibration.txt";
  out.calibration = std::filesystem::is_regular_file(calibration, error) ? calibration : task.text_path;
  out.config = task.source.config;
  out.tokens = int_size(task.prompt);
  out.table = table_of(world, task.link, task.rounds);
  out.dropped_why = task.dropped_why;
  rounds.fill(&out);
  out.ms_per_token = rounds.generate(tokenizer, &out.text);
  out.prompt_end = tokenizer.decode(std::span(task.prompt).last(std::min(kShownTokens, task.prompt.size())));
  if (task.train) {
    say("training");
    out.training = training_row(world, task);
  }
  say("");
  return out;
}

std::optional<ModelLedger> measure_model_ledger(const ModelTask& task, const std::function<World()>& join,
                                                const Say& say) {
  const auto tokenizer = Tokenizer::load(task.folder);
  std::optional<ModelLedger> ledger;
  {
    World world = join();
    ledger = measure_model_rounds(world, task, *tokenizer, say);
    if (world.rank() != 0) return {};
  }
  predict_model(task, &*ledger);
  measure_losses(task, *tokenizer, say, &*ledger);
  return ledger;
}

}  // namespace weft
