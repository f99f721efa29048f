// Text from prompts: prefill in chunks, then a token of every prompt a pass. Every rank runs the same code on the same
// logits and so makes the same tokens; only one of them need tell anybody.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "weft/llm/engine/engine.h"
#include "weft/llm/engine/sampler.h"

namespace weft {

class Tokenizer;

enum class Ending {
  length,
  eos,
  stop
};  // why a text ended: tokens asked for or the model's longest, its own end, a stop
std::string_view to_string(Ending ending);

struct GenerateOptions {
  int max_tokens = 128;
  SamplerOptions sampler;
  std::vector<std::string> stops;  // a text ends before the first of these, wherever tokens begin and end
  std::vector<int> eos;            // tokens that end a text; they are no part of it
  bool prompt_logits = false;      // keep the logits of every prompt position
  bool goes_on = false;            // texts go on with their prompts': a space between the two stays
  // Of each prompt, how many of its first tokens its sequence has already; fewer than all. Empty: sequences are
  // cleared.
  std::vector<std::int64_t> kept;
  // Text as it becomes final, by prompt; never half a character, nor what may turn out to be a stop.
  std::function<void(int prompt, std::string_view text)> on_text;
  std::function<void(int prompt, Ending ending)> on_end;  // after its last text
  std::function<void()> between;  // behind every pass but the prompts'; its time counts for nothing
};

struct GeneratedText {
  std::vector<int> tokens;
  std::string text;  // empty without a tokenizer
  Ending ending = Ending::length;
};

struct GenerateResult {
  std::vector<GeneratedText> texts;  // of every prompt
  std::vector<float> prompt_logits;  // (positions of all prompts, vocab), where asked for
  double first_token_s = 0;          // until every prompt has its first token
  double decode_s = 0;               // all passes behind it, but for options.between
  std::int64_t decode_passes = 0;
  std::int64_t prefill_passes = 0;
  double seconds_per_token() const { return decode_passes > 0 ? decode_s / decode_passes : 0; }
};

// Prompt i goes into the engine's sequence i, of which only what options.kept says stays. `tokenizer` may be null:
// tokens only, no stops. Throws bad_input where a prompt is empty, or the engine has too few sequences or too little
// room.
GenerateResult generate(Engine& engine, const Tokenizer* tokenizer, std::span<const std::vector<int>> prompts,
                        const GenerateOptions& options);

// Text with stops taken out of a stream: gives out what cannot be part of one any more.
class StopFilter {
 public:
  explicit StopFilter(std::vector<std::string> stops) : stops_(std::move(stops)) {}
  std::string add(std::string_view text);  // nothing more once stopped()
  std::string finish();                    // what was held back
  bool stopped() const { return stopped_; }

 private:
  std::vector<std::string> stops_;
  std::string held_;
  bool stopped_ = false;
};

}  // namespace weft
