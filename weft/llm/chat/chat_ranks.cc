#include "weft/llm/chat/chat_ranks.h"

#include <algorithm>

#include "weft/base/error.h"
#include "weft/base/index.h"

namespace weft {

ChatRanks::ChatRanks(World& world, Engine& engine, const Tokenizer& tokenizer, GenerateOptions options)
    : engine_(engine), tokenizer_(tokenizer), options_(std::move(options)), relay_(world) {}

GeneratedText ChatRanks::answer(const std::vector<int>& tokens, const std::function<void(std::string_view)>& on_text) {
  const std::int64_t room = engine_.options().capacity;
  if (std::ssize(tokens) >= room)
    bad_input(
        "the conversation has {} tokens and there is room for {}; begin anew with /new, or give a larger --context",
        tokens.size(), room);
  relay_.tell(tokens);
  GenerateOptions options = options_;
  if (on_text) options.on_text = [&](int, std::string_view text) { on_text(text); };
  return turn(tokens, std::move(options));
}

void ChatRanks::follow() {
  while (const auto tokens = relay_.hear()) turn(*tokens, options_);
}

// Every rank finds the same prefix, for all have made the same tokens. At least one token goes through the model: its
// row has the logits of the answer's first.
GeneratedText ChatRanks::turn(const std::vector<int>& tokens, GenerateOptions options) {
  const auto most = std::min(cached_.size(), tokens.size() - 1);
  const auto common =
      std::mismatch(cached_.begin(), cached_.begin() + static_cast<std::ptrdiff_t>(most), tokens.begin());
  const std::int64_t kept = common.first - cached_.begin();
  options.sampler.seed += num(turns_++);
  options.kept = {kept};
  tokens_kept_ += kept;
  cached_.clear();  // should the engine throw, nobody knows what it has
  GenerateResult result = generate(engine_, &tokenizer_, {&tokens, 1}, options);
  cached_ = tokens;
  cached_.insert(cached_.end(), result.texts[0].tokens.begin(), result.texts[0].tokens.end());
  cached_.resize(std::min(cached_.size(), num(engine_.length(0))));  // the last token made was fed to nobody
  return std::move(result.texts[0]);
}

}  // namespace weft
