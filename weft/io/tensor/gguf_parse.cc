// Reading a GGUF file: magic, version, counts, settings, the table of tensors; then, aligned, the tensors.
#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>

#include "weft/base/error.h"
#include "weft/base/index.h"
#include "weft/base/json.h"
#include "weft/io/tensor/gguf.h"
#include "weft/io/tensor/tensor_lookup.h"

namespace weft {
namespace {

constexpr std::size_t kMostAlignment = std::size_t{1} << 20;
constexpr std::uint32_t kMostExtents = 4;
constexpr std::size_t kMostText = std::size_t{64} << 20;
// The fewest bytes of a setting (key's length, kind, one byte), and of a tensor's entry (name's length, number of
// extents, type, offset): counts beyond what the file could hold are refused before anything is made room for.
constexpr std::size_t kLeastSetting = 13, kLeastEntry = 24;

std::size_t kind_bytes(GgufKind kind) {
  constexpr std::size_t kBytes[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
  return kBytes[at(kind)];
}

struct TensorType {
  const char* name;
  std::optional<StoredDtype> stored;
};

// By the file's number. Those that are not stored have no size here, so that only their place is checked.
TensorType tensor_type(std::uint32_t number) {
  static constexpr std::array<const char*, 31> kNames = {
      "F32",   "F16",    "Q4_0", "Q4_1", "Q4_2", "Q4_3",    "Q5_0",   "Q5_1",    "Q8_0",  "Q8_1",   "Q2_K",
      "Q3_K",  "Q4_K",   "Q5_K", "Q6_K", "Q8_K", "IQ2_XXS", "IQ2_XS", "IQ3_XXS", "IQ1_S", "IQ4_NL", "IQ3_S",
      "IQ2_S", "IQ4_XS", "I8",   "I16",  "I32",  "I64",     "F64",    "IQ1_M",   "BF16"};
  if (number >= kNames.size()) return {"", {}};
  switch (number) {
    case 0:
      return {kNames[0], StoredDtype::f32};
    case 1:
      return {kNames[1], StoredDtype::f16};
    case 2:
      return {kNames[2], StoredDtype::q4_0};
    case 8:
      return {kNames[8], StoredDtype::q8_0};
    case 12:
      return {kNames[12], StoredDtype::q4_k};
    case 14:
      return {kNames[14], StoredDtype::q6_k};
    case 30:
      return {kNames[30], StoredDtype::bf16};
    default:
      return {kNames[number], {}};
  }
}

struct GgufExtent {
  std::size_t begin = 0, end = 0;
  std::string name;
};

}  // namespace

// Walks through the file, never beyond its end.
class GgufParser {
 public:
  GgufParser(GgufFile* file) : file_(*file), bytes_(file->file_.bytes()) {}

  void parse() {
    const auto magic = take(4, "the magic");
    if (std::memcmp(magic.data(), "GGUF", 4) != 0)
      bad_input("{}: it does not begin with GGUF; give a GGUF file, or a model's folder", file_.path_);
    const auto version = number<std::uint32_t>("the version");
    if (version == 0x02000000u || version == 0x03000000u)
      bad_input("{}: the file is big-endian, which is not read; convert it on this machine", file_.path_);
    if (version != 2 && version != 3)
      bad_input("{}: GGUF version {}; versions 2 and 3 are read: convert the model again", file_.path_, version);
    const std::uint64_t tensors = number<std::uint64_t>("the number of tensors");
    const std::uint64_t settings = number<std::uint64_t>("the number of settings");
    check_count(settings, kLeastSetting, "settings");
    check_count(tensors, kLeastEntry, "tensors");
    for (std::uint64_t i = 0; i < settings; ++i) read_setting();
    read_alignment();
    read_table(tensors);
  }

 private:
  std::span<const std::byte> take(std::uint64_t count, std::string_view what) {
    if (count > bytes_.size() - at_)
      bad_input("{}: {} needs {} bytes at byte {}, but {} are left; the file is cut short or damaged", file_.path_,
                what, count, at_, bytes_.size() - at_);
    const auto taken = bytes_.subspan(at_, count);
    at_ += count;
    return taken;
  }

