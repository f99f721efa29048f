// Writing GGUF files, version 3. Tensors are made one at a time while the file is written, so that a model is quantised
// without holding it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "weft/io/tensor/safetensors.h"

namespace weft {

using GgufSetting = std::variant<std::uint32_t, float, bool, std::string, std::vector<std::string>, std::vector<float>,
                                 std::vector<std::int32_t>>;

struct GgufTensor {
  std::string name;
  StoredDtype dtype = StoredDtype::f32;
  std::vector<std::int64_t> shape;               // row-major; rows are whole blocks
  std::function<std::vector<std::byte>()> make;  // its bytes; called once, in the order of the list
};

// Whole or not at all (base/os/new_file.h), settings and tensors in the order given. Throws bad_input on a name given
// twice or a shape that cannot be, io where the disk refuses.
void write_gguf(const std::string& path, std::span<const std::pair<std::string, GgufSetting>> settings,
                std::span<const GgufTensor> tensors);

}  // namespace weft
