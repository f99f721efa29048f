#include "cli/generate/flags.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <numeric>

#include <nlohmann/json.hpp>

#include "weft/base/error.h"
#include "weft/base/index.h"
#include "weft/base/json.h"
#include "weft/cluster/cluster.h"
#include "weft/io/text/jsonl.h"
#include "weft/io/text/tokenizer.h"
#include "weft/llm/model/random_model.h"
#include "weft/llm/spd/spd_model.h"

namespace weft::cli {
namespace {

constexpr std::size_t kMostPromptBytes = std::size_t{64} << 20;
constexpr std::size_t kMostPrompts = 4096;

std::int64_t number(std::string_view text, std::string_view flag, std::int64_t most) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || value < 0 || value > most)
    bad_input("{} has \"{}\"; use whole numbers from 0 to {}", flag, text, most);
  return value;
}

std::vector<std::string> split(const std::string& text, char by) {
  std::vector<std::string> out(1);
  for (const char c : text) {
    if (c == by)
      out.emplace_back();
    else if (c != ' ')
      out.back() += c;
  }
  return out;
}

// Says what is wrong before a rank is started; a folder without a tokenizer does for prompts of tokens.
std::shared_ptr<const Tokenizer> tokenizer_of(const GenerateFlags& flags, bool needed) {
  if (flags.model.empty()) return nullptr;
  const auto has = [&](const char* name) { return std::filesystem::exists(flags.model + "/" + name); };
  if (!needed && !has("tokenizer.json") && !has("tokenizer.model") && !has("vocab.json")) return nullptr;
  return Tokenizer::load(flags.model);
}

class PromptReader {
 public:
  explicit PromptReader(GenerateTask* task) : task_(task) {}

  void read(const GenerateFlags& flags) {
    for (const std::string& text : flags.prompts) add_text(text, "--prompt");
    if (!flags.prompt_file.empty())
      add_text(read_text_file(flags.prompt_file, kMostPromptBytes), flags.prompt_file.c_str());
    for (const std::string& ids : flags.prompt_ids) add_ids(ids);
    if (!flags.prompts_file.empty())
      for_each_line(flags.prompts_file, [&](const Json& line, const std::string& where) {
        add_text(get_string(line, "prompt", where), where.c_str());
      });
    if (task_->prompts.empty()) bad_input("there is no prompt; give --prompt TEXT or --prompt-ids 1,15,7");
  }

 private:
  void add(std::vector<int> tokens, std::string text, const char* where) {
    const ModelConfig& config = task_->source.config;
    if (tokens.empty()) bad_input("{}: the prompt has no token; give at least one", where);
    if (std::ssize(tokens) >= config.max_positions)
      bad_input("{}: the prompt has {} tokens, and the model of {} knows {} positions; leave room for one more", where,
                tokens.size(), config.file, config.max_positions);
    if (task_->prompts.size() >= kMostPrompts) bad_input("more than {} prompts; give fewer at once", kMostPrompts);
    task_->prompts.push_back(std::move(tokens));
    task_->prompt_texts.push_back(std::move(text));
  }

  void add_text(const std::string& text, const char* where) {
    if (task_->tokenizer == nullptr) bad_input("{}: a model that is made up has no tokenizer; use --prompt-ids", where);
    const Tokenizer& tokenizer = *task_->tokenizer;
    std::vector<int> tokens = tokenizer.encode_with_special(text);
    if (tokenizer.adds_bos() && tokenizer.bos()) tokens.insert(tokens.begin(), *tokenizer.bos());
    add(std::move(tokens), text, where);
  }

  void add_ids(const std::string& ids) {
    std::vector<int> tokens;
    for (const std::string& id : split(ids, ','))
      tokens.push_back(static_cast<int>(number(id, "--prompt-ids", task_->source.config.vocab - 1)));
    add(std::move(tokens), "", "--prompt-ids");
  }

  GenerateTask* task_;
};

std::vector<BlockMode> modes_of(const GenerateFlags& flags, const ModelConfig& config) {
  std::vector<BlockMode> modes(num(config.blocks));
  if (!flags.wire.empty()) {
    const BlockMode all = parse_block_mode(flags.wire == "f32" ? "sync" : flags.wire);
    if (all.drop) bad_input("--wire is {}; use f32, bf16 or int8, and --drop for blocks to drop", flags.wire);
    std::fill(modes.begin(), modes.end(), all);
  }
  if (flags.drop.empty()) return modes;
  const auto dropped = parse_drop(flags.drop, config.blocks);
  for (std::size_t b = 0; b < modes.size(); ++b) modes[b].drop = dropped[b];
  return modes;
}

