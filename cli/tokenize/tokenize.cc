// `weft tokenize`: what a model reads of a text, token by token, and what tokens say. Beside `weft generate`, whose
// prompts become tokens in the same way.
#include <memory>

#include <CLI/CLI.hpp>
#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "weft/base/error.h"
#include "weft/base/json.h"
#include "weft/base/json_out.h"
#include "weft/base/os/piped_file.h"
#include "weft/io/text/tokenizer.h"
#include "weft/io/unicode/unicode.h"

#include "cli/command.h"

namespace weft::cli {
namespace tokenize {
namespace {

constexpr std::size_t kMostTextBytes = std::size_t{64} << 20;

struct Flags {
  std::string model, prompt, prompt_file;
  std::vector<int> ids;
  bool plain = false, no_bos = false, json = false;
};

std::vector<int> tokens_of(const Flags& flags, const Tokenizer& tokenizer) {
  if (!flags.ids.empty()) return flags.ids;
  const bool is_file = !flags.prompt_file.empty() || flags.prompt == "-";
  const std::string path = flags.prompt == "-" ? "-" : flags.prompt_file;
  const std::string text =
      is_file ? read_text_file(repeatable_path(path, {.variable = "WEFT_PROMPT_COPY"}), kMostTextBytes) : flags.prompt;
  std::vector<int> tokens = flags.plain ? tokenizer.encode(text) : tokenizer.encode_with_special(text);
  if (tokenizer.adds_bos() && tokenizer.bos() && !flags.no_bos) tokens.insert(tokens.begin(), *tokenizer.bos());
  return tokens;
}

// A piece may be half a character: then its bytes are shown.
std::string shown(const Tokenizer& tokenizer, int token) {
  const std::string& bytes = tokenizer.piece_bytes(token);
  const std::string text = tokenizer.token_text(token);
  if (text.find(kReplacement) == std::string::npos || bytes.find(kReplacement) != std::string::npos)
    return weft::quoted(text);
  std::string out;
  for (const char c : bytes) out += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
  return out;
}

int run(const Flags& flags) {
  const int given = !flags.prompt.empty() + !flags.prompt_file.empty() + !flags.ids.empty();
  if (given != 1)
    bad_input("give one of --prompt TEXT, --prompt-file FILE and --prompt-ids 1,15,7; {} are there", given);
  const auto tokenizer = Tokenizer::load(flags.model);
  const std::vector<int> tokens = tokens_of(flags, *tokenizer);
  const std::string text = tokenizer->decode(tokens);
  if (flags.json) {
    nlohmann::ordered_json out{{"ids", tokens}, {"pieces", nlohmann::ordered_json::array()}, {"text", text}};
    for (const int token : tokens) out["pieces"].push_back(tokenizer->token_text(token));
    out["tokens"] = tokens.size();
    out["vocab_size"] = tokenizer->vocab_size();
    fmt::print("{}", json_line(out));
    return 0;
  }
  for (const int token : tokens)
    fmt::print("{:>8}  {}{}\n", token, shown(*tokenizer, token), tokenizer->is_special(token) ? "  (special)" : "");
  fmt::print("{} token{}: {}\n", tokens.size(), tokens.size() == 1 ? "" : "s", weft::quoted(text));
  return 0;
}

void add_flags(CLI::App& command, Flags* flags) {
  command.add_option("--model", flags->model, "a folder with a tokenizer, or a GGUF file")
      ->type_name("DIR")
      ->required();
  command.add_option("--prompt", flags->prompt, "the text; - for standard input")->type_name("TEXT");
  command.add_option("--prompt-file", flags->prompt_file, "a file that is the text; - or <(command): what flows in")
      ->type_name("FILE");
  command.add_option("--prompt-ids", flags->ids, "tokens to turn into text, as 1,15,7")
      ->delimiter(',')
      ->type_name("IDS");
  command.add_flag("--plain", flags->plain, "\"<|endoftext|>\" and its like are ordinary text, as what a user types");
  command.add_flag("--no-bos", flags->no_bos, "without the token that begins a text");
  command.add_flag("--json", flags->json, "one JSON object on standard output");
}

}  // namespace
}  // namespace tokenize

void add_tokenize(CLI::App& app, Run* chosen) {
  auto* command = app.add_subcommand("tokenize", "a text as a model's tokens, and tokens as text");
  auto flags = std::make_shared<tokenize::Flags>();
  tokenize::add_flags(*command, flags.get());
  command->footer(
      "Example:\n  weft tokenize --model models/weft-16 --prompt \"The kernel is\"\n"
      "  weft tokenize --model models/weft-16 --prompt-ids 368,259,1546\n"
      "  man ls | weft tokenize --model models/weft-16 --prompt-file - --json");
  command->callback([=] { *chosen = [flags] { return tokenize::run(*flags); }; });
}

}  // namespace weft::cli
