// The words of a manifest: expressions over parameters and one loop, alone ("layers / 4") or inside a text ("stage{i /
// 20}"). Every refusal begins with the place in the file.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "weft/base/json.h"
#include "weft/mesh/mesh.h"

namespace weft {

using Params = std::map<std::string, std::int64_t>;

class ManifestWords {
 public:
  explicit ManifestWords(Params params) : params_(std::move(params)) {}

  // The value with one more name; an earlier one of that name is hidden.
  ManifestWords with(const std::string& name, std::int64_t value) const;

  std::int64_t eval(std::string_view expression, std::string_view where) const;
  std::string fill(std::string_view text, std::string_view where) const;  // "{...}" becomes its value

  // A field that is a whole number or an expression in a string, within its range.
  std::int64_t number(const Json& object, std::string_view key, std::string_view where, std::int64_t min,
                      std::int64_t max) const;
  std::int64_t number_or(std::int64_t value, const Json& object, std::string_view key, std::string_view where,
                         std::int64_t min, std::int64_t max) const;  // where the field may be left out
  std::vector<std::int64_t> numbers(const Json& object, std::string_view key, std::string_view where,
                                    std::int64_t min) const;
  std::string text(const Json& object, std::string_view key, std::string_view where) const;  // filled
  std::string text_or(std::string value, const Json& object, std::string_view key, std::string_view where) const;

  // "i in 0..layers-1" in the field "for": these words with i set to each value, in turn; these words alone where there
  // is no such field.
  std::vector<ManifestWords> loop(const Json& object, std::string_view where) const;

  const Params& params() const { return params_; }

 private:
  std::int64_t checked(const Json& value, std::string_view key, std::string_view where, std::int64_t min,
                       std::int64_t max) const;

  Params params_;
};

// "2x4": axes "host" and "device"; "8": one axis "device"; "dp=2,tp=4": named. bad_input where it is neither.
std::vector<Axis> parse_axes(std::string_view text);

}  // namespace weft
