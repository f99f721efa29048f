// Unicode's canonical forms of a text: NFD, every character in its parts, marks in their order; NFC, the parts put
// together again. Both forms say the same; vocabularies are made from one of them.
#pragma once

#include <string>
#include <string_view>

namespace weft {

std::string decomposed(std::string_view text);  // NFD
std::string composed(std::string_view text);    // NFC

}  // namespace weft
