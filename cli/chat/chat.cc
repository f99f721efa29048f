// `weft chat`: a conversation with a model in a terminal, or with lines from a pipe. Rank 0 reads what is typed and
// tells the others the tokens: threads of this process, or ranks on other hosts that `weft run` or mpirun has started.
#include <unistd.h>

#include <memory>

#include <CLI/CLI.hpp>
#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "weft/base/error.h"
#include "weft/base/json_out.h"
#include "weft/base/os/line_input.h"
#include "weft/io/text/tokenizer.h"
#include "weft/llm/chat/chat_session.h"
#include "weft/llm/engine/generation_config.h"
#include "weft/llm/spd/spd_model.h"
#include "weft/transport/local/shm.h"

#include "cli/command.h"
#include "cli/flag_values.h"
#include "cli/ranks.h"
#include "cli/sampling_flags.h"
#include "cli/weights_flag.h"

namespace weft::cli {
namespace chat {
namespace {

struct Flags {
  std::string model, system, spd;
  RankFlags ranks{.threads = 0, .transport = "threads"};
  std::int64_t context = 0;
  GenerateOptions options{.max_tokens = 512};
  WeightPlace weights = WeightPlace::mapped;
  bool samples = false, json = false;
};

// What the flags come to, the same on all ranks; those that are threads share it.
struct Setup {
  ModelSource source;
  Modes modes;
  std::unique_ptr<Tokenizer> tokenizer;
  std::optional<ChatTemplate> chat;
  GenerateOptions options;
  EngineOptions engine;
};

constexpr std::int64_t kContext = 4096;
constexpr std::chrono::milliseconds kIdle{500};  // how often the others hear that nobody has typed anything

std::shared_ptr<const Setup> setup_of(const Flags& flags, int ranks) {
  auto out = std::make_shared<Setup>();
  out->chat = ChatTemplate::load(flags.model);
  if (flags.spd.empty()) {
    out->source = open_model(flags.model);
    out->modes = all_blocks(out->source.config.blocks, {});
  } else {
    const SpdFile spd = load_spd(flags.spd);
    out->source = open_model(flags.model, spd, ranks);
    out->modes = spd.blocks;
  }
  out->tokenizer = Tokenizer::load(flags.model);
  out->options = flags.options;
  apply_generation_config(load_generation_config(flags.model, out->source.config.vocab), out->source.config,
                          out->tokenizer.get(), flags.samples, &out->options);
  out->engine.capacity = std::min(flags.context > 0 ? flags.context : kContext, out->source.config.max_positions);
  if (!out->chat)
    bad_input(
        "{} has no chat template (chat_template.jinja, \"chat_template\" in tokenizer_config.json, or a GGUF file's "
        "own); it was not made for conversations: use `weft generate`",
        flags.model);
  return out;
}

// The terminal or the pipe of the rank that reads and prints.
class Speaker {
 public:
  Speaker(const Flags& flags, ChatRanks& ranks, const Setup& setup)
      : flags_(flags),
        ranks_(ranks),
        session_(ranks, Conversation(*setup.chat, *setup.tokenizer, flags.system), [this](std::string_view text) {
          if (flags_.json) return;
          fmt::print("{}", text);
          std::fflush(stdout);
        }) {}

  void run() {
    if (person_) fmt::print("{}: /new begins anew, /exit or Ctrl-D ends\n", flags_.model);
    for (std::string line; next_line(&line) && take(line);) {
    }
  }

  void print_json(int num_ranks) const {
    nlohmann::ordered_json out{{"messages", nlohmann::ordered_json::array()},
                               {"turns", ranks_.turns()},
                               {"tokens", session_.tokens()},
                               {"tokens_kept", ranks_.tokens_kept()},
                               {"ranks", num_ranks}};
    for (const ChatMessage& message : session_.messages())
      out["messages"].push_back({{"role", message.role}, {"content", message.content}});
    fmt::print("{}", json_line(out));
  }

