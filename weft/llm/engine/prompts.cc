#include "weft/llm/engine/prompts.h"

#include <algorithm>
#include <charconv>

#include "weft/base/error.h"
#include "weft/base/index.h"
#include "weft/base/json.h"
#include "weft/io/text/jsonl.h"
#include "weft/io/text/tokenizer.h"

namespace weft {
namespace {

constexpr std::size_t kMostPromptBytes = std::size_t{64} << 20;

}  // namespace

void Prompts::add(std::vector<int> tokens, std::string text, std::string_view where) {
  if (tokens.empty()) bad_input("{}: the prompt has no token; give at least one", where);
  if (std::ssize(tokens) >= config_.max_positions)
    bad_input("{}: the prompt has {} tokens, and the model of {} knows {} positions; leave room for one more", where,
              tokens.size(), config_.file, config_.max_positions);
  if (tokens_.size() >= kMostPrompts) bad_input("more than {} prompts; give fewer at once", kMostPrompts);
  tokens_.push_back(std::move(tokens));
  texts_.push_back(std::move(text));
}

void Prompts::add_text(const std::string& text, std::string_view where) {
  if (tokenizer_ == nullptr) bad_input("{}: a model that is made up has no tokenizer; use --prompt-ids", where);
  std::vector<int> tokens = tokenizer_->encode_with_special(text);
  if (tokenizer_->adds_bos() && tokenizer_->bos()) tokens.insert(tokens.begin(), *tokenizer_->bos());
  add(std::move(tokens), text, where);
}

void Prompts::add_ids(std::string_view list, std::string_view where) {
  std::vector<int> tokens;
  std::string text(list);
  std::erase(text, ' ');
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const char* last = text.data() + end;
    int id = -1;
    const auto [stopped, error] = std::from_chars(text.data() + begin, last, id);
    if (error != std::errc{} || stopped != last || id < 0 || id >= config_.vocab)
      bad_input("{} has \"{}\"; use whole numbers from 0 to {}", where, text.substr(begin, end - begin),
                config_.vocab - 1);
    tokens.push_back(id);
    begin = end + 1;
  }
  add(std::move(tokens), "", where);
}

void Prompts::add_file(const std::string& path) { add_text(read_text_file(path, kMostPromptBytes), path); }

void Prompts::add_lines(const std::string& path) {
  for_each_line(
      path, [&](const Json& line, const std::string& where) { add_text(get_string(line, "prompt", where), where); });
}

std::int64_t Prompts::num_tokens() const {
  std::int64_t count = 0;
  for (const auto& prompt : tokens_) count += std::ssize(prompt);
  return count;
}

EngineOptions Prompts::engine_options(int max_tokens, std::int64_t rows) const {
  std::int64_t longest = 0;
  for (const auto& prompt : tokens_) longest = std::max(longest, std::ssize(prompt));
  EngineOptions options;
  options.sequences = int_size(tokens_);
  options.capacity = std::min(config_.max_positions, longest + max_tokens);
  options.rows = std::max<std::int64_t>(std::min(rows, num_tokens()), options.sequences);
  return options;
}

}  // namespace weft