  template <typename T>
  T number(std::string_view what) {
    T value;
    std::memcpy(&value, take(sizeof value, what).data(), sizeof value);
    return value;
  }

  std::string_view text(std::string_view what) {
    const auto length = number<std::uint64_t>(what);
    if (length > kMostText)
      bad_input("{}: {} is a text of {} bytes; at most {} are read", file_.path_, what, length, kMostText);
    const auto taken = take(length, what);
    return {reinterpret_cast<const char*>(taken.data()), taken.size()};
  }

  void check_count(std::uint64_t count, std::size_t least, std::string_view what) const {
    if (count > (bytes_.size() - at_) / least)
      bad_input("{}: {} {} in a file of {} bytes; it is cut short or damaged", file_.path_, count, what, bytes_.size());
  }

  GgufKind kind(const std::string& key) {
    const auto code = number<std::uint32_t>("the kind of setting " + key);
    if (code > 12) bad_input("{}: setting {} is of kind {}; kinds are 0 to 12", file_.path_, key, code);
    return static_cast<GgufKind>(code);
  }

  void read_setting() {
    const std::string_view name = text("the key of a setting");
    const std::string key = weft::quoted(name);
    if (name.empty() || name.size() > 65535) bad_input("{}: a setting has a key of {} bytes", file_.path_, name.size());
    GgufValue value;
    value.kind = kind(key);
    if (value.kind == GgufKind::array) {
      value.is_array = true;
      value.kind = kind(key);
      if (value.kind == GgufKind::array)
        bad_input("{}: setting {} is an array of arrays, which is not read; leave it out", file_.path_, key);
      const auto count = number<std::uint64_t>("the length of setting " + key);
      check_count(count, value.kind == GgufKind::text ? 8 : kind_bytes(value.kind), "items in setting " + key);
      value.count = static_cast<std::int64_t>(count);
    }
    if (value.kind == GgufKind::text && value.is_array) {
      for (std::int64_t i = 0; i < value.count; ++i) value.texts.push_back(text("a text of setting " + key));
    } else if (value.kind == GgufKind::text) {
      const std::string_view words = text("setting " + key);
      value.bytes = {reinterpret_cast<const std::byte*>(words.data()), words.size()};
    } else {
      value.bytes = take(num(value.count) * kind_bytes(value.kind), "setting " + key);
    }
    if (!file_.values_.emplace(name, std::move(value)).second)
      bad_input("{}: setting {} is there twice; leave one of them", file_.path_, key);
  }

  void read_alignment() {
    const std::int64_t given = file_.get_int("general.alignment", 0, INT64_MAX, 32);
    if (given < 8 || num(given) > kMostAlignment || !std::has_single_bit(num(given)))
      bad_input("{}: \"general.alignment\" is {}; give a power of two of 8 to {}", file_.path_, given, kMostAlignment);
    alignment_ = num(given);
  }

  struct Entry {
    StoredTensor tensor;
    std::uint32_t type;
    std::uint64_t offset;
  };

  void read_table(std::uint64_t count) {
    std::vector<Entry> entries;
    for (std::uint64_t i = 0; i < count; ++i) entries.push_back(read_entry());
    std::sort(entries.begin(), entries.end(),
              [](const Entry& a, const Entry& b) { return a.tensor.name < b.tensor.name; });
    const std::size_t begin = (at_ + alignment_ - 1) / alignment_ * alignment_;
    data_ = bytes_.subspan(std::min(begin, bytes_.size()));
    std::vector<GgufExtent> extents;
    for (std::size_t i = 1; i < entries.size(); ++i)
      if (entries[i].tensor.name == entries[i - 1].tensor.name)
        bad_input("{}: tensor {} is there twice", file_.path_, weft::quoted(entries[i].tensor.name));
    for (Entry& entry : entries) place(entry, extents);
    check_extents(extents);
  }

