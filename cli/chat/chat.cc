// `weft chat`: a conversation with a model in a terminal, or with lines from a pipe. Ranks are threads of this process:
// the first reads what is typed and tells the others the tokens.
#include <unistd.h>

#include <iostream>
#include <memory>
#include <span>

#include <CLI/CLI.hpp>
#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "weft/base/error.h"
#include "weft/base/index.h"
#include "weft/io/text/tokenizer.h"
#include "weft/llm/engine/conversation.h"
#include "weft/llm/engine/generate.h"
#include "weft/llm/engine/generation_config.h"
#include "weft/llm/engine/turns.h"
#include "weft/llm/spd/spd_model.h"
#include "weft/transport/local/shm.h"

#include "cli/command.h"
#include "cli/flag_values.h"
#include "cli/ranks.h"

namespace weft::cli {
namespace chat {
namespace {

struct Flags {
  std::string model, system, spd;
  RankFlags ranks{.threads = 0, .transport = "threads"};
  std::int64_t context = 0;
  GenerateOptions options{.max_tokens = 512};
  bool samples = false, json = false;
};

// What all ranks share: read once, before there are any.
struct Shared {
  ModelSource source;
  Modes modes;
  std::unique_ptr<Tokenizer> tokenizer;
  GenerateOptions options;
  EngineOptions engine;
  Turns turns;
};

constexpr std::int64_t kContext = 4096;

Shared& fill(const Flags& flags, Shared& shared) {
  if (flags.spd.empty()) {
    shared.source = open_model(flags.model);
    shared.modes = all_blocks(shared.source.config.blocks, {});
  } else {
    const SpdFile spd = load_spd(flags.spd);
    shared.source = open_model(flags.model, spd, flags.ranks.count);
    shared.modes = spd.blocks;
  }
  shared.tokenizer = Tokenizer::load(flags.model);
  const GenerationConfig own = load_generation_config(flags.model, shared.source.config.vocab);
  shared.options = flags.options;
  if (own.sampler && !flags.samples) {
    shared.options.sampler = *own.sampler;
    shared.options.sampler.seed = flags.options.sampler.seed;
  }
  check_sampler(shared.options.sampler);
  shared.options.eos = own.eos.value_or(shared.source.config.eos);
  if (shared.tokenizer->eos()) shared.options.eos.push_back(*shared.tokenizer->eos());
  shared.engine.capacity = std::min(flags.context > 0 ? flags.context : kContext, shared.source.config.max_positions);
  return shared;
}

GenerateOptions options_of(const Shared& shared, std::size_t turn) {
  GenerateOptions options = shared.options;
  options.sampler.seed += turn;
  return options;
}

// A rank that only follows.
void follow(Engine& engine, Shared& shared) {
  for (std::size_t turn = 0; const auto tokens = shared.turns.wait_for(turn); ++turn)
    weft::generate(engine, shared.tokenizer.get(), std::span(&*tokens, 1), options_of(shared, turn));
}

// The rank that reads and prints.
class Speaker {
 public:
  Speaker(const Flags& flags, Engine& engine, Shared& shared, ChatTemplate chat)
      : flags_(flags), engine_(engine), shared_(shared), talk_(std::move(chat), *shared.tokenizer, flags.system) {}

  void run() {
    const bool person = isatty(STDIN_FILENO) == 1 && !flags_.json;
    if (person) fmt::print("{}: /new begins anew, /exit or Ctrl-D ends\n", flags_.model);
    for (std::string line; next_line(person, line);) {
      if (line == "/exit") break;
      if (line == "/new")
        talk_.begin_anew();
      else if (line.find_first_not_of(" \t\r") != std::string::npos)
        turn(line, person);
    }
    if (flags_.json) print_json();
  }

 private:
  static bool next_line(bool person, std::string& line) {
    if (person) fmt::print("> ");
    std::fflush(stdout);
    const bool has = static_cast<bool>(std::getline(std::cin, line));
    if (person && !has) fmt::print("\n");
    return has;
  }

  // A person who writes something that cannot be is told so, and goes on; a pipe ends with the sentence.
  void turn(const std::string& line, bool person) {
    try {
      const std::vector<int> tokens = talk_.ask(line);
      const std::int64_t capacity = engine_.options().capacity;
      if (std::ssize(tokens) >= capacity) {
        talk_.take_back();
        bad_input(
            "the conversation has {} tokens and there is room for {}; begin anew with /new, or give a larger --context",
            tokens.size(), capacity);
      }
      answer(tokens);
    } catch (const Error& error) {
      if (!person || error.code() != Code::bad_input) throw;
      fmt::print(stderr, "weft: {}\n", error.what());
    }
  }

