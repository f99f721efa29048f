#include "weft/llm/model/model.h"

#include <cstring>

#include "weft/base/error.h"
#include "weft/base/index.h"
#include "weft/base/pages.h"
#include "weft/io/tensor/safetensors.h"
#include "weft/llm/model/tensor_names.h"

namespace weft {
namespace {

constexpr std::size_t kLine = 64;  // copies begin on a cache line

Dtype kept_dtype(StoredDtype dtype) { return dtype == StoredDtype::bf16 ? Dtype::bf16 : Dtype::f32; }

std::size_t stored_size(StoredDtype dtype) { return dtype == StoredDtype::f32 ? 4 : 2; }

std::string shape_text(std::span<const std::int64_t> shape) {
  std::string out;
  for (const std::int64_t size : shape) out += (out.empty() ? "" : " x ") + std::to_string(size);
  return out.empty() ? "a scalar" : out;
}

class FolderSource final : public TensorSource {
 public:
  explicit FolderSource(const std::string& folder) : folder_(folder), tensors_(TensorFolder::open(folder)) {}
  const StoredTensor* find(std::string_view name) const override { return tensors_.find(name); }
  std::string where() const override { return folder_; }

 private:
  std::string folder_;
  TensorFolder tensors_;
};

class FileSource final : public TensorSource {
 public:
  explicit FileSource(const std::string& path) : path_(path), file_(TensorFile::open(path)) {}
  const StoredTensor* find(std::string_view name) const override { return file_.find(name); }
  std::string where() const override { return path_; }

 private:
  std::string path_;
  TensorFile file_;
};

}  // namespace

std::shared_ptr<const TensorSource> folder_source(const std::string& folder) {
  return std::make_shared<FolderSource>(folder);
}

std::shared_ptr<const TensorSource> file_source(const std::string& path) { return std::make_shared<FileSource>(path); }

ModelSource open_model(const std::string& folder) { return {load_config(folder), folder_source(folder), nullptr}; }

// Finds tensors, checks them against the config, and takes this rank's part.
class ModelLoader {
 public:
  explicit ModelLoader(Model* model) : model_(model), config_(model->config()), shard_(model->shard_) {}

  void load() {
    const ModelShard& s = shard_;
    model_->embedding_ = rows_of(embedding_name(config_), {config_.vocab, config_.hidden}, {0, config_.vocab});
    if (const std::string name = positions_name(config_); !name.empty())
      model_->positions_ = rows_of(name, {config_.max_positions + 2, config_.hidden}, {0, config_.max_positions + 2});
    model_->head_ = config_.tied_head ? part_of(model_->embedding_, s.vocab)
                                      : rows_of(head_name(config_), {config_.vocab, config_.hidden}, s.vocab);
    const std::string norm = final_norm_name(config_);
    model_->final_norm_.weight = floats_of(norm, config_.hidden, {0, config_.hidden});
    if (config_.family == ModelFamily::opt)
      model_->final_norm_.bias =
          floats_of(norm.substr(0, norm.size() - 6) + "bias", config_.hidden, {0, config_.hidden});
    for (std::int64_t b = 0; b < config_.blocks; ++b) model_->blocks_.push_back(block_of(b));
  }

 private:
  const StoredTensor& get(const std::string& name, std::span<const std::int64_t> shape) const {
    const ModelSource& source = model_->source_;
    const StoredTensor* tensor = nullptr;
    const TensorSource* from = source.repaired.get();
    if (from != nullptr) tensor = from->find(fmt::format("rank{}.{}", shard_.rank, name));
    if (from != nullptr && tensor == nullptr) tensor = from->find(name);
    if (tensor == nullptr) {
      from = source.tensors.get();
      tensor = from->find(name);
    }
    if (tensor == nullptr)
      bad_input("{}: there is no tensor \"{}\", which the model of {} has; is the folder whole?", from->where(), name,
                config_.file);
    if (!std::equal(shape.begin(), shape.end(), tensor->shape.begin(), tensor->shape.end()))
      bad_input("{}: tensor \"{}\" is {}, but by {} it is {}; do the files belong together?", from->where(), name,
                shape_text(tensor->shape), config_.file, shape_text(shape));
    return *tensor;
  }

  std::byte* allot(std::size_t bytes) {
    auto& block = model_->copies_.emplace_back(new std::byte[bytes + kLine]);
    ask_for_huge_pages(block.get(), bytes + kLine);
    model_->copied_bytes_ += static_cast<std::int64_t>(bytes);
    const auto address = reinterpret_cast<std::uintptr_t>(block.get());
    return block.get() + (kLine - address % kLine) % kLine;
  }

  static bool readable_in_place(const StoredTensor& tensor) {
    return tensor.dtype != StoredDtype::f16 &&
           reinterpret_cast<std::uintptr_t>(tensor.data) % stored_size(tensor.dtype) == 0;
  }

  // `count` elements from `first` on, in the dtype they are kept in.
  static void take(const StoredTensor& tensor, std::int64_t first, std::int64_t count, std::byte* out) {
    if (kept_dtype(tensor.dtype) == Dtype::bf16)
      std::memcpy(out, tensor.data + first * 2, num(count) * 2);
    else
      widen(tensor, first, count, reinterpret_cast<float*>(out));
  }

