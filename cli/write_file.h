// What a flag such as --svg FILE asks for.
#pragma once

#include <string>

namespace weft::cli {

// Throws bad_input where the file cannot be written: where to write is the caller's choice.
void write_file(const std::string& path, const std::string& text);

}  // namespace weft::cli
