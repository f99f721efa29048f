#include "weft/llm/gguf/file_tensors.h"

#include <algorithm>
#include <cstring>

#include "weft/base/error.h"
#include "weft/base/index.h"
#include "weft/base/thread_pool.h"
#include "weft/llm/gguf/gguf_model.h"

namespace weft {
namespace {

// Rows of a folder's tensor as f32. One that is kept as (in, out) is widened once, whole, and read across.
class FolderRows {
 public:
  FolderRows(const FileStretch& stretch, std::int64_t cols) : stretch_(stretch), cols_(cols) {
    if (!across()) return;
    whole_.resize(num(stretch.tensor->elements()));
    widen(*stretch.tensor, 0, stretch.tensor->elements(), whole_.data());
  }
  void row(std::int64_t i, float* out) const {
    const std::int64_t stored = stretch_.from.stored(i);
    if (!across()) return widen(*stretch_.tensor, stored * cols_, cols_, out);
    for (std::int64_t c = 0; c < cols_; ++c) out[c] = whole_[at(c * stretch_.from.shape[1] + stored)];
  }

 private:
  bool across() const { return stretch_.from.transposed && cols_ > 1; }

  const FileStretch& stretch_;
  std::int64_t cols_;
  std::vector<float> whole_;
};

class FileTensors {
 public:
  FileTensors(const ModelSource& folder, const GgufFamily& family)
      : folder_(folder), from_(folder.config), family_(family), file_(folder.config) {
    set_gguf_layout(family.fused, &file_);
  }

  std::vector<FileTensor> make() {
    const bool adds_one = from_.design.norm_adds_one;
    const std::vector<std::int64_t> table{from_.vocab, from_.hidden}, row{from_.hidden};
    whole(embedding_name(from_), embedding_name(file_), table).kind = FileTensorKind::embedding;
    if (const std::string name = positions_name(from_); !name.empty())
      whole(name, positions_name(file_), {from_.positions_rows(), from_.hidden}).kind = FileTensorKind::positions;
    for (std::int64_t block = 0; block < from_.blocks; ++block)
      for (const BlockPart part : block_parts(from_)) {
        add(block, part, ".weight");
        if (has_bias(from_, part)) add(block, part, ".bias");
      }
    whole(final_norm_name(from_), final_norm_name(file_), row).added = adds_one ? 1.0f : 0.0f;
    if (const std::string name = final_norm_bias_name(from_); !name.empty())
      whole(name, final_norm_bias_name(file_), row);
    if (!from_.tied_head) whole(head_name(from_), head_name(file_), table).kind = FileTensorKind::embedding;
    return std::move(all_);
  }

 private:
  const StoredTensor* get(const std::string& name, const std::vector<std::int64_t>& shape) const {
    const StoredTensor* tensor = folder_.tensors->find(name);
    if (tensor == nullptr || tensor->shape != shape)
      bad_input("{}: there is no tensor \"{}\" of the shape that its config.json says; is the folder whole?",
                folder_.tensors->where(), name);
    return tensor;
  }

  FileTensor& whole(const std::string& from, const std::string& name, const std::vector<std::int64_t>& shape) {
    FileStretch stretch{get(from, shape), {.shape = shape}, 0, shape[0]};
    stretch.from.group = stretch.from.stride = std::max<std::int64_t>(shape[0], 1);
    FileTensor& out = all_.emplace_back();
    out.name = name, out.shape = shape;
    if (shape.size() == 1) out.kind = FileTensorKind::vector;
    out.stretches.push_back(std::move(stretch));
    return out;
  }

  FileTensor& tensor_of(const std::string& name) {
    const auto found =
        std::find_if(all_.rbegin(), all_.rend(), [&](const FileTensor& one) { return one.name == name; });
    if (found != all_.rend()) return *found;
    all_.emplace_back().name = name;
    return all_.back();
  }

  // Parts that the file has in one tensor follow each other in the list of parts.
  void add(std::int64_t block, BlockPart part, const char* ending) {
    const bool bias = ending == std::string_view(".bias");
    const PartPlace from = place_of(from_, block, part), to = place_of(file_, block, part);
    const std::vector<std::int64_t> own = shape_of(from_, part);
    const std::vector<std::int64_t> stored = bias ? std::vector{from.shape[from.transposed ? 1 : 0]} : from.shape;
    FileTensor& tensor = tensor_of(to.name + ending);
    if (tensor.stretches.empty()) {
      tensor.shape = bias ? std::vector{to.shape[0]} : to.shape;
      tensor.block = block, tensor.part = part;
      if (tensor.shape.size() == 1) tensor.kind = FileTensorKind::vector;
      if (family_.paired && (part == BlockPart::q || part == BlockPart::k)) tensor.head_rows = from_.head_dim;
      if (own.size() == 1 && !bias && from_.design.norm_adds_one) tensor.added = 1;
    }
    tensor.stretches.push_back({get(from.name + ending, stored), from, to.first, own[0]});
  }

  const ModelSource& folder_;
  const ModelConfig& from_;
  const GgufFamily& family_;
  ModelConfig file_;
  std::vector<FileTensor> all_;
};

GgufTensor float_tensor(const char* name, const std::vector<float>& values) {
  return {name, StoredDtype::f32, {std::ssize(values)}, [values] {
            std::vector<std::byte> bytes(values.size() * 4);
            std::memcpy(bytes.data(), values.data(), bytes.size());
            return bytes;
          }};
}

}  // namespace

std::int64_t FileTensor::bytes_read() const {
  std::int64_t bytes = 0;
  for (const FileStretch& stretch : stretches)
    bytes += static_cast<std::int64_t>(stretch.tensor->bytes) * stretch.outputs / (stretch.tensor->elements() / cols());
  return bytes;
}

std::vector<FileTensor> file_tensors(const ModelSource& folder, const GgufFamily& family) {
  return FileTensors(folder, family).make();
}

std::vector<GgufTensor> rotary_tensors(const GgufFacts& facts) {
  if (facts.divisors.empty()) return {};
  if (facts.long_divisors.empty()) return {float_tensor("rope_freqs.weight", facts.divisors)};
  return {float_tensor("rope_factors_long.weight", facts.long_divisors),
          float_tensor("rope_factors_short.weight", facts.divisors)};
}

void each_row(const FileTensor& tensor, ThreadPool& threads, const TakeRow& take) {
  for (const FileStretch& stretch : tensor.stretches) {
    const FolderRows from(stretch, tensor.cols());
    threads.run([&](int thread) {
      std::vector<float> row(num(tensor.cols()));
      const std::int64_t n = stretch.outputs;
      for (std::int64_t r = n * thread / threads.size(); r < n * (thread + 1) / threads.size(); ++r) {
        from.row(r, row.data());
        for (float& value : row) value += tensor.added;
        take(stretch.first + (tensor.head_rows == 0 ? r : gguf_row(r, tensor.head_rows)), row);
      }
    });
  }
}

}  // namespace weft
