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
#include "weft/llm/chat/chat_session.h"

#include "cli/chat_flags.h"
#include "cli/command.h"
#include "cli/ranks.h"
#include "cli/sampling_flags.h"

namespace weft::cli {
namespace chat {
namespace {

struct Flags {
  ChatFlags chat;
  std::string system;
  bool json = false;
};

constexpr std::chrono::milliseconds kIdle{500};  // how often the others hear that nobody has typed anything

// The terminal or the pipe of the rank that reads and prints.
class Speaker {
 public:
  Speaker(const Flags& flags, ChatRanks& ranks, const ChatSetup& setup)
      : flags_(flags),
        ranks_(ranks),
        session_(ranks, Conversation(*setup.chat, *setup.tokenizer, flags.system), [this](std::string_view text) {
          if (flags_.json) return;
          fmt::print("{}", text);
          std::fflush(stdout);
        }) {}

  void run() {
    if (person_) fmt::print("{}: /new begins anew, /exit or Ctrl-D ends\n", flags_.chat.model);
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

void speak(const Flags& flags, ChatRanks& ranks, const ChatSetup& setup, int num_ranks) {
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
  const std::shared_ptr<const ChatSetup> setup = chat_setup(&flags.chat);
  if (!setup->chat)
    bad_input(
        "{} has no chat template (chat_template.jinja, \"chat_template\" in tokenizer_config.json, or a GGUF file's "
        "own); it was not made for conversations: use `weft generate`",
        flags.chat.model);
  return on_ranks(flags.chat.ranks, [&](World& world) {
    const Model model(setup->source, world.rank(), world.size(), flags.chat.weights);
    Engine engine(world, model, {.capacity = setup->capacity});
    engine.set_modes(setup->modes);
    ChatRanks ranks(world, engine, *setup->tokenizer, setup->generate);
    world.rank() == 0 ? speak(flags, ranks, *setup, world.size()) : ranks.follow();
    return 0;
  });
}

void add_flags(CLI::App& command, Flags* flags) {
  add_chat_flags(command, &flags->chat);
  command.add_option("--system", flags->system, "a message that comes before all others")->type_name("TEXT");
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
    flags->chat.sampler_given = sampling_given(*command);
    *chosen = [flags] { return chat::run(*flags); };
  });
}

}  // namespace weft::cli
