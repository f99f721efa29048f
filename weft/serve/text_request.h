// What a client asks for, read from the body of an HTTP request: the fields of OpenAI's completions and chat
// completions that this server does. A field that it does not do is refused in a sentence, unless it asks for nothing.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "weft/base/json.h"
#include "weft/io/text/chat_template.h"
#include "weft/llm/engine/sampler.h"
#include "weft/llm/model/config.h"

namespace weft {

class Tokenizer;

struct TextRequest {
  std::vector<int> prompt;
  int max_tokens = 0;
  SamplerOptions sampler;
  std::vector<std::string> stops;
  bool is_chat = false;
  bool streams = false;      // text as it is made, as events
  bool tells_usage = false;  // a stream's last event counts the tokens
};

struct RequestDefaults {
  int max_tokens = 512;
  SamplerOptions sampler;
  bool seed_given = false;    // else each request that samples has a seed of its own
  std::int64_t capacity = 0;  // tokens of prompt and answer together, but for the answer's last
};

// Reads bodies, from any number of threads at once.
class RequestReader {
 public:
  // All outlive it. `chat`: null where the model has no template.
  RequestReader(const ModelConfig& config, const Tokenizer& tokenizer, const ChatTemplate* chat,
                const RequestDefaults& defaults);

  // Throw bad_input.
  static Json parse(std::string_view body);  // an object, without the fields that are null
  TextRequest completion(const Json& body) const;
  TextRequest chat(const Json& body) const;

 private:
  TextRequest settings(const Json& body) const;
  std::vector<int> prompt_of(const Json& body) const;
  std::vector<int> checked(std::vector<int> tokens) const;

  const ModelConfig& config_;
  const Tokenizer& tokenizer_;
  const ChatTemplate* chat_;
  RequestDefaults defaults_;
};

}  // namespace weft
