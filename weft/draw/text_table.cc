#include "weft/draw/text_table.h"

#include <algorithm>

#include "weft/base/index.h"

namespace weft::draw {
namespace {

std::size_t width_of(const std::string& text) {
  return num(std::count_if(text.begin(), text.end(), [](unsigned char c) { return (c & 0xc0u) != 0x80u; }));
}

}  // namespace

std::string aligned(const std::vector<std::vector<std::string>>& rows, Last last, int indent) {
  std::vector<std::size_t> widths;
  for (const auto& row : rows)
    for (std::size_t c = 0; c < row.size(); ++c) {
      if (widths.size() <= c) widths.push_back(0);
      widths[c] = std::max(widths[c], width_of(row[c]));
    }
  std::string out;
  for (const auto& row : rows) {
    std::string line(num(indent), ' ');
    for (std::size_t c = 0; c < row.size(); ++c) {
      const std::string blanks(widths[c] - width_of(row[c]), ' ');
      const bool left = c == 0 || (last == Last::note && c + 1 == widths.size());
      line += (c > 0 ? "  " : "") + (left ? row[c] + blanks : blanks + row[c]);
    }
    while (!line.empty() && line.back() == ' ') line.pop_back();
    out += line + "\n";
  }
  return out;
}

std::string wrapped(const std::string& text, int columns) {
  std::string out;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    std::string line = text.substr(begin, end - begin);
    const std::string indent(std::min(line.find_first_not_of(' '), line.size()), ' ');
    while (width_of(line) > num(columns)) {
      std::size_t blank = line.find(' ', indent.size());  // the last that fits, or the first
      for (std::size_t next = blank; next != std::string::npos && width_of(line.substr(0, next)) <= num(columns);
           next = line.find(' ', next + 1))
        blank = next;
      if (blank == std::string::npos) break;
      out += line.substr(0, blank) + "\n";
      line = indent + line.substr(blank + 1);
    }
    out += line;
    if (end < text.size()) out += '\n';
    begin = end + 1;
  }
  return out;
}

}  // namespace weft::draw
