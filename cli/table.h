// Small aligned tables for the terminal.
#pragma once

#include <string>
#include <vector>

namespace weft::cli {

// Rows of cells under each other, two blanks between columns; numbers are flush right. The first column is words, and
// so is the last with Last::note. Widths count characters, not bytes.
enum class Last { number, note };
std::string aligned(const std::vector<std::vector<std::string>>& rows, Last last = Last::note, int indent = 2);

}  // namespace weft::cli
