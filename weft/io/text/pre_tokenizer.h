// How a text is cut into words before a model makes tokens of them: the "pre_tokenizer" of tokenizer.json as a list of
// stages, each applied to every word that the stages before it left.
#pragma once

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "weft/base/json.h"
#include "weft/io/pattern/pattern.h"
#include "weft/io/pattern/split.h"

namespace weft {

// What becomes of the stretches that a pattern matches, among those between.
enum class SplitBehavior { isolated, removed, merged_with_previous, merged_with_next, contiguous };

struct SplitStage {
  std::variant<SplitRule, Pattern, std::string> by = SplitRule::none;  // a known pattern, another, or a plain text
  SplitBehavior behavior = SplitBehavior::isolated;
  bool invert = false;  // what matches is what lies between
};
struct ByteLevelStage {  // the last one: from here on the words' bytes are meant
  bool prefix_space = false, use_regex = true;
};
struct MetaspaceStage {  // spaces become ▁
  enum class Prepend { never, first, always } prepend = Prepend::always;
  bool split = true;  // words begin with their ▁
};
struct ClassStage {  // cut by what kind of character it is
  enum class Class { number, punctuation, space } of = Class::number;
  SplitBehavior behavior = SplitBehavior::isolated;
};

class PreTokenizer {
 public:
  using Stage = std::variant<SplitStage, ByteLevelStage, MetaspaceStage, ClassStage>;

  PreTokenizer() = default;  // the text is one word
  explicit PreTokenizer(std::vector<Stage> stages) : stages_(std::move(stages)) {}

  // The field "pre_tokenizer". Throws bad_input, naming `path` and the stage.
  static PreTokenizer read(const Json& tokenizer, const std::string& path);

  // The words of a text; none is empty. `first`: the text begins what is encoded.
  std::vector<std::string> words(std::string text, bool first) const;

  bool is_byte_level() const;
  bool prepends() const;  // whether a Metaspace stage puts a ▁ before texts

 private:
  std::vector<Stage> stages_;
};

}  // namespace weft
