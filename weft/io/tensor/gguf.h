// GGUF, the file that llama.cpp and its relatives read: settings by name (the model's sizes, its tokenizer), then a
// table of tensors, then their bytes, of which whole rows may be in blocks (base/quant/blocks.h). Opening maps the
// file and reads settings and table alone; a tensor's bytes are read from the disk where they are touched. Files come
// from strangers: as with safetensors, every count, length, offset, type and alignment is checked before a pointer is
// given out.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "weft/io/mapped_file.h"
#include "weft/io/tensor/safetensors.h"

namespace weft {

// The numbers by which files name them.
enum class GgufKind { u8, i8, u16, i16, u32, i32, f32, boolean, text, array, u64, i64, f64 };

std::string_view to_string(GgufKind kind);

// One setting. Views belong to the file.
struct GgufValue {
  GgufKind kind = GgufKind::u8;  // of an array: of its items
  bool is_array = false;
  std::int64_t count = 1;               // items
  std::span<const std::byte> bytes;     // the items, numbers and truth values; a text's bytes
  std::vector<std::string_view> texts;  // an array of texts
};

bool is_gguf(std::string_view path);  // whether the name says so

class GgufFile {
 public:
  static GgufFile open(const std::string& path);

  const std::string& path() const { return path_; }
  std::span<const StoredTensor> tensors() const { return tensors_; }  // sorted by name; shapes row-major
  const StoredTensor* find(std::string_view name) const;              // null where the file has none
  const StoredTensor& get(std::string_view name) const;               // bad_input where the file has none

  // Settings. has: whether there is one. The others throw bad_input naming file and key where it is missing, of another
  // kind or out of range (both ends allowed); those with `otherwise` give it where the key is missing.
  bool has(std::string_view key) const { return values_.find(key) != values_.end(); }
  std::int64_t get_int(std::string_view key, std::int64_t min, std::int64_t max) const;
  std::int64_t get_int(std::string_view key, std::int64_t min, std::int64_t max, std::int64_t otherwise) const;
  double get_double(std::string_view key, double min, double max) const;
  double get_double(std::string_view key, double min, double max, double otherwise) const;
  bool get_bool(std::string_view key, bool otherwise) const;
  std::string get_text(std::string_view key) const;
  std::vector<std::string_view> get_texts(std::string_view key) const;
  std::vector<std::int64_t> get_ints(std::string_view key) const;
  std::vector<float> get_floats(std::string_view key) const;
  const std::map<std::string, GgufValue, std::less<>>& values() const { return values_; }

 private:
  friend class GgufParser;
  const GgufValue& value(std::string_view key, std::string_view wanted) const;

  std::string path_;
  MappedFile file_;
  std::map<std::string, GgufValue, std::less<>> values_;
  std::vector<StoredTensor> tensors_;
  std::map<std::string, std::string, std::less<>> other_types_;  // name -> type
};

}  // namespace weft
