#include "weft/serve/pass.h"

#include "weft/base/index.h"
#include "weft/llm/engine/engine.h"

namespace weft {
namespace {

// Words in the order in which they were written: both ends are of one program.
class Words {
 public:
  explicit Words(std::span<const int> words) : words_(words) {}
  int next() { return words_[at_++]; }
  std::span<const int> next(int count) {
    const auto out = words_.subspan(at_, num(count));
    at_ += num(count);
    return out;
  }

 private:
  std::span<const int> words_;
  std::size_t at_ = 0;
};

}  // namespace

// greedy, begins, then each; parts, then each: every word is below 2^24, as a relay has it.
std::vector<int> Pass::words() const {
  std::vector<int> out{greedy, int_size(begins)};
  for (const PassBegin& begin : begins)
    out.insert(out.end(), {begin.sequence, begin.from, static_cast<int>(begin.kept)});
  out.push_back(int_size(parts));
  for (const PassPart& part : parts) {
    out.insert(out.end(), {part.sequence, part.asks, int_size(part.tokens)});
    out.insert(out.end(), part.tokens.begin(), part.tokens.end());
  }
  return out;
}

Pass Pass::of_words(std::span<const int> given) {
  Words words(given);
  Pass out;
  out.greedy = words.next() != 0;
  for (int left = words.next(); left > 0; --left) {
    PassBegin& begin = out.begins.emplace_back();
    begin.sequence = words.next(), begin.from = words.next(), begin.kept = words.next();
  }
  for (int left = words.next(); left > 0; --left) {
    PassPart& part = out.parts.emplace_back();
    part.sequence = words.next(), part.asks = words.next() != 0;
    const auto tokens = words.next(words.next());
    part.tokens.assign(tokens.begin(), tokens.end());
  }
  return out;
}

PassResult run(Engine& engine, const Pass& pass) {
  for (const PassBegin& begin : pass.begins) {
    if (begin.from == begin.sequence)
      engine.truncate(begin.sequence, begin.kept);
    else
      engine.copy_sequence(begin.from, begin.sequence, begin.kept);
  }
  std::vector<Feed> feeds;
  std::vector<int> asked;
  int row = -1;
  for (const PassPart& part : pass.parts) {
    feeds.push_back({part.sequence, part.tokens});
    row += int_size(part.tokens);
    if (part.asks) asked.push_back(row);
  }
  PassResult out;
  if (feeds.empty()) return out;
  engine.forward(feeds);
  if (asked.empty()) return out;
  if (pass.greedy)
    out.tokens = engine.greedy(asked);
  else
    out.logits = engine.logits(asked);
  return out;
}

}  // namespace weft
