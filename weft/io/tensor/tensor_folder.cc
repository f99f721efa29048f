// Folders of tensor files, and looking tensors up.
#include <algorithm>
#include <filesystem>
#include <utility>

#include <nlohmann/json.hpp>

#include "weft/base/error.h"
#include "weft/base/json.h"
#include "weft/io/tensor/safetensors.h"
#include "weft/io/tensor/tensor_lookup.h"
#include "weft/io/tensor/unique_keys.h"

namespace weft {
namespace {

constexpr const char* kWhole = "model.safetensors";
constexpr const char* kIndex = "model.safetensors.index.json";

// A plain name: what an index names lies in its folder. (A link there may point elsewhere, as in the hub's cache.)
void check_file_name(const std::string& file, const std::string& tensor, const std::string& index) {
  if (file.empty() || file == "." || file == ".." || file.find('/') != std::string::npos ||
      file.find('\0') != std::string::npos)
    bad_input("{}: \"weight_map\" puts tensor {} in {}, which is no plain file name; files lie beside their index",
              index, weft::quoted(tensor), weft::quoted(file));
}

}  // namespace

const StoredTensor* find_tensor(std::span<const StoredTensor> tensors, const OtherTypes& other_types,
                                std::string_view name, const std::string& where, std::string_view remedy) {
  const auto found =
      std::lower_bound(tensors.begin(), tensors.end(), name,
                       [](const StoredTensor& tensor, std::string_view wanted) { return tensor.name < wanted; });
  if (found != tensors.end() && found->name == name) return &*found;
  if (const auto other = other_types.find(name); other != other_types.end())
    bad_input("{}: tensor {} is of type {}; store it as {}", where, weft::quoted(name), other->second, remedy);
  return nullptr;
}

const StoredTensor& get_tensor(std::span<const StoredTensor> tensors, const OtherTypes& other_types,
                               std::string_view name, const std::string& where) {
  if (const StoredTensor* tensor = find_tensor(tensors, other_types, name, where)) return *tensor;
  bad_input("{}: there is no tensor {} among its {}; is this the model that its config.json says?", where,
            weft::quoted(name), tensors.size());
}

const StoredTensor* TensorFile::find(std::string_view name) const {
  return find_tensor(tensors_, other_types_, name, path_);
}

const StoredTensor& TensorFile::get(std::string_view name) const {
  return get_tensor(tensors_, other_types_, name, path_);
}

TensorFolder TensorFolder::open(const std::string& folder) {
  namespace fs = std::filesystem;
  TensorFolder result;
  result.path_ = folder;
  std::error_code error;
  if (!fs::is_directory(folder, error)) bad_input("\"{}\" is no folder; give a model's folder", folder);
  const fs::path root(folder);
  if (fs::exists(root / kWhole, error)) {
    result.files_.push_back(TensorFile::open((root / kWhole).string()));
    result.tensors_ = result.files_[0].tensors_;
    result.other_types_ = result.files_[0].other_types_;
  } else if (fs::exists(root / kIndex, error)) {
    result.add_indexed((root / kIndex).string());
  } else {
    bad_input("{}: there is neither {} nor {}; give a folder with weights in safetensors form", folder, kWhole, kIndex);
  }
  return result;
}

void TensorFolder::add_indexed(const std::string& index) {
  const JsonLimits limits{.bytes = std::size_t{100} << 20, .depth = 8};
  const std::string text = read_text_file(index, limits.bytes);
  const Json json = parse_json(text, index, limits);
  const Json& weight_map = get_object(json, "weight_map", index);
  check_unique_keys(text, index);
  std::map<std::string, std::size_t> opened;
  for (const auto& [name, value] : weight_map.items()) {  // in order of names
    const std::string file = get_string(weight_map, name, index + ": \"weight_map\"");
    check_file_name(file, name, index);
    const auto [place, is_new] = opened.try_emplace(file, files_.size());
    const std::string path = (std::filesystem::path(path_) / file).string();
    std::error_code error;
    if (is_new && !std::filesystem::exists(path, error))
      bad_input("{}: \"weight_map\" puts tensor {} in {}, which is not in the folder; fetch it", index,
                weft::quoted(name), weft::quoted(file));
    if (is_new) files_.push_back(TensorFile::open(path));
    const TensorFile& holder = files_[place->second];
    if (const auto other = holder.other_types_.find(name); other != holder.other_types_.end()) {
      other_types_.insert(*other);
      continue;
    }
    const StoredTensor* tensor = holder.find(name);
    if (!tensor)
      bad_input("{}: \"weight_map\" puts tensor {} in {}, which has none", index, weft::quoted(name),
                weft::quoted(file));
    tensors_.push_back(*tensor);
  }
}

const StoredTensor* TensorFolder::find(std::string_view name) const {
  return find_tensor(tensors_, other_types_, name, path_);
}

const StoredTensor& TensorFolder::get(std::string_view name) const {
  return get_tensor(tensors_, other_types_, name, path_);
}

}  // namespace weft
