#include "weft/serve/batch.h"

#include <algorithm>
#include <span>
#include <utility>

#include "weft/base/error.h"
#include "weft/base/index.h"
#include "weft/io/text/tokenizer.h"
#include "weft/llm/engine/sampler.h"

namespace weft {

struct Batch::Text {
  Text(std::shared_ptr<Answer> of, const Tokenizer& tokenizer)
      : answer(std::move(of)),
        sampler(answer->request().sampler),
        stream(tokenizer, answer->request().is_chat ? std::span<const int>() : std::span(answer->request().prompt)),
        filter(answer->request().stops) {}

  std::shared_ptr<Answer> answer;
  Sampler sampler;
  TextStream stream;
  StopFilter filter;
  Usage usage;
};

Batch::Batch(const Tokenizer& tokenizer, BatchOptions options, ServeCounts& counts)
    : tokenizer_(tokenizer), options_(std::move(options)), counts_(counts), slots_(num(options_.sequences)) {
  if (options_.sequences < 1 || options_.rows < options_.sequences)
    bad_input("{} texts at once need as many rows in a pass, which has {}; use 1 to {}", options_.sequences,
              options_.rows, options_.rows);
}

Batch::~Batch() = default;

bool Batch::has_room() const {
  return std::any_of(slots_.begin(), slots_.end(), [](const Slot& slot) { return slot.text == nullptr; });
}

bool Batch::is_idle() const {
  return std::all_of(slots_.begin(), slots_.end(), [](const Slot& slot) { return slot.text == nullptr; });
}

// One token, the last that was made, is to enter.
bool Batch::grows(const Slot& slot) const { return slot.text && slot.text->usage.completion_tokens > 0; }

// At least one token of a prompt goes through the model: its row has the logits of the answer's first.
std::int64_t Batch::common(const Slot& slot, const std::vector<int>& prompt) const {
  const auto most = std::min(slot.fed, std::ssize(prompt) - 1);
  return std::mismatch(prompt.begin(), prompt.begin() + most, slot.tokens.begin()).first - prompt.begin();
}

// The longest beginning stays in its own sequence, or is copied to the free one that was taken longest ago: as less is
// lost. A prompt that continues a whole sequence so takes it; what several share is copied while there is room.
int Batch::sequence_for(const std::vector<int>& prompt, PassBegin* begin) const {
  int oldest = -1;
  for (int i = 0; i < options_.sequences; ++i) {
    const Slot& slot = slots_[at(i)];
    if (const std::int64_t kept = common(slot, prompt); kept > begin->kept) begin->from = i, begin->kept = kept;
    if (slot.text == nullptr && (oldest < 0 || slot.turn < slots_[at(oldest)].turn)) oldest = i;
  }
  if (begin->kept == 0) begin->from = oldest;
  const Slot& from = slots_[at(begin->from)];
  const bool stays = from.text == nullptr && from.fed - begin->kept <= slots_[at(oldest)].fed;
  return begin->sequence = stays ? begin->from : oldest;
}

void Batch::admit(std::shared_ptr<Answer> answer) {
  if (!has_room()) fail(Code::internal, "a text is admitted, but no sequence is free");
  const std::vector<int>& prompt = answer->request().prompt;
  PassBegin begin;
  Slot& slot = slots_[at(sequence_for(prompt, &begin))];
  begins_.push_back(begin);
  slot.tokens = prompt, slot.fed = begin.kept, slot.turn = ++turns_;
  slot.text = std::make_unique<Text>(std::move(answer), tokenizer_);
  slot.text->usage = {.prompt_tokens = std::ssize(prompt), .cached_tokens = begin.kept};
  ++counts_.running;
  counts_.prompt_tokens += std::ssize(prompt), counts_.cached_tokens += begin.kept;
}

Pass Batch::compose() {
  for (Slot& slot : slots_)
    if (slot.text && slot.text->answer->given_up()) ++counts_.given_up, release(slot);
  Pass pass;
  pass.begins = std::exchange(begins_, {});
  asked_.clear();
  std::vector<int> prompts;
  for (int i = 0; i < options_.sequences; ++i)
    if (grows(slots_[at(i)]))
      add_part(i, 1, &pass);
    else if (slots_[at(i)].text)
      prompts.push_back(i);
  std::int64_t left = options_.rows - std::ssize(pass.parts);
  if (!pass.parts.empty()) left = std::min(left, options_.rows_beside);
  std::sort(prompts.begin(), prompts.end(), [&](int a, int b) { return slots_[at(a)].turn < slots_[at(b)].turn; });
  for (const int i : prompts) {
    const std::int64_t count = std::min(left, std::ssize(slots_[at(i)].tokens) - slots_[at(i)].fed);
    if (count == 0) break;
    add_part(i, count, &pass);
    left -= count;
  }
  if (!pass.parts.empty()) ++counts_.passes;
  return pass;
}

void Batch::add_part(int sequence, std::int64_t count, Pass* pass) {
  Slot& slot = slots_[at(sequence)];
  const auto first = slot.tokens.begin() + slot.fed;
  slot.fed += count;
  counts_.rows += count;
  const bool asks = slot.fed == std::ssize(slot.tokens);
  pass->parts.push_back({sequence, {first, first + count}, asks});
  if (!asks) return;
  asked_.push_back(sequence);
  pass->greedy = pass->greedy && slot.text->sampler.is_greedy();
}

void Batch::take(const PassResult& result) {
  for (std::size_t i = 0; i < asked_.size(); ++i) {
    Slot& slot = slots_[at(asked_[i])];
    if (!result.tokens.empty()) {
      add_token(slot, result.tokens[i]);
      continue;
    }
    const std::size_t vocab = result.logits.size() / asked_.size();
    add_token(slot, slot.text->sampler.pick({result.logits.data() + i * vocab, vocab}, 0,
                                            slot.text->usage.completion_tokens));
  }
}

void Batch::add_token(Slot& slot, int token) {
  if (std::find(options_.eos.begin(), options_.eos.end(), token) != options_.eos.end()) return end(slot, Ending::eos);
  Text& text = *slot.text;
  slot.tokens.push_back(token);
  ++text.usage.completion_tokens, ++counts_.completion_tokens;
  text.answer->add(text.filter.add(text.stream.add(token)));
  if (text.filter.stopped()) return end(slot, Ending::stop);
  const bool full = slot.fed >= options_.capacity;
  if (full || text.usage.completion_tokens >= text.answer->request().max_tokens) end(slot, Ending::length);
}

void Batch::end(Slot& slot, Ending ending) {
  Text& text = *slot.text;
  if (!text.filter.stopped()) {
    text.answer->add(text.filter.add(text.stream.finish()));
    text.answer->add(text.filter.finish());
  }
  text.answer->end(ending, text.usage);
  ++counts_.ended;
  release(slot);
}

// What has not entered the sequence never will.
void Batch::release(Slot& slot) {
  slot.tokens.resize(num(slot.fed));
  slot.text.reset();
  --counts_.running;
}

void Batch::fail_all(const std::string& sentence) {
  for (Slot& slot : slots_)
    if (slot.text) slot.text->answer->fail(sentence), release(slot);
}

}  // namespace weft
