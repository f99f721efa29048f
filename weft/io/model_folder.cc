#include "weft/io/model_folder.h"

#include <algorithm>
#include <cctype>
#include <filesystem>

#include "weft/base/error.h"

namespace weft {

void check_model_folder(const std::string& folder) {
  const std::size_t slash = folder.find('/');
  const bool is_name = slash != std::string::npos && slash > 0 && slash + 1 < folder.size() &&
                       folder.find('/', slash + 1) == std::string::npos && folder[0] != '.' && folder[0] != '~' &&
                       std::all_of(folder.begin(), folder.end(), [](unsigned char c) {
                         return std::isalnum(c) != 0 || c == '-' || c == '_' || c == '.' || c == '/';
                       });
  std::error_code error;
  if (!is_name || std::filesystem::exists(folder, error)) return;
  const std::string name = folder.substr(slash + 1);
  bad_input(
      "there is no folder \"{}\"; if it is a model on Hugging Face, fetch it first: hf download {} --local-dir {}, and "
      "give --model {}",
      folder, folder, name, name);
}

}  // namespace weft