  static Weight part_of(const Weight& whole, const IndexRange& rows) {
    const std::int64_t offset = rows.begin * whole.ld * size_of(whole.dtype);
    return {static_cast<const std::byte*>(whole.data) + offset, whole.dtype, rows.size(), whole.cols, whole.ld};
  }

  // Rows lie one behind the other in the file: a view, unless their format must change.
  Weight rows_of(const std::string& name, const std::vector<std::int64_t>& shape, const IndexRange& rows) {
    const StoredTensor& tensor = get(name, shape);
    const std::int64_t cols = shape[1];
    Weight weight{tensor.data, kept_dtype(tensor.dtype), shape[0], cols, cols};
    if (readable_in_place(tensor)) return part_of(weight, rows);
    weight.rows = rows.size();
    if (weight.empty()) return weight;
    std::byte* out = allot(num(rows.size() * cols) * size_of(weight.dtype));
    take(tensor, rows.begin * cols, rows.size() * cols, out);
    weight.data = out;
    return weight;
  }

  // Columns [begin, end) of all rows, with zeros up to `width`: a copy, unless they are all the columns there are.
  Weight columns_of(const std::string& name, const std::vector<std::int64_t>& shape, const IndexRange& columns,
                    std::int64_t width) {
    const StoredTensor& tensor = get(name, shape);
    Weight weight{tensor.data, kept_dtype(tensor.dtype), shape[0], width, width};
    if (columns.size() == shape[1] && width == shape[1] && readable_in_place(tensor)) return weight;
    const std::size_t row = num(width) * size_of(weight.dtype);
    std::byte* out = allot(row * num(shape[0]));
    std::memset(out, 0, row * num(shape[0]));
    for (std::int64_t r = 0; r < shape[0]; ++r)
      take(tensor, r * shape[1] + columns.begin, columns.size(), out + num(r) * row);
    weight.data = out;
    return weight;
  }

  const float* floats_of(const std::string& name, std::int64_t size, const IndexRange& part) {
    const std::vector<std::int64_t> shape{size};
    const StoredTensor& tensor = get(name, shape);
    if (part.size() == 0) return nullptr;
    auto* out = reinterpret_cast<float*>(allot(num(part.size()) * sizeof(float)));
    widen(tensor, part.begin, part.size(), out);
    return out;
  }

  Weight rows(std::int64_t block, BlockPart part, const IndexRange& of) {
    return rows_of(weight_name(config_, block, part), shape_of(config_, part), of);
  }

  const float* bias(std::int64_t block, BlockPart part, const IndexRange& of) {
    if (!has_bias(config_, part)) return nullptr;
    return floats_of(bias_name(config_, block, part), shape_of(config_, part)[0], of);
  }

  NormWeight norm(std::int64_t block, BlockPart part) {
    const IndexRange all{0, config_.hidden};
    return {floats_of(weight_name(config_, block, part), config_.hidden, all), bias(block, part, all)};
  }

  BlockWeights block_of(std::int64_t b) {
    const std::int64_t d = config_.head_dim;
    const IndexRange q{shard_.heads.begin * d, shard_.heads.end * d},
        kv{shard_.kv_heads.begin * d, shard_.kv_heads.end * d};
    const IndexRange all{0, config_.hidden};
    BlockWeights w;
    w.norm1 = norm(b, BlockPart::norm1);
    w.norm2 = norm(b, BlockPart::norm2);
    w.q = rows(b, BlockPart::q, q);
    w.k = rows(b, BlockPart::k, kv);
    w.v = rows(b, BlockPart::v, kv);
    w.q_bias = bias(b, BlockPart::q, q);
    w.k_bias = bias(b, BlockPart::k, kv);
    w.v_bias = bias(b, BlockPart::v, kv);
    w.o = columns_of(weight_name(config_, b, BlockPart::o), shape_of(config_, BlockPart::o), q, shard_.attention_width);
    w.o_bias = bias(b, BlockPart::o, all);
    if (config_.gated()) {
      w.gate = rows(b, BlockPart::gate, shard_.mlp);
      w.gate_bias = bias(b, BlockPart::gate, shard_.mlp);
    }
    w.up = rows(b, BlockPart::up, shard_.mlp);
    w.up_bias = bias(b, BlockPart::up, shard_.mlp);
    w.down = columns_of(weight_name(config_, b, BlockPart::down), shape_of(config_, BlockPart::down), shard_.mlp,
                        shard_.mlp_width);
    w.down_bias = bias(b, BlockPart::down, all);
    return w;
  }

  Model* model_;
  const ModelConfig& config_;
  const ModelShard& shard_;
};

Model::Model(const ModelSource& source, int rank, int ranks)
    : source_(source), shard_(shard_of(source.config, rank, ranks)) {
  ModelLoader(this).load();
}

Model::Model(Model&&) noexcept = default;
Model::~Model() = default;

Model Model::load(const std::string& folder, int rank, int ranks) { return Model(open_model(folder), rank, ranks); }

std::int64_t Model::bytes_per_token() const {
  const auto bytes = [](const Weight& w) { return w.rows * w.cols * size_of(w.dtype); };
  std::int64_t total = bytes(head_);
  for (const BlockWeights& b : blocks_)
    for (const Weight* w : {&b.q, &b.k, &b.v, &b.o, &b.gate, &b.up, &b.down}) total += bytes(*w);
  return total;
}

}  // namespace weft
