// What is done to a text before it is cut into words: the "normalizer" of tokenizer.json as a list of steps. Each step
// is a pure function of the text, applied in turn. Malformed bytes pass as they are.
#pragma once

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "weft/base/json.h"
#include "weft/io/pattern/pattern.h"

namespace weft {

struct PrependStep {  // before a text that is not empty
  std::string text;
};
struct ReplaceStep {  // every stretch that is `from`, or that `pattern` matches where `from` is empty
  std::string from;
  Pattern pattern;
  std::string to;
};
enum class SimpleStep { nfc, nfd, lowercase, strip_accents };
struct StripStep {  // spaces at the ends
  bool left = true, right = true;
};
struct BertStep {
  bool clean = true;    // control characters go, every space is ' '
  bool chinese = true;  // a space on both sides of each Chinese character
  bool strip_accents = true, lowercase = true;
};

class Normalizer {
 public:
  using Step = std::variant<PrependStep, ReplaceStep, SimpleStep, StripStep, BertStep>;

  Normalizer() = default;  // changes nothing
  explicit Normalizer(std::vector<Step> steps) : steps_(std::move(steps)) {}

  // The field "normalizer" of a tokenizer.json; null or absent: none. Throws bad_input, naming `path` and the stage.
  static Normalizer read(const Json& tokenizer, const std::string& path);

  std::string apply(std::string_view text) const;
  bool is_empty() const { return steps_.empty(); }

 private:
  std::vector<Step> steps_;
};

// The stages of "normalizer", "pre_tokenizer", "decoder" or "post_processor": null, one, or a Sequence of them under
// the name `list`.
std::vector<const Json*> stages_of(const Json& json, const char* field, const char* list, const std::string& path);
bool stage_flag(const Json& object, const char* key, bool otherwise, const std::string& where);
[[noreturn]] void refuse_stage(const std::string& where, const std::string& type);

}  // namespace weft