 private:
  bool next_line(std::string* line) {
    if (person_) fmt::print("> ");
    std::fflush(stdout);
    LineInput::News news = input_.wait(kIdle, line);
    for (; news == LineInput::News::nothing; news = input_.wait(kIdle, line)) ranks_.idle();
    if (person_ && news == LineInput::News::end) fmt::print("\n");
    return news == LineInput::News::line;
  }

  // A person who writes something that cannot be is told so, and goes on; a pipe ends with the sentence.
  bool take(const std::string& line) {
    try {
      return session_.take(line);
    } catch (const Error& error) {
      if (!person_ || error.code() != Code::bad_input) throw;
      fmt::print(stderr, "weft: {}\n", error.what());
      return true;
    }
  }

  const Flags& flags_;
  const bool person_ = isatty(STDIN_FILENO) == 1 && !flags_.json;
  ChatRanks& ranks_;
  LineInput input_{STDIN_FILENO};
  ChatSession session_;
};

void speak(const Flags& flags, ChatRanks& ranks, const Setup& setup, int num_ranks) {
  Speaker speaker(flags, ranks, setup);
  try {
    speaker.run();
  } catch (const Error& error) {  // what was typed cannot be: the others end in order
    if (error.code() == Code::bad_input) ranks.end();
    throw;
  }
  ranks.end();
  if (flags.json) speaker.print_json(num_ranks);
}

int run(Flags flags) {
  if (!launched()) check_num_ranks(flags.ranks.count);
  fill_threads(&flags.ranks);
  check_rank_flags(flags.ranks);
  if (flags.options.max_tokens < 1) bad_input("--max-tokens is {}; use 1 or more", flags.options.max_tokens);
  const std::shared_ptr<const Setup> setup = setup_of(flags, num_ranks(flags.ranks.count));
  return on_ranks(flags.ranks, [&](World& world) {
    const Model model(setup->source, world.rank(), world.size(), flags.weights);
    Engine engine(world, model, setup->engine);
    engine.set_modes(setup->modes);
    ChatRanks ranks(world, engine, *setup->tokenizer, setup->options);
    world.rank() == 0 ? speak(flags, ranks, *setup, world.size()) : ranks.follow();
    return 0;
  });
}

void add_flags(CLI::App& command, Flags* flags) {
  command.add_option("--model", flags->model, "a folder or a GGUF file with a chat template")
      ->type_name("DIR")
      ->required();
  command.add_option("--system", flags->system, "a message that comes before all others")->type_name("TEXT");
  add_number(command, "--max-tokens", &flags->options.max_tokens, "tokens of an answer at most")->capture_default_str();
  add_number(command, "--context", &flags->context, "tokens of the conversation at most (4096, or the model's length)",
             2)
      ->type_name("TOKENS");
  add_sampling_flags(command, &flags->options.sampler);
  command.add_option("--spd", flags->spd, "an spd file: the mode of every block, and repaired weights")
      ->type_name("FILE");
  add_ranks_flag(command, &flags->ranks,
                 "ranks, threads of this process; under mpirun or weft run the ranks are theirs (1)");
  add_threads_flag(command, &flags->ranks, "threads of each rank (the cores there are, shared)");
  add_link_flag(command, &flags->ranks);
  add_weights_flag(command, &flags->weights);
  command.add_flag("--json", flags->json, "the whole conversation as one JSON object, when the input ends");
}

}  // namespace
}  // namespace chat

void add_chat(CLI::App& app, Run* chosen) {
  auto* command = app.add_subcommand("chat", "a conversation with a model, in a terminal or through a pipe");
  auto flags = std::make_shared<chat::Flags>();
  chat::add_flags(*command, flags.get());
  command->footer(
      "Every line is a message; /new begins anew, /exit or Ctrl-D ends. On several hosts, as weft generate: rank 0 "
      "reads.\n"
      "Example:\n  weft chat --model Qwen2.5-0.5B-Instruct --system \"Be brief.\"\n"
      "  echo \"What is a kernel?\" | weft chat --model Qwen2.5-0.5B-Instruct --ranks 2");
  command->callback([=] {
    flags->samples = sampling_given(*command);
    *chosen = [flags] { return chat::run(*flags); };
  });
}

}  // namespace weft::cli
