// Finding a tensor by its name: shared by files and folders, so that both refuse in the same words.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>

#include "weft/io/tensor/safetensors.h"

namespace weft {

using OtherTypes = std::map<std::string, std::string, std::less<>>;

// `tensors` are sorted by name. Null where neither list has it; bad_input where it is of another type:
// it is to be stored as `remedy`.
const StoredTensor* find_tensor(std::span<const StoredTensor> tensors, const OtherTypes& other_types,
                                std::string_view name, const std::string& where,
                                std::string_view remedy = "F32, F16 or BF16");
const StoredTensor& get_tensor(std::span<const StoredTensor> tensors, const OtherTypes& other_types,
                               std::string_view name, const std::string& where);

}  // namespace weft
