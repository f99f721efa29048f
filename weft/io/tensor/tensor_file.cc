// Reading one .safetensors file: u64 length of the header, the header (JSON), then the tensors' bytes.
#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include <nlohmann/json.hpp>

#include "weft/base/error.h"
#include "weft/base/index.h"
#include "weft/base/json.h"
#include "weft/io/tensor/safetensors.h"
#include "weft/io/tensor/unique_keys.h"

namespace weft {
namespace {

constexpr std::size_t kMostHeader = std::size_t{100} << 20;  // the format's own limit
constexpr std::size_t kMostDimensions = 16;
constexpr int kMostDepth = 8;  // a tensor's shape is at depth 3

struct Extent {
  std::size_t begin = 0, end = 0;  // of the data, after the header
  std::string name;
};

std::string_view header_of(std::span<const std::byte> file, const std::string& path) {
  if (file.size() < 8)
    bad_input("{}: {} bytes, too short for a safetensors header; fetch the file again", path, file.size());
  std::uint64_t length = 0;
  for (int i = 7; i >= 0; --i) length = length << 8 | static_cast<std::uint8_t>(file[at(i)]);
  if (length > file.size() - 8)
    bad_input(
        "{}: header length {} is more than the {} bytes after it; the file is cut short or is no safetensors file",
        path, length, file.size() - 8);
  if (length > kMostHeader) bad_input("{}: header length {} is more than {} bytes", path, length, kMostHeader);
  return {reinterpret_cast<const char*>(file.data()) + 8, num(length)};
}

std::map<std::string, std::string> metadata_of(const Json& object, const std::string& path) {
  if (!object.is_object()) bad_input("{}: \"__metadata__\" is no object; give names with strings", path);
  std::map<std::string, std::string> result;
  for (const auto& [key, value] : object.items()) result[key] = get_string(object, key, path + ": \"__metadata__\"");
  return result;
}

// Bytes an element takes; 0 for a type we do not know, whose shape then cannot be checked and is never used.
std::size_t element_bytes(std::string_view type) {
  static const std::map<std::string_view, std::size_t> kBytes = {
      {"BOOL", 1}, {"U8", 1},  {"I8", 1},  {"F8_E4M3", 1}, {"F8_E5M2", 1}, {"I16", 2}, {"U16", 2}, {"F16", 2},
      {"BF16", 2}, {"I32", 4}, {"U32", 4}, {"F32", 4},     {"I64", 8},     {"U64", 8}, {"F64", 8}};
  const auto found = kBytes.find(type);
  return found == kBytes.end() ? 0 : found->second;
}

std::size_t shape_bytes(const std::vector<std::int64_t>& shape, std::size_t element, const std::string& where) {
  std::size_t bytes = element;
  for (const std::int64_t extent : shape)
    if (__builtin_mul_overflow(bytes, num(extent), &bytes) || bytes > num(INT64_MAX))
      bad_input("{}: \"shape\" is more bytes than 64 bits can count; the header is damaged", where);
  return bytes;
}

Extent extent_of(const Json& object, const std::string& name, const std::string& where, std::size_t data_bytes) {
  const std::vector<std::int64_t> offsets = get_ints(object, "data_offsets", where, 0);
  if (offsets.size() != 2) bad_input("{}: \"data_offsets\" has {} numbers; give 2", where, offsets.size());
  const Extent extent{num(offsets[0]), num(offsets[1]), name};
  if (extent.begin > extent.end)
    bad_input("{}: \"data_offsets\" ends at {}, before its begin {}", where, extent.end, extent.begin);
  if (extent.end > data_bytes)
    bad_input("{}: \"data_offsets\" ends at {}, but {} bytes follow the header; the file is cut short", where,
              extent.end, data_bytes);
  return extent;
}

void check_overlaps(std::vector<Extent>& extents, const std::string& path) {
  std::sort(extents.begin(), extents.end(),
            [](const Extent& a, const Extent& b) { return std::pair(a.begin, a.end) < std::pair(b.begin, b.end); });
  for (std::size_t i = 1; i < extents.size(); ++i)
    if (extents[i].begin < extents[i - 1].end)
      bad_input("{}: \"data_offsets\" of {} and {} overlap at byte {}; the header is damaged", path,
                weft::quoted(extents[i - 1].name), weft::quoted(extents[i].name), extents[i].begin);
}

StoredDtype stored_dtype(std::string_view type) {
  if (type == "F32") return StoredDtype::f32;
  return type == "F16" ? StoredDtype::f16 : StoredDtype::bf16;
}

bool is_stored(std::string_view type) { return type == "F32" || type == "F16" || type == "BF16"; }

}  // namespace

TensorFile TensorFile::open(const std::string& path) {
  TensorFile result;
  result.path_ = path;
  result.file_ = MappedFile::open(path);
  const std::string_view header = header_of(result.file_.bytes(), path);
  const std::span<const std::byte> data = result.file_.bytes().subspan(8 + header.size());
  const Json json = parse_json(header, path, {.bytes = kMostHeader, .depth = kMostDepth});
  if (!json.is_object()) bad_input("{}: the header is no JSON object; this is no safetensors file", path);
  check_unique_keys(header, path);
  std::vector<Extent> extents;
  for (const auto& [name, object] : json.items()) {  // in order of names
    if (name == "__metadata__") {
      result.metadata_ = metadata_of(object, path);
      continue;
    }
    const std::string where = fmt::format("{}: tensor {}", path, weft::quoted(name));
    const std::string type = get_string(object, "dtype", where);
    const std::vector<std::int64_t> shape = get_ints(object, "shape", where, 0);
    if (shape.size() > kMostDimensions) bad_input("{}: \"shape\" has {} dimensions", where, shape.size());
    const Extent extent = extent_of(object, name, where, data.size());
    const std::size_t bytes = extent.end - extent.begin;
    if (const std::size_t element = element_bytes(type); element > 0 && shape_bytes(shape, element, where) != bytes)
      bad_input("{}: \"shape\" of {} is {} bytes, \"data_offsets\" are {}; the header is damaged", where, type,
                shape_bytes(shape, element, where), bytes);
    extents.push_back(extent);
    if (is_stored(type))
      result.tensors_.push_back({name, stored_dtype(type), shape, data.data() + extent.begin, bytes});
    else
      result.other_types_[name] = type;
  }
  check_overlaps(extents, path);
  return result;
}

}  // namespace weft
