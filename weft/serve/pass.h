// One pass of the engine as data: what enters which sequence, and who asks for its next token. The rank that has the
// clients composes it (batch.h) and tells it to the others as numbers; all run it alike.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace weft {

class Engine;

// Before anything enters it, a sequence has the first `kept` tokens of another, or of itself.
struct PassBegin {
  int sequence = 0;
  int from = 0;
  std::int64_t kept = 0;

  bool operator==(const PassBegin&) const = default;
};

struct PassPart {
  int sequence = 0;
  std::vector<int> tokens;
  bool asks = false;  // for the token behind the last of `tokens`

  bool operator==(const PassPart&) const = default;
};

struct Pass {
  std::vector<PassBegin> begins;  // in this order
  std::vector<PassPart> parts;
  bool greedy = true;  // the largest logit's token is enough for all that ask

  std::vector<int> words() const;
  static Pass of_words(std::span<const int> words);  // what words() gave
  bool operator==(const Pass&) const = default;
};

// Of those that ask, in order: their tokens where the pass is greedy, else their rows of logits.
struct PassResult {
  std::vector<int> tokens;
  std::vector<float> logits;  // (those that ask, vocab)
};

PassResult run(Engine& engine, const Pass& pass);  // collective

}  // namespace weft
