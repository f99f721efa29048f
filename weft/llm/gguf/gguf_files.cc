#include "weft/llm/gguf/gguf_files.h"

#include "weft/base/error.h"
#include "weft/base/index.h"
#include "weft/base/json.h"

namespace weft {
namespace {

constexpr std::int64_t kMostFiles = 99999;  // five digits in a name

std::string ending(std::int64_t number, std::int64_t count) {
  return fmt::format("-{:05}-of-{:05}.gguf", number, count);
}

}  // namespace

GgufFiles::GgufFiles(const std::string& path) {
  files_.push_back(GgufFile::open(path));
  const std::int64_t count = settings().get_int("split.count", 0, kMostFiles, 1);
  if (count > 1) {
    const std::string first = ending(1, count);
    if (settings().get_int("split.no", 0, kMostFiles, 0) != 0 || !path.ends_with(first))
      bad_input("{}: this is one of {} files; give the first, whose name ends with {}", path, count, first);
    const std::string stem = path.substr(0, path.size() - first.size());
    files_.reserve(num(count));  // tensors are pointed to
    for (std::int64_t i = 2; i <= count; ++i) files_.push_back(GgufFile::open(stem + ending(i, count)));
  }
  for (const GgufFile& file : files_)
    for (const StoredTensor& tensor : file.tensors())
      if (!tensors_.emplace(tensor.name, &tensor).second)
        bad_input("{}: tensor {} is in another of the {} files too; they do not belong together", file.path(),
                  weft::quoted(tensor.name), count);
}

const StoredTensor* GgufFiles::find(std::string_view name) const {
  if (const auto found = tensors_.find(name); found != tensors_.end()) return found->second;
  for (const GgufFile& file : files_)
    if (const StoredTensor* tensor = file.find(name)) return tensor;
  return nullptr;
}

}  // namespace weft
