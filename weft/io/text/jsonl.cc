#include "weft/io/text/jsonl.h"

#include <string_view>

#include <nlohmann/json.hpp>

#include "weft/base/error.h"
#include "weft/io/mapped_file.h"

namespace weft {

void for_each_line(const std::string& path,
                   const std::function<void(const Json& object, const std::string& where)>& use,
                   const JsonlLimits& limits) {
  const MappedFile file = MappedFile::open(path);
  std::string_view rest(reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size());
  for (int number = 1; !rest.empty(); ++number) {
    if (number > limits.lines) bad_input("{}: more than {} lines; split the file", path, limits.lines);
    const std::size_t newline = rest.find('\n');
    const std::string_view line = rest.substr(0, newline);
    rest.remove_prefix(newline == std::string_view::npos ? rest.size() : newline + 1);
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    const std::string where = fmt::format("{} line {}", path, number);
    const Json object = parse_json(line, where, limits.line);
    if (!object.is_object()) bad_input("{}: no JSON object; give one {{...}} a line", where);
    use(object, where);
  }
}

}  // namespace weft
