#include "weft/cluster/data_file.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include <fmt/ranges.h>

#include "weft/base/error.h"

namespace weft {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> data_folders(std::string_view folder) {
  if (const char* set = std::getenv("WEFT_DATA"); set && *set) return {fs::path(set) / folder};
  std::vector<fs::path> folders;
#ifdef WEFT_DATA_DIR
  folders.push_back(fs::path(WEFT_DATA_DIR) / folder);
#endif
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  if (!error) {
    folders.push_back(program.parent_path().parent_path() / folder);
    folders.push_back(program.parent_path().parent_path() / "share/weft" / folder);
  }
  return folders;
}

bool is_path(const std::string& text) {
  return text.find('/') != std::string::npos || fs::path(text).extension() == ".json";
}

}  // namespace

std::string find_data_file(std::string_view folder, std::string_view what, const std::string& name_or_path) {
  if (is_path(name_or_path)) return name_or_path;
  std::error_code error;
  for (const fs::path& one : data_folders(folder)) {
    const fs::path file = one / (name_or_path + ".json");
    if (fs::is_regular_file(file, error)) return file.string();
  }
  bad_input("unknown {} \"{}\"; use one of {}, or the path of a file", what, name_or_path,
            fmt::join(data_file_names(folder), ", "));
}

std::string find_beside_data(std::string_view path) {
  std::error_code error;
  for (const fs::path& one : data_folders(path))
    if (fs::exists(one, error)) return one.string();
  return {};
}

std::vector<std::string> data_file_names(std::string_view folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (const fs::path& one : data_folders(folder)) {
    if (!fs::is_directory(one, error)) continue;
    for (const auto& entry : fs::directory_iterator(one, error))
      if (entry.path().extension() == ".json") names.push_back(entry.path().stem().string());
    break;
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace weft
