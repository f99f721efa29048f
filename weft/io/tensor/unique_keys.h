// JSON parsers keep one of two fields of the same name, and which one differs between programs: what a checker
// saw need not be what a reader uses. Where that matters the text is looked through once more.
#pragma once

#include <string_view>

namespace weft {

// `text` is JSON that parse_json has accepted. Throws bad_input naming the first field that an object has twice.
void check_unique_keys(std::string_view text, std::string_view where);

}  // namespace weft
