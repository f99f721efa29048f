#include "weft/llm/engine/token_relay.h"

#include <algorithm>

#include "weft/base/error.h"
#include "weft/base/index.h"
#include "weft/world/world.h"

namespace weft {
namespace {

constexpr std::int64_t kHead = 2, kRelayed = 254;  // floats of a row: which word, how many tokens; then tokens

}  // namespace

TokenRelay::TokenRelay(World& world) : tells_(world.rank() == 0), row_(num(kHead + kRelayed)) {
  if (world.size() > 1)
    op_ = std::make_unique<Op>(world.compile(copy({.rows = 1, .cols = kHead + kRelayed}),
                                             broadcast(world.mesh({{"tp", world.size()}}), "tp")));
}

TokenRelay::~TokenRelay() = default;

void TokenRelay::send(Word word, std::span<const int> tokens) {
  if (!tells_) fail(Code::internal, "a rank other than 0 tells tokens; it hears them");
  if (op_ == nullptr) return;
  row_[0] = static_cast<float>(word), row_[1] = static_cast<float>(tokens.size());
  std::copy(tokens.begin(), tokens.end(), row_.begin() + kHead);  // a token is below 2^24: exact
  op_->run(row_.data());
}

void TokenRelay::tell(std::span<const int> tokens) {
  for (; std::ssize(tokens) > kRelayed; tokens = tokens.subspan(kRelayed)) send(Word::part, tokens.first(kRelayed));
  send(Word::last, tokens);
}

void TokenRelay::idle() { send(Word::idle, {}); }
void TokenRelay::end() { send(Word::end, {}); }

std::optional<std::vector<int>> TokenRelay::hear() {
  std::vector<int> tokens;
  while (true) {
    op_->run(row_.data());
    const float* row = op_->output().data;
    const Word word = static_cast<Word>(static_cast<int>(row[0]));
    if (word == Word::end) return std::nullopt;
    for (std::int64_t i = 0; i < static_cast<std::int64_t>(row[1]); ++i)
      tokens.push_back(static_cast<int>(row[kHead + i]));
    if (word == Word::last) return tokens;
  }
}

}  // namespace weft
