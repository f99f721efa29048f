#include "weft/llm/engine/generate.h"

#include <algorithm>
#include <numeric>
#include <optional>

#include "weft/base/clock.h"
#include "weft/base/error.h"
#include "weft/base/index.h"
#include "weft/base/names.h"
#include "weft/io/text/tokenizer.h"

namespace weft {
namespace {

constexpr Names<Ending, 3> kEndings{{{Ending::length, "length"}, {Ending::eos, "eos"}, {Ending::stop, "stop"}}};

class Writer {
 public:
  Writer(Engine& engine, const Tokenizer* tokenizer, std::span<const std::vector<int>> prompts,
         const GenerateOptions& options)
      : engine_(engine), prompts_(prompts), options_(options), sampler_(options.sampler) {
    check(tokenizer);
    result_.texts.resize(prompts.size());
    for (int i = 0; i < int_size(prompts); ++i) {
      engine.truncate(i, kept(num(i)));
      if (tokenizer != nullptr)
        streams_.emplace_back(*tokenizer, options.goes_on ? std::span(prompts[num(i)]) : std::span<const int>());
      filters_.emplace_back(options.stops);
    }
    done_.assign(prompts.size(), false);
  }

  GenerateResult run() {
    const std::int64_t start = now_ns();
    prefill();
    result_.first_token_s = seconds_since(start);
    double between_s = 0;
    while (decode_pass()) {
      ++result_.decode_passes;
      if (!options_.between) continue;
      const std::int64_t begin = now_ns();
      options_.between();
      between_s += seconds_since(begin);
    }
    result_.decode_s = seconds_since(start) - result_.first_token_s - between_s;
    return std::move(result_);
  }

 private:
  void check(const Tokenizer* tokenizer) const {
    if (prompts_.empty()) bad_input("there is no prompt; give at least one");
    if (options_.max_tokens < 1) bad_input("{} tokens are asked for; use 1 or more", options_.max_tokens);
    for (std::size_t i = 0; i < prompts_.size(); ++i)
      if (prompts_[i].empty()) bad_input("prompt {} has no token; give at least one", i);
    if (!options_.kept.empty() && (options_.kept.size() != prompts_.size() || options_.prompt_logits))
      bad_input("{} prompts have {} kept prefixes; give one for each, and ask for no logits of what is not computed",
                prompts_.size(), options_.kept.size());
    for (std::size_t i = 0; i < options_.kept.size(); ++i)
      if (options_.kept[i] < 0 || options_.kept[i] >= std::ssize(prompts_[i]))
        bad_input("of prompt {}, which has {} tokens, {} are kept; keep fewer", i, prompts_[i].size(),
                  options_.kept[i]);
    if (tokenizer == nullptr && !options_.stops.empty())
      bad_input("a stop string needs a tokenizer, and there is none; leave it out");
  }

  std::int64_t kept(std::size_t prompt) const { return options_.kept.empty() ? 0 : options_.kept[prompt]; }

  // Chunks of as many rows as the engine takes, prompt after prompt; a prompt whose last row went through gets its
  // first token at once.
  void prefill() {
    std::size_t prompt = 0, at = num(kept(0));
    const auto most = num(engine_.options().rows);
    while (prompt < prompts_.size()) {
      std::vector<Feed> feeds;
      std::vector<int> ends, ended;
      for (std::size_t left = most; left > 0 && prompt < prompts_.size();) {
        const auto& tokens = prompts_[prompt];
        const std::size_t count = std::min(left, tokens.size() - at);
        feeds.push_back({static_cast<int>(prompt), std::span(tokens).subspan(at, count)});
        left -= count;
        at += count;
        if (at < tokens.size()) break;
        ends.push_back(static_cast<int>(most - left) - 1);
        ended.push_back(static_cast<int>(prompt++));
        at = prompt < prompts_.size() ? num(kept(prompt)) : 0;
      }
      engine_.forward(feeds);
      ++result_.prefill_passes;
      if (options_.prompt_logits) keep_logits();
      if (!ends.empty()) take(ends, ended);
    }
  }

  void keep_logits() {
    std::vector<int> rows(num(engine_.rows()));
    std::iota(rows.begin(), rows.end(), 0);
    const auto logits = engine_.logits(rows);
    result_.prompt_logits.insert(result_.prompt_logits.end(), logits.begin(), logits.end());
  }

  bool decode_pass() {
    std::vector<Feed> feeds;
    std::vector<int> rows, who;
    for (int i = 0; i < int_size(prompts_); ++i) {
      if (done_[at(i)]) continue;
      rows.push_back(int_size(feeds));
      who.push_back(i);
      feeds.push_back({i, std::span(result_.texts[at(i)].tokens).last(1)});
    }
    if (feeds.empty()) return false;
    engine_.forward(feeds);
    take(rows, who);
    return true;
  }

  // The next token of some prompts, from rows of the last pass.
  void take(std::span<const int> rows, std::span<const int> who) {
    std::vector<int> tokens;
    if (sampler_.is_greedy()) {
      tokens = engine_.greedy(rows);
    } else {
      const auto vocab = num(engine_.model().config().vocab);
      const auto logits = engine_.logits(rows);
      for (std::size_t i = 0; i < rows.size(); ++i)
        tokens.push_back(sampler_.pick({logits.data() + i * vocab, vocab}, who[i], step_of(who[i])));
    }
    for (std::size_t i = 0; i < rows.size(); ++i) add(who[i], tokens[i]);
  }

  std::int64_t step_of(int prompt) const { return std::ssize(result_.texts[at(prompt)].tokens); }

  void add(int prompt, int token) {
    const auto i = num(prompt);
    GeneratedText& out = result_.texts[i];
    if (std::find(options_.eos.begin(), options_.eos.end(), token) != options_.eos.end())
      return end(prompt, Ending::eos);
    out.tokens.push_back(token);
    if (!streams_.empty()) give(prompt, filters_[i].add(streams_[i].add(token)));
    if (filters_[i].stopped()) return end(prompt, Ending::stop);
    const bool full = engine_.length(prompt) >= engine_.options().capacity;
    if (full || int_size(out.tokens) >= options_.max_tokens) end(prompt, Ending::length);
  }

  void end(int prompt, Ending ending) {
    const auto i = num(prompt);
    done_[i] = true;
    result_.texts[i].ending = ending;
    if (!streams_.empty() && !filters_[i].stopped()) {
      give(prompt, filters_[i].add(streams_[i].finish()));
      give(prompt, filters_[i].finish());
    }
    if (options_.on_end) options_.on_end(prompt, ending);
  }

  void give(int prompt, const std::string& text) {
    if (text.empty()) return;
    result_.texts[at(prompt)].text += text;
    if (options_.on_text) options_.on_text(prompt, text);
  }

  Engine& engine_;
  std::span<const std::vector<int>> prompts_;
  const GenerateOptions& options_;
  Sampler sampler_;
  std::vector<TextStream> streams_;
  std::vector<StopFilter> filters_;
  std::vector<bool> done_;
  GenerateResult result_;
};

}  // namespace

std::string_view to_string(Ending ending) { return name_of(kEndings, ending); }

GenerateResult generate(Engine& engine, const Tokenizer* tokenizer, std::span<const std::vector<int>> prompts,
                        const GenerateOptions& options) {
  return Writer(engine, tokenizer, prompts, options).run();
}

}  // namespace weft
