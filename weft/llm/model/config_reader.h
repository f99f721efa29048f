// Reads the keys of a config.json and remembers which: at the end whatever was not read must be a key that is known to
// change no logits (names of tokens, dropout, how text is sampled, what other programs noted), or the file is refused.
// A null counts as left out: transformers writes it for "none".
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "weft/base/choices.h"
#include "weft/base/json.h"

namespace weft {

inline constexpr std::int64_t kMostTokens = std::int64_t{1} << 24;  // exact as f32: what ranks exchange of a token
inline constexpr std::int64_t kMostColumns = std::int64_t{1} << 20;
inline constexpr std::int64_t kMostLayers = 4096;

class ConfigReader {
 public:
  ConfigReader(const Json& json, std::string where) : json_(json), where_(std::move(where)) {}

  const Json* find(std::string_view key);  // null where it is left out
  bool has(std::string_view key) { return find(key) != nullptr; }

  std::int64_t integer(std::string_view key, std::int64_t min, std::int64_t max);
  std::int64_t integer_or(std::string_view key, std::int64_t otherwise, std::int64_t min, std::int64_t max);
  double number(std::string_view key, double min, double max);
  double number_or(std::string_view key, double otherwise, double min, double max);
  bool flag_or(std::string_view key, bool otherwise);
  std::string text(std::string_view key);
  std::string text_or(std::string_view key, std::string_view otherwise);
  std::vector<double> numbers(std::string_view key, double min, double max);
  std::vector<std::int64_t> integers(std::string_view key, std::int64_t min, std::int64_t max);
  std::vector<std::string> texts(std::string_view key);
  Activation activation(std::string_view key, std::string_view otherwise);

  // The key is there with another value than what Weft computes with: bad_input. `why` says what it would mean.
  void must_be(std::string_view key, bool value, std::string_view why);
  void must_be_absent(std::string_view key, std::string_view why);
  void ignore(std::string_view key) { read_.insert(std::string(key)); }  // it changes nothing in this family

  // Throws bad_input for a key that was not read and is not known to change nothing.
  void refuse_rest() const;

  const Json& json() const { return json_; }
  const std::string& where() const { return where_; }

 private:
  const Json& json_;
  std::string where_;
  std::set<std::string, std::less<>> read_;
};

}  // namespace weft
