// NumPy's .npy files of f32, little-endian, in C order: what logits are handed to other programs in.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace weft {

struct NpyArray {
  std::vector<std::int64_t> shape;
  std::vector<float> values;  // row-major
};

// Whole or not at all (base/os/new_file.h). Throws bad_input on a negative extent, io where the disk refuses.
void write_npy(const std::string& path, std::span<const std::int64_t> shape, const float* values);

// Format versions 1 to 3. Throws bad_input naming file and field where it is anything but f32 in C order.
NpyArray read_npy(const std::string& path);

}  // namespace weft
