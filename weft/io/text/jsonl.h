// JSON Lines: one object per line, as in task files. Lines are read one by one, so a file may have any length.
#pragma once

#include <cstddef>
#include <functional>
#include <string>

#include "weft/base/json.h"

namespace weft {

struct JsonlLimits {
  JsonLimits line{.bytes = std::size_t{4} << 20, .depth = 16};
  int lines = 10'000'000;
};

// Calls `use` for every line that is not empty, in order. `where` is "FILE line N", for the accessors of
// base/json.h. Throws bad_input, beginning with it, on a line that is no JSON object.
void for_each_line(const std::string& path,
                   const std::function<void(const Json& object, const std::string& where)>& use,
                   const JsonlLimits& limits = {});

}  // namespace weft