void set_source(const GenerateFlags& flags, int ranks, bool whole, GenerateTask* task) {
  if (!flags.random.empty()) {
    task->source.config = parse_config(load_json(flags.random), flags.random);
    if (whole) task->source = random_model(flags.random, {.threads = flags.ranks.threads});
    task->modes = modes_of(flags, task->source.config);
  } else if (!flags.spd.empty()) {
    const SpdFile spd = load_spd(flags.spd);
    if (!whole) check_spd_weights(spd);
    task->source = open_model(flags.model, spd, ranks);
    task->modes = spd.blocks;
  } else {
    task->source = open_model(flags.model);
    task->modes = modes_of(flags, task->source.config);
  }
}

// Room for the longest prompt and what is asked for behind it; as many rows at once as there are.
void set_sizes(const GenerateFlags& flags, GenerateTask* task) {
  std::int64_t longest = 0, all = 0;
  for (const auto& prompt : task->prompts) {
    longest = std::max(longest, std::ssize(prompt));
    all += std::ssize(prompt);
  }
  task->engine.sequences = int_size(task->prompts);
  task->engine.capacity = std::min(task->source.config.max_positions, longest + flags.max_tokens);
  task->engine.rows = std::max<std::int64_t>(std::min(flags.rows, all), task->engine.sequences);
  task->engine.sync = parse_sync_form(flags.sync);
  task->engine.panels = flags.panels;
}

}  // namespace

std::vector<bool> parse_drop(const std::string& text, std::int64_t blocks) {
  std::vector<bool> out(num(blocks), false);
  if (text == "none") return out;
  if (text == "all" || text.ends_with('%')) {
    const std::int64_t percent = text == "all" ? 100 : number(text.substr(0, text.size() - 1), "--drop", 100);
    const std::int64_t count = (blocks * percent + 50) / 100;
    std::fill(out.end() - count, out.end(), true);
    return out;
  }
  for (const std::string& word : split(text, ',')) {
    const std::size_t dash = word.find('-');
    const std::int64_t first = number(word.substr(0, dash), "--drop", blocks - 1);
    const std::int64_t last = dash == std::string::npos ? first : number(word.substr(dash + 1), "--drop", blocks - 1);
    if (last < first) bad_input("--drop has \"{}\", whose end is before its beginning; turn it round", word);
    std::fill(out.begin() + first, out.begin() + last + 1, true);
  }
  return out;
}

GenerateTask generate_task(const GenerateFlags& flags, int ranks, bool whole) {
  GenerateTask task;
  set_source(flags, ranks, whole, &task);
  const bool texts = !flags.prompts.empty() || !flags.prompt_file.empty() || !flags.prompts_file.empty();
  task.tokenizer = tokenizer_of(flags, texts);
  PromptReader(&task).read(flags);
  set_sizes(flags, &task);
  task.generate.max_tokens = flags.max_tokens;
  task.generate.sampler = flags.sampler;
  task.generate.stops = flags.stops;
  task.generate.prompt_logits = !flags.logits.empty();
  if (!flags.ignore_eos) {
    task.generate.eos = task.source.config.eos;
    if (task.tokenizer != nullptr && task.tokenizer->eos()) task.generate.eos.push_back(*task.tokenizer->eos());
  }
  if (task.tokenizer == nullptr && !flags.stops.empty())
    bad_input("--stop needs a tokenizer, and this model has none; leave it out");
  return task;
}

void check_generate_flags(const GenerateFlags& flags) {
  if (flags.model.empty() == flags.random.empty())
    bad_input("give a model: --model DIR, or --random CONFIG.json for one of random weights; not both");
  if (flags.ranks.count < 1) bad_input("--ranks is {}; use 1 or more", flags.ranks.count);
  check_rank_flags(flags.ranks);
  if (flags.max_tokens < 1) bad_input("--max-tokens is {}; use 1 or more", flags.max_tokens);
  if (flags.rows < 1) bad_input("--rows is {}; use 1 or more", flags.rows);
  if (flags.panels < 1) bad_input("--panels is {}; use 1 or more", flags.panels);
  if (!flags.spd.empty() && (!flags.wire.empty() || !flags.drop.empty()))
    bad_input("--spd says what every block does; leave out --wire and --drop");
  if (!flags.spd.empty() && flags.model.empty()) bad_input("--spd is for a model with files; use --model");
  parse_sync_form(flags.sync);
  check_sampler(flags.sampler);
}

}  // namespace weft::cli
