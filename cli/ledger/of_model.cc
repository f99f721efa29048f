#include "cli/ledger/of_model.h"

#include <filesystem>
#include <span>

#include <CLI/CLI.hpp>
#include <fmt/core.h>

#include "weft/base/error.h"
#include "weft/base/json.h"
#include "weft/cluster/data_file.h"
#include "weft/io/text/tokenizer.h"
#include "weft/llm/spd/spd_model.h"
#include "weft/world/world.h"

#include "cli/progress.h"

namespace weft::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostText = std::size_t{64} << 20;
constexpr std::size_t kBytesAToken = 32;
constexpr int kNewTokens = 32;

std::string folder_of(const std::string& model) {
  if (model.find('/') != std::string::npos || fs::is_directory(model)) return model;
  const std::string folder = "models/" + model;
  if (data_file_names(folder).empty())  // a model has at least its config.json
    bad_input("unknown model \"{}\"; give a model's folder, or a name in models/, as weft-16", model);
  const fs::path found = fs::path(find_data_file(folder, "model", "config")).parent_path();
  const std::string near = fs::proximate(found).string();  // shorter to read and to type, where it is below us
  return near.rfind("..", 0) == 0 ? found.string() : near;
}

// What losses are measured on; and the prompt, where the folder has none.
std::string text_of(const ModelFlags& flags, const std::string& folder) {
  const std::string path = flags.text.empty() ? folder + "/heldout.txt" : flags.text;
  if (flags.text.empty() && !fs::exists(path))
    bad_input("{} has no heldout.txt to measure losses on; name a text with --text FILE", folder);
  return read_text_file(path, kMostText);
}

std::string prompt_of(const ModelFlags& flags, const std::string& folder) {
  const std::string own = folder + "/prompt.txt";
  const std::string path = !flags.prompt.empty() ? flags.prompt : fs::exists(own) ? own : "";
  return path.empty() ? text_of(flags, folder) : read_text_file(path, kMostText);
}

// What the rows with dropped synchronisations do: the spd file asked for; that of the model's folder; or drop all.
void set_dropped(const ModelFlags& flags, ModelTask* task) {
  const std::string own = fmt::format("{}/spd/tp{}.spd", task->folder, task->ranks);
  const std::string path = !flags.spd.empty() ? flags.spd : fs::exists(own) ? own : "";
  const auto blocks = static_cast<std::size_t>(task->source.config.blocks);
  if (path.empty()) {
    task->dropped.assign(blocks, BlockMode{.drop = true});
    task->dropped_why = "the attention's synchronisation of every block; `weft spd analyze` picks those to spare";
    return;
  }
  const SpdFile spd = load_spd(path);
  task->source = open_model(task->folder, spd, task->ranks);
  task->dropped = spd.blocks;
  task->dropped_why = fmt::format("{} of {}", summary(spd.blocks), path);
}

}  // namespace

void add_model_flags(CLI::App& app, ModelFlags* flags) {
  app.add_option("--model", flags->model, "a model's folder, or a name in models/ (weft-16)")->type_name("DIR|NAME");
  app.add_option("--tokens", flags->tokens, "--model: tokens of the prompt (512)")->type_name("N");
  app.add_option("--spd", flags->spd, "--model: what to drop (DIR/spd/tp<ranks>.spd, or every block)")
      ->type_name("FILE");
  app.add_option("--prompt", flags->prompt, "--model: the prompt, its first tokens (DIR/prompt.txt, or the text's)")
      ->type_name("FILE");
  app.add_option("--text", flags->text, "--model: text that losses are measured on (DIR/heldout.txt)")
      ->type_name("FILE");
}

ModelTask model_task(const ModelFlags& flags, int ranks) {
  ModelTask task;
  task.folder = folder_of(flags.model);
  task.source = open_model(task.folder);
  task.ranks = ranks;
  task.new_tokens = kNewTokens;
  const std::int64_t most = task.source.config.max_positions - kNewTokens;
  if (flags.tokens < 1 || flags.tokens > most)
    bad_input("--tokens is {}; use 1 to {}: the model's positions less {} new tokens", flags.tokens, most, kNewTokens);
  const auto tokenizer = Tokenizer::load(task.folder);
  const std::string text = prompt_of(flags, task.folder);  // a token has seldom more than kBytesAToken
  task.prompt =
      tokenizer->encode(std::string_view(text).substr(0, kBytesAToken * static_cast<std::size_t>(flags.tokens)));
  if (static_cast<int>(task.prompt.size()) < flags.tokens)
    bad_input("the prompt has {} tokens, fewer than --tokens {}; give a longer one with --prompt FILE",
              task.prompt.size(), flags.tokens);
  task.prompt.resize(static_cast<std::size_t>(flags.tokens));
  set_dropped(flags, &task);
  return task;
}

std::optional<ModelLedger> ledger_of_model(const ModelFlags& flags, const ModelTask& task,
                                           const std::function<World()>& join) {
  const auto tokenizer = Tokenizer::load(task.folder);
  std::optional<ModelLedger> ledger;
  std::unique_ptr<Progress> progress;
  const Say say = [&](const std::string& what) { progress->show(what); };
  {
    World world = join();
    const bool speaks = world.rank() == 0;
    progress = std::make_unique<Progress>(speaks ? Progress::Who::speaks : Progress::Who::is_silent);
    ledger = measure_model(world, task, *tokenizer, say);
    if (!speaks) return {};
  }
  predict_model(task, &*ledger);
  measure_losses(task, text_of(flags, task.folder), *tokenizer, say, &*ledger);
  return ledger;
}

}  // namespace weft::cli
