// Settings of a GGUF file, checked where they are asked for.
#include <cmath>
#include <cstring>

#include "weft/base/error.h"
#include "weft/base/index.h"
#include "weft/base/json.h"
#include "weft/io/tensor/gguf.h"

namespace weft {
namespace {

template <typename T>
T item_at(const GgufValue& value, std::int64_t index) {
  T result;
  std::memcpy(&result, value.bytes.data() + num(index) * sizeof result, sizeof result);
  return result;
}

bool is_whole_kind(GgufKind kind) {
  return kind != GgufKind::f32 && kind != GgufKind::f64 && kind != GgufKind::boolean && kind != GgufKind::text;
}

std::int64_t whole_item(const GgufValue& value, std::int64_t index) {
  switch (value.kind) {
    case GgufKind::u8:
      return item_at<std::uint8_t>(value, index);
    case GgufKind::i8:
      return item_at<std::int8_t>(value, index);
    case GgufKind::u16:
      return item_at<std::uint16_t>(value, index);
    case GgufKind::i16:
      return item_at<std::int16_t>(value, index);
    case GgufKind::u32:
      return item_at<std::uint32_t>(value, index);
    case GgufKind::i32:
      return item_at<std::int32_t>(value, index);
    case GgufKind::i64:
      return item_at<std::int64_t>(value, index);
    default:  // u64, of which no setting needs the upper half
      return static_cast<std::int64_t>(std::min<std::uint64_t>(item_at<std::uint64_t>(value, index), INT64_MAX));
  }
}

double real_item(const GgufValue& value, std::int64_t index) {
  if (value.kind == GgufKind::f32) return item_at<float>(value, index);
  if (value.kind == GgufKind::f64) return item_at<double>(value, index);
  return static_cast<double>(whole_item(value, index));
}

bool is_numeric_kind(GgufKind kind) { return is_whole_kind(kind) || kind == GgufKind::f32 || kind == GgufKind::f64; }

[[noreturn]] void refuse_kind(const GgufFile& file, std::string_view key, const GgufValue& value,
                              std::string_view wanted) {
  bad_input("{}: setting {} is {}{}; it should be {}", file.path(), weft::quoted(key),
            value.is_array ? "an array of " : "", to_string(value.kind), wanted);
}

}  // namespace

std::string_view to_string(GgufKind kind) {
  static constexpr std::string_view kNames[] = {"u8",   "i8",   "u16",   "i16", "u32", "i32", "f32",
                                                "bool", "text", "array", "u64", "i64", "f64"};
  return kNames[at(kind)];
}

const GgufValue& GgufFile::value(std::string_view key, std::string_view wanted) const {
  const auto found = values_.find(key);
  if (found == values_.end())
    bad_input("{}: there is no setting {}; it should be {}", path_, weft::quoted(key), wanted);
  return found->second;
}

std::int64_t GgufFile::get_int(std::string_view key, std::int64_t min, std::int64_t max) const {
  const GgufValue& found = value(key, "a whole number");
  if (found.is_array || !is_whole_kind(found.kind)) refuse_kind(*this, key, found, "a whole number");
  const std::int64_t number = whole_item(found, 0);
  if (number < min || number > max)
    bad_input("{}: setting {} is {}; give {} to {}", path_, weft::quoted(key), number, min, max);
  return number;
}

std::int64_t GgufFile::get_int(std::string_view key, std::int64_t min, std::int64_t max, std::int64_t otherwise) const {
  return has(key) ? get_int(key, min, max) : otherwise;
}

double GgufFile::get_double(std::string_view key, double min, double max) const {
  const GgufValue& found = value(key, "a number");
  if (found.is_array || !is_numeric_kind(found.kind)) refuse_kind(*this, key, found, "a number");
  const double number = real_item(found, 0);
  if (!(number >= min && number <= max))
    bad_input("{}: setting {} is {}; give {} to {}", path_, weft::quoted(key), number, min, max);
  return number;
}

double GgufFile::get_double(std::string_view key, double min, double max, double otherwise) const {
  return has(key) ? get_double(key, min, max) : otherwise;
}

bool GgufFile::get_bool(std::string_view key, bool otherwise) const {
  if (!has(key)) return otherwise;
  const GgufValue& found = value(key, "true or false");
  if (found.is_array || found.kind != GgufKind::boolean) refuse_kind(*this, key, found, "true or false");
  return found.bytes[0] != std::byte{0};
}

std::string GgufFile::get_text(std::string_view key) const {
  const GgufValue& found = value(key, "a text");
  if (found.is_array || found.kind != GgufKind::text) refuse_kind(*this, key, found, "a text");
  return {reinterpret_cast<const char*>(found.bytes.data()), found.bytes.size()};
}

std::vector<std::string_view> GgufFile::get_texts(std::string_view key) const {
  const GgufValue& found = value(key, "an array of texts");
  if (!found.is_array || found.kind != GgufKind::text) refuse_kind(*this, key, found, "an array of texts");
  return found.texts;
}

std::vector<std::int64_t> GgufFile::get_ints(std::string_view key) const {
  const GgufValue& found = value(key, "an array of whole numbers");
  if (!found.is_array || !is_whole_kind(found.kind)) refuse_kind(*this, key, found, "an array of whole numbers");
  std::vector<std::int64_t> result;
  for (std::int64_t i = 0; i < found.count; ++i) result.push_back(whole_item(found, i));
  return result;
}

std::vector<float> GgufFile::get_floats(std::string_view key) const {
  const GgufValue& found = value(key, "an array of numbers");
  if (!found.is_array || !is_numeric_kind(found.kind)) refuse_kind(*this, key, found, "an array of numbers");
  std::vector<float> result;
  for (std::int64_t i = 0; i < found.count; ++i) result.push_back(static_cast<float>(real_item(found, i)));
  return result;
}

}  // namespace weft
