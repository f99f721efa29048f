// Words as exec and posix_spawn take them.
#pragma once

#include <string>
#include <vector>

namespace weft {

// Pointers into `words`, with the null that ends them: good while the words are.
inline std::vector<char*> argv_of(std::vector<std::string>& words) {
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  return pointers;
}

}  // namespace weft
