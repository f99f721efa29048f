// Writing .safetensors files.
#include <algorithm>
#include <array>

#include <nlohmann/json.hpp>

#include "weft/base/error.h"
#include "weft/base/index.h"
#include "weft/base/json.h"
#include "weft/base/os/new_file.h"
#include "weft/io/tensor/safetensors.h"

namespace weft {
namespace {

const char* type_name(StoredDtype dtype) {
  return dtype == StoredDtype::f32 ? "F32" : dtype == StoredDtype::f16 ? "F16" : "BF16";
}

void check_tensor(const StoredTensor& tensor, const std::string& path) {
  if (is_blocked(tensor.dtype))
    bad_input("{}: tensor {} is {}, which safetensors files have not; write a GGUF file", path,
              weft::quoted(tensor.name), to_string(tensor.dtype));
  std::size_t bytes = size_of(tensor.dtype);
  for (const std::int64_t extent : tensor.shape)
    if (extent < 0 || __builtin_mul_overflow(bytes, num(extent), &bytes))
      bad_input("{}: tensor {} has an extent of {}; give a shape that can be", path, weft::quoted(tensor.name), extent);
  if (bytes != tensor.bytes)
    bad_input("{}: tensor {} has {} bytes, its shape {}; give both alike", path, weft::quoted(tensor.name),
              tensor.bytes, bytes);
  if (tensor.name == "__metadata__") bad_input("{}: no tensor may be called \"__metadata__\"; give another name", path);
}

// Wider elements first, so that each tensor is aligned to its elements.
std::vector<const StoredTensor*> in_file_order(std::span<const StoredTensor> tensors) {
  std::vector<const StoredTensor*> order;
  for (const StoredTensor& tensor : tensors) order.push_back(&tensor);
  std::sort(order.begin(), order.end(), [](const StoredTensor* a, const StoredTensor* b) {
    const std::size_t width_a = size_of(a->dtype), width_b = size_of(b->dtype);
    return width_a != width_b ? width_a > width_b : a->name < b->name;
  });
  return order;
}

std::string header_text(std::span<const StoredTensor* const> order, const std::map<std::string, std::string>& metadata,
                        const std::string& path) {
  Json header = Json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  std::size_t offset = 0;
  for (const StoredTensor* tensor : order) {
    check_tensor(*tensor, path);
    if (header.contains(tensor->name)) bad_input("{}: tensor {} is given twice", path, weft::quoted(tensor->name));
    header[tensor->name] = {{"dtype", type_name(tensor->dtype)},
                            {"shape", tensor->shape},
                            {"data_offsets", {offset, offset + tensor->bytes}}};
    offset += tensor->bytes;
  }
  std::string text;
  try {
    text = header.dump();
  } catch (const Json::exception&) {
    bad_input("{}: a tensor's name or the metadata is not UTF-8; give UTF-8", path);
  }
  text.resize((text.size() + 7) / 8 * 8, ' ');
  return text;
}

}  // namespace

std::string_view to_string(StoredDtype dtype) {
  static constexpr std::string_view kNames[] = {"f32", "f16", "bf16", "q8_0", "q4_0", "q4_k", "q6_k"};
  return kNames[at(dtype)];
}

Dtype blocked_dtype(StoredDtype dtype) {
  static constexpr Dtype kBlocked[] = {Dtype::q8_0, Dtype::q4_0, Dtype::q4_k, Dtype::q6_k};
  if (!is_blocked(dtype)) bad_input("{} is no format of blocks", to_string(dtype));
  return kBlocked[at(dtype) - at(StoredDtype::q8_0)];
}

void write_safetensors(const std::string& path, std::span<const StoredTensor> tensors,
                       const std::map<std::string, std::string>& metadata) {
  const std::vector<const StoredTensor*> order = in_file_order(tensors);
  const std::string header = header_text(order, metadata, path);
  std::array<unsigned char, 8> length;
  for (std::size_t i = 0; i < 8; ++i) length[i] = static_cast<unsigned char>(header.size() >> (8 * i));
  NewFile file(path);
  file.write(length.data(), length.size());
  file.write(header);
  for (const StoredTensor* tensor : order) file.write(tensor->data, tensor->bytes);
  file.commit();
}

}  // namespace weft
