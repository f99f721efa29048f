// Small aligned tables for the terminal, and prose that fits it.
#pragma once

#include <string>
#include <vector>

namespace weft::draw {

// Rows of cells under each other, two blanks between columns; numbers are flush right. The first column is words, and
// so is the last with Last::note. Widths count characters, not bytes.
enum class Last { number, note };
std::string aligned(const std::vector<std::vector<std::string>>& rows, Last last = Last::note, int indent = 2);

// The text with its lines broken at blanks where they have more than `columns` characters; what follows a break is
// indented as its line is. A word that is longer than a line stays whole.
std::string wrapped(const std::string& text, int columns = 120);

}  // namespace weft::draw
