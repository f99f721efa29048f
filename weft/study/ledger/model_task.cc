#include "weft/study/ledger/model_task.h"

#include <algorithm>
#include <filesystem>

#include <fmt/core.h>

#include "weft/base/error.h"
#include "weft/base/index.h"
#include "weft/base/json.h"
#include "weft/cluster/data_file.h"
#include "weft/io/text/tokenizer.h"
#include "weft/llm/spd/spd_model.h"

namespace weft {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostText = std::size_t{64} << 20;
constexpr std::size_t kBytesPerToken = 32;  // a token seldom has more

std::string folder_of(const std::string& model) {
  if (model.find('/') != std::string::npos || fs::is_directory(model)) return model;
  const std::string folder = "models/" + model;
  if (data_file_names(folder).empty())  // a model has at least its config.json
    bad_input("unknown model \"{}\"; give a model's folder, or a name in models/, as weft-16", model);
  const fs::path found = fs::path(find_data_file(folder, "model", "config")).parent_path();
  const std::string near = fs::proximate(found).string();  // shorter to read and to type, where it is below us
  return near.rfind("..", 0) == 0 ? found.string() : near;
}

std::string text_path_of(const ModelTaskOptions& options, const std::string& folder) {
  if (!options.text.empty()) return options.text;
  const std::string own = folder + "/heldout.txt";
  if (!fs::exists(own)) bad_input("{} has no heldout.txt to measure losses on; name a text with --text FILE", folder);
  return own;
}

std::vector<int> prompt_of(const ModelTaskOptions& options, const ModelTask& task) {
  const std::int64_t most = task.source.config.max_positions - task.new_tokens;
  if (options.tokens < 1 || options.tokens > most)
    bad_input("--tokens is {}; use 1 to {}: the model's positions less {} new tokens", options.tokens, most,
              task.new_tokens);
  const std::string own = task.folder + "/prompt.txt";
  const std::string path = !options.prompt.empty() ? options.prompt : fs::exists(own) ? own : task.text_path;
  const std::string text = read_text_file(path, kMostText);
  const auto tokenizer = Tokenizer::load(task.folder);
  std::vector<int> prompt = tokenizer->encode(std::string_view(text).substr(0, kBytesPerToken * num(options.tokens)));
  if (int_size(prompt) < options.tokens)
    bad_input("the prompt has {} tokens, fewer than --tokens {}; give a longer one with --prompt FILE", prompt.size(),
              options.tokens);
  prompt.resize(num(options.tokens));
  return prompt;
}

// What the rows with dropped synchronisations do: the spd file asked for; that of the model's folder; or drop all.
void set_dropped(const std::string& asked, ModelTask* task) {
  const std::string own = fmt::format("{}/spd/tp{}.spd", task->folder, task->ranks);
  const std::string path = !asked.empty() ? asked : fs::exists(own) ? own : "";
  const std::string why = why_not_droppable(task->source.config.design);
  if (path.empty() && !why.empty()) {
    task->dropped.assign(num(task->source.config.blocks), BlockMode{});
    task->dropped_why = "nothing: " + why;
    return;
  }
  if (path.empty()) {
    task->dropped.assign(num(task->source.config.blocks), BlockMode{.drop = true});
    task->dropped_why = "the attention's synchronisation of every block; `weft spd analyze` picks those to spare";
    return;
  }
  const SpdFile spd = load_spd(path);
  task->source = open_model(task->folder, spd, task->ranks);
  task->dropped = spd.blocks;
  task->dropped_why = fmt::format("{} of {}", summary(spd.blocks), path);
}

std::vector<BlockMode> with_int8(std::vector<BlockMode> modes) {
  for (BlockMode& mode : modes) mode.wire = BlockWire::int8;
  return modes;
}

}  // namespace

ModelTask open_model_task(const ModelTaskOptions& options) {
  ModelTask task;
  task.folder = folder_of(options.model);
  task.source = open_model(task.folder);
  task.ranks = options.ranks;
  task.rounds = options.rounds;
  task.train = options.train;
  task.link = options.link;
  task.text_path = text_path_of(options, task.folder);
  task.prompt = prompt_of(options, task);
  set_dropped(options.spd, &task);
  return task;
}

std::string task_text(const ModelTask& task) { return read_text_file(task.text_path, kMostText); }

std::vector<ModelForm> forms_of(const ModelTask& task) {
  const std::vector<BlockMode> sync(num(task.source.config.blocks), BlockMode{});
  const bool repaired = task.source.repaired != nullptr;
  return {{"sequential", Style::sequential, sync},
          {"panels", Style::panels, sync},
          {"fused", Style::fused, sync},
          {"fused_int8", Style::fused, with_int8(sync)},
          {"dropped", Style::fused, task.dropped, repaired},
          {"dropped_int8", Style::fused, with_int8(task.dropped), repaired},
          {kFloor, Style::compute, sync}};
}

bool keeps_values(const ModelForm& form) {
  return form.sync != Style::compute && !form.repaired &&
         std::all_of(form.modes.begin(), form.modes.end(),
                     [](const BlockMode& mode) { return !mode.drop && mode.wire == BlockWire::f32; });
}

}  // namespace weft
