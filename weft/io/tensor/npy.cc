#include "weft/io/tensor/npy.h"

#include <cctype>
#include <charconv>
#include <cstring>
#include <optional>
#include <string_view>

#include <fmt/ranges.h>

#include "weft/base/error.h"
#include "weft/base/index.h"
#include "weft/base/os/new_file.h"
#include "weft/io/mapped_file.h"

namespace weft {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr std::size_t kMostNpyHeader = 1 << 16;

// The header is a Python dictionary: {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }. This reads the values
// that may stand in it, and refuses the rest.
class HeaderReader {
 public:
  HeaderReader(std::string_view text, const std::string& path) : rest_(text), path_(path) {}

  bool take(char c) {
    while (!rest_.empty() && std::isspace(static_cast<unsigned char>(rest_[0]))) rest_.remove_prefix(1);
    if (rest_.empty() || rest_[0] != c) return false;
    rest_.remove_prefix(1);
    return true;
  }
  void expect(char c) {
    if (!take(c)) bad_input("{}: no '{}' in the header where one should be; this is no .npy file", path_, c);
  }
  std::string_view string() {
    const char quote = take('"') ? '"' : '\'';
    if (quote == '\'') expect('\'');
    const std::size_t end = rest_.find(quote);
    if (end == std::string_view::npos) bad_input("{}: a string of the header does not end", path_);
    const std::string_view text = rest_.substr(0, end);
    rest_.remove_prefix(end + 1);
    return text;
  }
  bool boolean() {
    take(' ');
    for (const std::string_view word : {"False", "True"})
      if (rest_.substr(0, word.size()) == word) {
        rest_.remove_prefix(word.size());
        return word == "True";
      }
    bad_input("{}: \"fortran_order\" is neither True nor False", path_);
  }
  std::vector<std::int64_t> tuple() {
    std::vector<std::int64_t> result;
    expect('(');
    while (!take(')')) {
      std::int64_t value = -1;
      const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), value);
      if (error != std::errc() || value < 0 || result.size() >= 32)
        bad_input("{}: \"shape\" has something else than up to 32 whole numbers", path_);
      rest_.remove_prefix(num(end - rest_.data()));
      result.push_back(value);
      if (take(',')) continue;
      expect(')');
      break;
    }
    return result;
  }

 private:
  std::string_view rest_;
  const std::string& path_;
};

std::vector<std::int64_t> read_header(std::string_view text, const std::string& path) {
  HeaderReader reader(text, path);
  std::optional<std::vector<std::int64_t>> shape;
  std::string descr;
  bool fortran_order = false;
  reader.expect('{');
  while (!reader.take('}')) {
    const std::string_view key = reader.string();
    reader.expect(':');
    if (key == "descr")
      descr = reader.string();
    else if (key == "fortran_order")
      fortran_order = reader.boolean();
    else if (key == "shape")
      shape = reader.tuple();
    else
      bad_input("{}: the header has a field \"{}\" that .npy files have not", path, key);
    if (!reader.take(',')) {
      reader.expect('}');
      break;
    }
  }
  if (descr != "<f4")
    bad_input("{}: \"descr\" is \"{}\"; give an array of little-endian float32 (\"<f4\")", path, descr);
  if (fortran_order) bad_input("{}: \"fortran_order\" is True; save it in C order", path);
  if (!shape) bad_input("{}: \"shape\" is missing from the header", path);
  return *shape;
}

}  // namespace

void write_npy(const std::string& path, std::span<const std::int64_t> shape, const float* values) {
  std::size_t bytes = sizeof(float);
  for (const std::int64_t extent : shape)
    if (extent < 0 || __builtin_mul_overflow(bytes, num(extent), &bytes))
      bad_input("{}: an extent of {} in the shape; give a shape that can be", path, extent);
  std::string header = fmt::format("{{'descr': '<f4', 'fortran_order': False, 'shape': ({}{}), }}",
                                   fmt::join(shape, ", "), shape.size() == 1 ? "," : "");
  header.resize((10 + header.size() + 1 + 63) / 64 * 64 - 10 - 1, ' ');  // data begin at a multiple of 64 bytes
  header += '\n';
  NewFile file(path);
  const unsigned char lead[] = {1, 0, static_cast<unsigned char>(header.size()),
                                static_cast<unsigned char>(header.size() >> 8)};
  file.write(kMagic);
  file.write(lead, sizeof lead);
  file.write(header);
  file.write(values, bytes);
  file.commit();
}

NpyArray read_npy(const std::string& path) {
  const MappedFile mapped = MappedFile::open(path);
  const std::string_view file(reinterpret_cast<const char*>(mapped.bytes().data()), mapped.bytes().size());
  if (file.size() < 12 || file.substr(0, 6) != kMagic) bad_input("{}: does not begin as .npy files do; give one", path);
  const int version = file[6];
  if (version < 1 || version > 3) bad_input("{}: format version {}; versions 1 to 3 are read", path, version);
  std::size_t length = 0;
  for (std::size_t i = version == 1 ? 2 : 4; i-- > 0;) length = length << 8 | static_cast<unsigned char>(file[8 + i]);
  const std::size_t begin = version == 1 ? 10 : 12;
  if (length > kMostNpyHeader || length > file.size() - begin)
    bad_input("{}: header length {} does not fit in the file of {} bytes", path, length, file.size());
  NpyArray result;
  result.shape = read_header(file.substr(begin, length), path);
  std::size_t bytes = sizeof(float);
  for (const std::int64_t extent : result.shape)
    if (__builtin_mul_overflow(bytes, num(extent), &bytes))
      bad_input("{}: \"shape\" is more bytes than 64 bits can count", path);
  const std::string_view data = file.substr(begin + length);
  if (data.size() != bytes) bad_input("{}: \"shape\" is {} bytes, the file has {}", path, bytes, data.size());
  result.values.resize(bytes / sizeof(float));
  if (bytes != 0) std::memcpy(result.values.data(), data.data(), bytes);
  return result;
}

}  // namespace weft
