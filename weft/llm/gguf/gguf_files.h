// The files of one GGUF model: one file, or NAME-00001-of-0000N.gguf and those that follow it, as llama.cpp splits
// large models. Settings are the first file's; tensors are found in any of them. Mapped, never read whole.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "weft/io/tensor/gguf.h"

namespace weft {

class GgufFiles {
 public:
  // `path` is the only file or the first. Throws bad_input where it is another, one is missing, or two have one tensor.
  explicit GgufFiles(const std::string& path);

  const GgufFile& settings() const { return files_.front(); }
  const std::string& path() const { return settings().path(); }
  const StoredTensor* find(std::string_view name) const;  // null where none has it; refuses one of another type
  bool has(std::string_view name) const { return tensors_.find(name) != tensors_.end(); }
  const std::map<std::string, const StoredTensor*, std::less<>>& tensors() const { return tensors_; }

 private:
  std::vector<GgufFile> files_;
  std::map<std::string, const StoredTensor*, std::less<>> tensors_;
};

}  // namespace weft
