#include "cli/ledger/model_ledger.h"

#include <algorithm>
#include <thread>

#include <fmt/core.h>

#include "weft/base/error.h"
#include "weft/base/statistics.h"
#include "weft/io/text/tokenizer.h"
#include "weft/llm/engine/generate.h"
#include "weft/study/clock.h"
#include "weft/world/world.h"

namespace weft::cli {
namespace {

std::vector<BlockMode> all(const ModelTask& task, BlockMode mode) {
  return std::vector<BlockMode>(static_cast<std::size_t>(task.source.config.blocks), mode);
}

std::vector<BlockMode> with_int8(std::vector<BlockMode> modes) {
  for (BlockMode& mode : modes) mode.wire = BlockWire::int8;
  return modes;
}

// One engine for every form that needs its own: by how synchronisations are made, and by the weights.
class Contestants {
 public:
  Contestants(World& world, const ModelTask& task, const Say& say) {
    ModelSource plain = task.source;
    plain.repaired = nullptr;
    models_.push_back(std::make_unique<Model>(plain, world.rank(), world.size()));
    if (task.source.repaired) models_.push_back(std::make_unique<Model>(task.source, world.rank(), world.size()));
    for (const ModelForm& form : forms_of(task)) {
      const std::size_t model = form.repaired ? models_.size() - 1 : 0;
      if (engine(form.sync, model) != nullptr) continue;
      say(fmt::format("planning and proving what {} needs", form.name));
      const auto tokens = static_cast<std::int64_t>(task.prompt.size());
      made_.push_back({form.sync, model,
                       std::make_unique<Engine>(
                           world, *models_[model],
                           EngineOptions{.capacity = tokens + task.new_tokens, .rows = tokens, .sync = form.sync})});
    }
  }

  Engine& of(const ModelForm& form) { return *engine(form.sync, form.repaired ? models_.size() - 1 : 0); }

 private:
  struct Made {
    SyncForm sync;
    std::size_t model;
    std::unique_ptr<Engine> engine;
  };
  Engine* engine(SyncForm sync, std::size_t model) {
    for (Made& made : made_)
      if (made.sync == sync && made.model == model) return made.engine.get();
    return nullptr;
  }

  std::vector<std::unique_ptr<Model>> models_;
  std::vector<Made> made_;
};

struct ModelTurn {
  double us = 0, sent_bytes = 0;
  int token = -1;
};

class ModelRounds {
 public:
  ModelRounds(World& world, const ModelTask& task, const Say& say)
      : task_(task), say_(say), clock_(world), contestants_(world, task, say), forms_(forms_of(task)) {}

  void run() {
    turns_.resize(forms_.size());
    for (const ModelForm& form : forms_) turn(form);  // touches memory
    for (int round = 0; round < task_.rounds; ++round) {
      say_(fmt::format("round {} of {}", round + 1, task_.rounds));
      for (std::size_t i = 0; i < forms_.size(); ++i) {
        const std::size_t at = round % 2 == 0 ? i : forms_.size() - 1 - i;
        turns_[at].push_back(turn(forms_[at]));
        if (forms_[at].name == "fused") again_us_.push_back(turn(forms_[at]).us);
      }
    }
  }

  void fill(ModelLedger* out) const {
    const double floor = median_us(forms_.size() - 1);
    for (std::size_t i = 0; i < forms_.size(); ++i) {
      ModelRow row{.name = forms_[i].name, .measured_us = median_us(i)};
      row.exposed_us = *row.measured_us - floor;
      row.sent_bytes = turns_[i].front().sent_bytes;
      row.dropped = num_dropped(forms_[i].modes);
      row.syncs = 2 * static_cast<int>(forms_[i].modes.size()) - row.dropped;
      if (forms_[i].sync == SyncForm::alone) row.syncs = row.dropped = 0;
      out->rows.push_back(row);
      if (i < 3) out->same_token = out->same_token && turns_[i].front().token == turns_[0].front().token;
    }
    out->aa_band = std::abs(median_us(2) / median(again_us_) - 1);
  }

