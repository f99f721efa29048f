// Tensors in memory under a model's names, f32, of one dimension: biases that its files do not have.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "weft/io/tensor/safetensors.h"
#include "weft/llm/model/model.h"

namespace weft {

class MemorySource : public TensorSource {
 public:
  explicit MemorySource(std::string where) : where_(std::move(where)) {}

  void put(const std::string& name, std::vector<float> values) {
    Entry& entry = entries_[name];
    entry.values = std::move(values);
    entry.tensor = f32_tensor(name, entry.values);
  }
  const StoredTensor* find(std::string_view name) const override {
    const auto found = entries_.find(name);
    return found == entries_.end() ? nullptr : &found->second.tensor;
  }
  std::string where() const override { return where_; }

  // A view of values that stay where they are.
  static StoredTensor f32_tensor(const std::string& name, const std::vector<float>& values) {
    return {.name = name,
            .dtype = StoredDtype::f32,
            .shape = {std::ssize(values)},
            .data = reinterpret_cast<const std::byte*>(values.data()),
            .bytes = values.size() * sizeof(float)};
  }

 private:
  struct Entry {
    std::vector<float> values;
    StoredTensor tensor;
  };
  std::string where_;
  std::map<std::string, Entry, std::less<>> entries_;
};

}  // namespace weft
