#include "cli/write_file.h"

#include <fstream>

#include "weft/base/error.h"

namespace weft::cli {

void write_file(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  file << text;
  if (!file.flush()) bad_input("{} cannot be written; name a file in a folder that is there and yours", path);
}

}  // namespace weft::cli
