// The tensors of a GGUF file that is made of a folder, and where the folder has their rows: under other names, parts of
// a block in one tensor or apart, heads in turn or not, weights (in, out) or not, rotary rows in pairs, norms with
// their one. What becomes of the values is the caller's.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "weft/io/tensor/write_gguf.h"
#include "weft/llm/gguf/gguf_facts.h"
#include "weft/llm/model/model.h"
#include "weft/llm/model/tensor_names.h"

namespace weft {

class ThreadPool;

// Rows of a file's tensor: outputs of one part of a block, or all of a tensor that has no parts.
struct FileStretch {
  const StoredTensor* tensor = nullptr;  // the folder's
  PartPlace from;                        // where it lies in there
  std::int64_t first = 0, outputs = 0;   // rows of the file's tensor
};

enum class FileTensorKind { weight, vector, embedding, positions };  // vector: norms and biases

struct FileTensor {
  std::string name;
  FileTensorKind kind = FileTensorKind::weight;
  std::vector<std::int64_t> shape;
  std::int64_t block = -1;            // whose it is; -1: of none
  BlockPart part = BlockPart::norm1;  // of that block; the first where several share a tensor
  std::vector<FileStretch> stretches;
  std::int64_t head_rows = 0;  // of q and k whose rows lie in pairs; 0: they do not
  float added = 0;             // to every value: a norm's one

  std::int64_t cols() const { return shape.size() < 2 ? 1 : shape.back(); }
  std::int64_t rows() const { return shape.front(); }
  std::int64_t bytes_read() const;  // of the folder
};

// In the order of the model. Throws bad_input where the folder lacks one, or has another shape.
std::vector<FileTensor> file_tensors(const ModelSource& folder, const GgufFamily& family);

// What rates of rotary positions are divided by, as tensors; none where the settings say all.
std::vector<GgufTensor> rotary_tensors(const GgufFacts& facts);

// Every row as f32 with its place in the file's tensor, threads sharing the rows.
using TakeRow = std::function<void(std::int64_t row, std::span<float> values)>;
void each_row(const FileTensor& tensor, ThreadPool& threads, const TakeRow& take);

}  // namespace weft