  Entry read_entry() {
    Entry entry;
    entry.tensor.name = text("the name of a tensor");
    const std::string what = "the entry of tensor " + weft::quoted(entry.tensor.name);
    const auto extents = number<std::uint32_t>(what);
    if (extents > kMostExtents)
      bad_input("{}: tensor {} has {} extents; at most {} are read", file_.path_, weft::quoted(entry.tensor.name),
                extents, kMostExtents);
    for (std::uint32_t i = 0; i < extents; ++i) {
      const auto extent = number<std::uint64_t>(what);
      if (extent > num(INT64_MAX))
        bad_input("{}: tensor {} has an extent of {}; the file is damaged", file_.path_,
                  weft::quoted(entry.tensor.name), extent);
      entry.tensor.shape.insert(entry.tensor.shape.begin(),
                                static_cast<std::int64_t>(extent));  // files: innermost first
    }
    entry.type = number<std::uint32_t>(what);
    entry.offset = number<std::uint64_t>(what);
    return entry;
  }

  std::size_t bytes_of(const StoredTensor& tensor, const char* type) const {
    const DtypeBlock block = block_shape(tensor.dtype);
    const std::int64_t row = tensor.shape.empty() ? 1 : tensor.shape.back();
    if (row % block.values != 0)
      bad_input("{}: tensor {} has rows of {} values, no whole number of {} blocks of {}; the file is damaged",
                file_.path_, weft::quoted(tensor.name), row, type, block.values);
    std::size_t bytes = 1;
    for (const std::int64_t extent : tensor.shape)
      if (__builtin_mul_overflow(bytes, num(extent), &bytes) || bytes > num(INT64_MAX / 8))
        bad_input("{}: tensor {} has more values than 64 bits can count; the file is damaged", file_.path_,
                  weft::quoted(tensor.name));
    return bytes / num(block.values) * num(block.bytes);
  }

  void place(Entry& entry, std::vector<GgufExtent>& extents) {
    StoredTensor& tensor = entry.tensor;
    const std::string name = weft::quoted(tensor.name);
    if (entry.offset % alignment_ != 0)
      bad_input("{}: tensor {} begins at {}, no multiple of the alignment of {}; the file is damaged", file_.path_,
                name, entry.offset, alignment_);
    if (entry.offset > data_.size())
      bad_input("{}: tensor {} begins at {}, but there are {} bytes of tensors; the file is cut short", file_.path_,
                name, entry.offset, data_.size());
    const TensorType type = tensor_type(entry.type);
    if (!type.stored) {
      file_.other_types_[tensor.name] = *type.name == 0 ? fmt::format("number {}", entry.type) : type.name;
      return;
    }
    tensor.dtype = *type.stored;
    tensor.bytes = bytes_of(tensor, type.name);
    if (tensor.bytes > data_.size() - entry.offset)
      bad_input("{}: tensor {} of {} bytes begins at {}, but there are {} bytes of tensors; the file is cut short",
                file_.path_, name, tensor.bytes, entry.offset, data_.size());
    tensor.data = data_.data() + entry.offset;
    extents.push_back({entry.offset, entry.offset + tensor.bytes, tensor.name});
    file_.tensors_.push_back(std::move(tensor));
  }

  void check_extents(std::vector<GgufExtent>& extents) const {
    std::sort(extents.begin(), extents.end(), [](const GgufExtent& a, const GgufExtent& b) {
      return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
    });
    for (std::size_t i = 1; i < extents.size(); ++i)
      if (extents[i].begin < extents[i - 1].end)
        bad_input("{}: tensors {} and {} overlap at byte {}; the file is damaged", file_.path_,
                  weft::quoted(extents[i - 1].name), weft::quoted(extents[i].name), extents[i].begin);
  }

  GgufFile& file_;
  std::span<const std::byte> bytes_, data_;
  std::size_t at_ = 0, alignment_ = 32;
};

bool is_gguf(std::string_view path) { return path.ends_with(".gguf"); }

GgufFile GgufFile::open(const std::string& path) {
  GgufFile result;
  result.path_ = path;
  result.file_ = MappedFile::open(path);
  GgufParser(&result).parse();
  return result;
}

const StoredTensor* GgufFile::find(std::string_view name) const {
  return find_tensor(tensors_, other_types_, name, path_, "F32, F16, BF16, Q8_0, Q4_0, Q4_K or Q6_K");
}

const StoredTensor& GgufFile::get(std::string_view name) const {
  if (const StoredTensor* tensor = find(name)) return *tensor;
  bad_input("{}: there is no tensor {} among its {}; is this a whole model?", path_, weft::quoted(name),
            tensors_.size());
}

}  // namespace weft
