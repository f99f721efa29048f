#include "weft/io/tensor/write_gguf.h"

#include <cstring>
#include <set>
#include <type_traits>

#include "weft/base/error.h"
#include "weft/base/index.h"
#include "weft/base/json.h"
#include "weft/base/os/new_file.h"
#include "weft/io/tensor/gguf.h"

namespace weft {
namespace {

constexpr std::size_t kGgufAlignment = 32;  // what readers take where the file does not say

template <typename T>
void put(std::string& out, T value) {
  char bytes[sizeof value];
  std::memcpy(bytes, &value, sizeof value);
  out.append(bytes, sizeof value);
}

void put_text(std::string& out, std::string_view text) {
  put<std::uint64_t>(out, text.size());
  out += text;
}

void put_kind(std::string& out, GgufKind kind) { put<std::uint32_t>(out, static_cast<std::uint32_t>(kind)); }

void put_item(std::string& out, const std::string& text) { put_text(out, text); }
void put_item(std::string& out, bool value) { put<std::uint8_t>(out, value ? 1 : 0); }
template <typename T>
void put_item(std::string& out, T value) {
  put(out, value);
}

template <typename T>
constexpr GgufKind kKindOf = std::is_same_v<T, std::uint32_t>  ? GgufKind::u32
                             : std::is_same_v<T, std::int32_t> ? GgufKind::i32
                             : std::is_same_v<T, float>        ? GgufKind::f32
                             : std::is_same_v<T, bool>         ? GgufKind::boolean
                                                               : GgufKind::text;

template <typename T>
void put_setting(std::string& out, const T& value) {
  put_kind(out, kKindOf<T>);
  put_item(out, value);
}

template <typename T>
void put_setting(std::string& out, const std::vector<T>& values) {
  put_kind(out, GgufKind::array);
  put_kind(out, kKindOf<T>);
  put<std::uint64_t>(out, values.size());
  for (const T& value : values) put_item(out, value);
}

std::uint32_t type_number(StoredDtype dtype) {
  constexpr std::uint32_t kNumbers[] = {0, 1, 30, 8, 2, 12, 14};
  return kNumbers[at(dtype)];
}

std::size_t tensor_bytes(const GgufTensor& tensor, const std::string& path) {
  const DtypeBlock block = block_shape(tensor.dtype);
  std::size_t values = 1;
  bool fits = !tensor.shape.empty() && tensor.shape.size() <= 4 && tensor.shape.back() % block.values == 0;
  for (const std::int64_t extent : tensor.shape)
    fits = fits && extent >= 0 && !__builtin_mul_overflow(values, num(extent), &values);
  if (!fits)
    bad_input("{}: tensor {} has a shape that a GGUF file cannot hold as {}; rows are multiples of {}", path,
              weft::quoted(tensor.name), to_string(tensor.dtype), block.values);
  return values / num(block.values) * num(block.bytes);
}

std::size_t aligned(std::size_t bytes) { return (bytes + kGgufAlignment - 1) / kGgufAlignment * kGgufAlignment; }

std::string table_text(const std::string& path, std::span<const GgufTensor> tensors) {
  std::string out;
  std::set<std::string_view> names;
  std::size_t offset = 0;
  for (const GgufTensor& tensor : tensors) {
    if (!names.insert(tensor.name).second) bad_input("{}: tensor {} is given twice", path, weft::quoted(tensor.name));
    const std::size_t bytes = tensor_bytes(tensor, path);
    put_text(out, tensor.name);
    put<std::uint32_t>(out, static_cast<std::uint32_t>(tensor.shape.size()));
    for (auto extent = tensor.shape.rbegin(); extent != tensor.shape.rend(); ++extent)
      put<std::uint64_t>(out, num(*extent));
    put<std::uint32_t>(out, type_number(tensor.dtype));
    put<std::uint64_t>(out, offset);
    offset = aligned(offset + bytes);
  }
  return out;
}

}  // namespace

void write_gguf(const std::string& path, std::span<const std::pair<std::string, GgufSetting>> settings,
                std::span<const GgufTensor> tensors) {
  std::string head = "GGUF";
  put<std::uint32_t>(head, 3);
  put<std::uint64_t>(head, tensors.size());
  put<std::uint64_t>(head, settings.size());
  std::set<std::string_view> keys;
  for (const auto& [key, value] : settings) {
    if (!keys.insert(key).second) bad_input("{}: setting {} is given twice", path, weft::quoted(key));
    put_text(head, key);
    std::visit([&](const auto& of) { put_setting(head, of); }, value);
  }
  head += table_text(path, tensors);
  head.resize(aligned(head.size()), '\0');
  NewFile file(path);
  file.write(head);
  for (const GgufTensor& tensor : tensors) {
    std::vector<std::byte> bytes = tensor.make();
    if (bytes.size() != tensor_bytes(tensor, path))
      bad_input("{}: tensor {} has {} bytes, its shape {}; give both alike", path, weft::quoted(tensor.name),
                bytes.size(), tensor_bytes(tensor, path));
    bytes.resize(aligned(bytes.size()));
    file.write(bytes.data(), bytes.size());
  }
  file.commit();
}

}  // namespace weft
