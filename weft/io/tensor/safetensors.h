// Tensors as model files hold them: the safetensors format, and folders of it as Hugging Face has them.
// Opening maps the files and reads their headers alone; a tensor's bytes are read from the disk where they
// are touched, so a rank that uses a shard of a model reads that shard. Files come from strangers: every
// length, offset, shape and name is checked against the file before a pointer is given out, and what does
// not hold is one bad_input sentence that names the file and the tensor or field.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "weft/base/dtype.h"
#include "weft/base/index.h"
#include "weft/io/mapped_file.h"

namespace weft {

enum class StoredDtype { f32, f16, bf16, q8_0, q4_0, q4_k, q6_k };  // those in blocks: GGUF files alone

std::string_view to_string(StoredDtype dtype);
// Of one value; of one in blocks the values of a block share its bytes (base/quant/blocks.h).
constexpr DtypeBlock block_shape(StoredDtype dtype) {
  constexpr DtypeBlock kShapes[] = {{1, 4},
                                    {1, 2},
                                    {1, 2},
                                    block_shape(Dtype::q8_0),
                                    block_shape(Dtype::q4_0),
                                    block_shape(Dtype::q4_k),
                                    block_shape(Dtype::q6_k)};
  return kShapes[at(dtype)];
}
constexpr bool is_blocked(StoredDtype dtype) { return block_shape(dtype).values > 1; }
constexpr std::int64_t size_of(StoredDtype dtype) { return is_blocked(dtype) ? 0 : block_shape(dtype).bytes; }
Dtype blocked_dtype(StoredDtype dtype);  // the same format as kernels name it; of those in blocks alone

// A view: `data` belongs to the file or folder it came from, or to whoever hands it to write_safetensors. Files
// whose headers are not padded put it at odd addresses, so read it with memcpy, widen() or unaligned loads.
struct StoredTensor {
  std::string name;
  StoredDtype dtype = StoredDtype::f32;
  std::vector<std::int64_t> shape;  // row-major; empty for a scalar
  const std::byte* data = nullptr;
  std::size_t bytes = 0;
  // Rows to a head where the two that a rotary position turns lie side by side, as GGUF files have it for q and k; 0:
  // rows are in the order of folders.
  std::int64_t paired_rows = 0;

  std::int64_t elements() const {
    return static_cast<std::int64_t>(bytes) / block_shape(dtype).bytes * block_shape(dtype).values;
  }
};

// One .safetensors file. Tensors of other types (integers, float8, ...) may be in it: they are not listed, and
// asking for one is refused with its type.
class TensorFile {
 public:
  static TensorFile open(const std::string& path);

  const std::string& path() const { return path_; }
  std::span<const StoredTensor> tensors() const { return tensors_; }  // sorted by name
  const StoredTensor* find(std::string_view name) const;              // null where the file has none
  const StoredTensor& get(std::string_view name) const;               // bad_input where the file has none
  const std::map<std::string, std::string>& metadata() const { return metadata_; }

 private:
  friend class TensorFolder;

  std::string path_;
  MappedFile file_;
  std::vector<StoredTensor> tensors_;
  std::map<std::string, std::string, std::less<>> other_types_;  // name -> type
  std::map<std::string, std::string> metadata_;
};

// A model's folder: model.safetensors, or model.safetensors.index.json and the files that it names.
class TensorFolder {
 public:
  static TensorFolder open(const std::string& folder);

  const std::string& path() const { return path_; }
  std::span<const StoredTensor> tensors() const { return tensors_; }  // of all files, sorted by name
  const StoredTensor* find(std::string_view name) const;
  const StoredTensor& get(std::string_view name) const;  // bad_input naming folder and tensor

 private:
  void add_indexed(const std::string& index);

  std::string path_;
  std::vector<TensorFile> files_;
  std::vector<StoredTensor> tensors_;
  std::map<std::string, std::string, std::less<>> other_types_;
};

// Writes a file that safetensors libraries read: header padded so that tensors are aligned, larger element types
// first, then by name. Whole or not at all (base/os/new_file.h). Throws bad_input on a name given twice or a shape that
// does not fit its bytes, io where the disk refuses.
void write_safetensors(const std::string& path, std::span<const StoredTensor> tensors,
                       const std::map<std::string, std::string>& metadata = {});

// Elements [first, first + count) of a tensor in storage order, as f32: exact for all types. Throws
// bad_input naming the tensor where it has not that many.
void widen(const StoredTensor& tensor, std::int64_t first, std::int64_t count, float* out);

}  // namespace weft