  // Text of the last form before the floor, from where its prompt ended; milliseconds a token.
  double generate(const Tokenizer& tokenizer, std::string* text) {
    const ModelForm& form = forms_[forms_.size() - 2];
    Engine& engine = contestants_.of(form);
    engine.set_modes(form.modes);
    const GenerateOptions options{.max_tokens = task_.new_tokens};
    const GenerateResult made = weft::generate(engine, &tokenizer, {&task_.prompt, 1}, options);
    *text = made.texts.front().text;
    return made.seconds_per_token() * 1e3;
  }

 private:
  ModelTurn turn(const ModelForm& form) {
    Engine& engine = contestants_.of(form);
    engine.set_modes(form.modes);
    engine.clear(0);
    const std::int64_t before = engine.traffic().block_bytes;
    const Feed feed{.sequence = 0, .tokens = task_.prompt};
    const int last = static_cast<int>(task_.prompt.size()) - 1;
    const std::int64_t start = clock_.start_together();
    engine.forward({&feed, 1});
    const int token = engine.greedy({&last, 1}).front();
    const std::int64_t values[2] = {CommonClock::now_ns() - start, engine.traffic().block_bytes - before};
    const auto told = clock_.tell(values);
    ModelTurn out{.token = token};
    for (std::size_t at = 0; at < told.size(); at += CommonClock::kValues) {
      out.us = std::max(out.us, static_cast<double>(told[at]) * 1e-3);
      out.sent_bytes += static_cast<double>(told[at + 1]);
    }
    return out;
  }

  double median_us(std::size_t form) const {
    std::vector<double> us;
    for (const ModelTurn& t : turns_[form]) us.push_back(t.us);
    return median(us);
  }

  const ModelTask& task_;
  const Say& say_;
  CommonClock clock_;
  Contestants contestants_;
  std::vector<ModelForm> forms_;
  std::vector<std::vector<ModelTurn>> turns_;
  std::vector<double> again_us_;
};

}  // namespace

// In the order of the rows. The first three compute the same values; the last is the floor.
std::vector<ModelForm> forms_of(const ModelTask& task) {
  const std::vector<BlockMode> sync = all(task, {});
  return {{"sequential", SyncForm::sequential, sync},
          {"decomposed", SyncForm::decomposed, sync},
          {"fused", SyncForm::fused, sync},
          {"fused_int8", SyncForm::fused, with_int8(sync)},
          {"dropped", SyncForm::fused, task.dropped, task.source.repaired != nullptr},
          {"dropped_int8", SyncForm::fused, with_int8(task.dropped), task.source.repaired != nullptr},
          {"compute", SyncForm::alone, sync}};
}

const ModelRow* ModelLedger::find(std::string_view name) const {
  const auto at = std::find_if(rows.begin(), rows.end(), [&](const ModelRow& row) { return row.name == name; });
  return at == rows.end() ? nullptr : &*at;
}

ModelLedger measure_model(World& world, const ModelTask& task, const Tokenizer& tokenizer, const Say& say) {
  ModelRounds rounds(world, task, say);
  rounds.run();
  say("generating");
  ModelLedger out;
  out.model = task.folder;
  out.config = task.source.config;
  out.link = task.link;
  out.link_name = task.link_name;
  out.transport = world.transport();
  out.ranks = world.size();
  out.cores = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  out.rounds = task.rounds;
  out.tokens = static_cast<std::int64_t>(task.prompt.size());
  out.cluster = world.cluster(world.size());
  out.dropped_why = task.dropped_why;
  rounds.fill(&out);
  out.ms_per_token = rounds.generate(tokenizer, &out.text);
  constexpr std::size_t kShown = 24;
  const std::size_t shown = std::min(kShown, task.prompt.size());
  out.prompt_end = tokenizer.decode(std::span(task.prompt).last(shown));
  say("");
  return out;
}

}  // namespace weft::cli