  void answer(const std::vector<int>& tokens) {
    GenerateOptions options = options_of(shared_, turns_++);
    if (!flags_.json)
      options.on_text = [](int, std::string_view text) {
        fmt::print("{}", text);
        std::fflush(stdout);
      };
    shared_.turns.tell(tokens);
    const GenerateResult result =
        weft::generate(engine_, shared_.tokenizer.get(), std::span<const std::vector<int>>(&tokens, 1), options);
    if (!flags_.json) fmt::print("\n");
    tokens_ += int_size(result.texts[0].tokens);
    talk_.answer(result.texts[0].text);
  }

  void print_json() const {
    nlohmann::ordered_json out{{"messages", nlohmann::ordered_json::array()},
                               {"turns", turns_},
                               {"tokens", tokens_},
                               {"ranks", flags_.ranks.count}};
    for (const ChatMessage& message : talk_.messages())
      out["messages"].push_back({{"role", message.role}, {"content", message.content}});
    fmt::print("{}\n", out.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
  }

  const Flags& flags_;
  Engine& engine_;
  Shared& shared_;
  Conversation talk_;
  std::size_t turns_ = 0;
  int tokens_ = 0;
};

int run(Flags flags) {
  if (launched())
    bad_input("weft chat starts its ranks itself, as threads; call it alone, or use `weft generate` on several hosts");
  check_num_ranks(flags.ranks.count);
  if (flags.ranks.threads == 0) flags.ranks.threads = threads_sharing_cores(flags.ranks.count);
  check_rank_flags(flags.ranks);
  if (flags.options.max_tokens < 1) bad_input("--max-tokens is {}; use 1 or more", flags.options.max_tokens);
  const std::optional<ChatTemplate> chat = ChatTemplate::load(flags.model);
  Shared shared;
  fill(flags, shared);
  if (!chat)
    bad_input(
        "{} has no chat template (chat_template.jinja, or \"chat_template\" in tokenizer_config.json); it was not made "
        "for "
        "conversations: use `weft generate`",
        flags.model);
  return on_ranks(flags.ranks, [&](World& world) {
    struct Ends {  // however the speaker ends, nobody waits for it
      ~Ends() {
        if (speaks) turns.end();
      }
      Turns& turns;
      bool speaks;
    } ends{shared.turns, world.rank() == 0};
    const Model model(shared.source, world.rank(), world.size());
    Engine engine(world, model, shared.engine);
    engine.set_modes(shared.modes);
    if (world.rank() == 0)
      Speaker(flags, engine, shared, *chat).run();
    else
      follow(engine, shared);
    return 0;
  });
}

void add_flags(CLI::App& command, Flags* flags) {
  command.add_option("--model", flags->model, "a folder with a chat template")->type_name("DIR")->required();
  command.add_option("--system", flags->system, "a message that comes before all others")->type_name("TEXT");
  add_number(command, "--max-tokens", &flags->options.max_tokens, "tokens of an answer at most")->capture_default_str();
  add_number(command, "--context", &flags->context, "tokens of the conversation at most (4096, or the model's length)",
             2)
      ->type_name("TOKENS");
  add_number(command, "--temperature", &flags->options.sampler.temperature,
             "0: the most probable token; where not given, the folder's generation_config.json holds");
  add_number(command, "--top-k", &flags->options.sampler.top_k, "only the k most probable tokens; 0: all");
  add_number(command, "--top-p", &flags->options.sampler.top_p,
             "only the most probable that have this probability together");
  add_number(command, "--seed", &flags->options.sampler.seed, "of the random numbers");
  command.add_option("--spd", flags->spd, "an spd file: the mode of every block, and repaired weights")
      ->type_name("FILE");
  add_ranks_flag(command, &flags->ranks, "ranks, threads of this process (1)");
  add_threads_flag(command, &flags->ranks, "threads of each rank (the cores there are, shared)");
  add_link_flag(command, &flags->ranks);
  command.add_flag("--json", flags->json, "the whole conversation as one JSON object, when the input ends");
}

}  // namespace
}  // namespace chat

void add_chat(CLI::App& app, Run* chosen) {
  auto* command = app.add_subcommand("chat", "a conversation with a model, in a terminal or through a pipe");
  auto flags = std::make_shared<chat::Flags>();
  chat::add_flags(*command, flags.get());
  command->footer(
      "Every line is a message; /new begins anew, /exit or Ctrl-D ends.\n"
      "Example:\n  weft chat --model Qwen2.5-0.5B-Instruct --system \"Be brief.\"\n"
      "  echo \"What is a kernel?\" | weft chat --model Qwen2.5-0.5B-Instruct --ranks 2");
  command->callback([=] {
    flags->samples = command->count("--temperature") + command->count("--top-k") + command->count("--top-p") > 0;
    *chosen = [flags] { return chat::run(*flags); };
  });
}

}  // namespace weft::cli
