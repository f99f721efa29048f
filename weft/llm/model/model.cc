#include "weft/llm/model/model.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "weft/base/error.h"
#include "weft/base/index.h"
#include "weft/base/names.h"
#include "weft/base/pages.h"
#include "weft/base/quant/blocks.h"
#include "weft/io/tensor/gguf.h"
#include "weft/io/tensor/safetensors.h"
#include "weft/llm/gguf/gguf_model.h"
#include "weft/llm/model/tensor_names.h"

namespace weft {
namespace {

constexpr std::size_t kLine = 64;  // copies begin on a cache line
constexpr std::size_t kHugePage = std::size_t{2} << 20;
constexpr std::size_t kChunk = std::size_t{256} << 20;  // of memory that many copies share, lest each begin a page

constexpr Names<WeightPlace, 2> kPlaces{{{WeightPlace::mapped, "mapped"}, {WeightPlace::copied, "copied"}}};

Dtype kept_dtype(StoredDtype dtype) {
  if (is_blocked(dtype)) return blocked_dtype(dtype);
  if (dtype == StoredDtype::f16) return Dtype::f16;
  return dtype == StoredDtype::bf16 ? Dtype::bf16 : Dtype::f32;
}

// To which kernels need it aligned; blocks are bytes.
std::size_t stored_size(StoredDtype dtype) { return is_blocked(dtype) ? 1 : num(size_of(dtype)); }

// Where output `i` of a part lies in its tensor.
std::int64_t stored_row(const StoredTensor& tensor, const PartPlace& place, std::int64_t i) {
  const std::int64_t row = place.stored(i);
  return tensor.paired_rows == 0 ? row : gguf_row(row, tensor.paired_rows);
}

std::string shape_text(std::span<const std::int64_t> shape) {
  std::string out;
  for (const std::int64_t size : shape) out += (out.empty() ? "" : " x ") + std::to_string(size);
  return out.empty() ? "a scalar" : out;
}

// A TensorFolder or a TensorFile.
template <typename Tensors>
class StoredSource final : public TensorSource {
 public:
  explicit StoredSource(const std::string& path) : path_(path), tensors_(Tensors::open(path)) {}
  const StoredTensor* find(std::string_view name) const override { return tensors_.find(name); }
  std::string where() const override { return path_; }

 private:
  std::string path_;
  Tensors tensors_;
};

}  // namespace

std::shared_ptr<const TensorSource> folder_source(const std::string& folder) {
  return std::make_shared<StoredSource<TensorFolder>>(folder);
}

std::shared_ptr<const TensorSource> file_source(const std::string& path) {
  return std::make_shared<StoredSource<TensorFile>>(path);
}

ModelSource open_model(const std::string& folder) {
  if (is_gguf(folder)) return gguf_model(folder);
  ModelSource source{load_config(folder), folder_source(folder), nullptr};
  ModelConfig& config = source.config;
  const auto has = [&](const std::string& name) { return source.tensors->find(name) != nullptr; };
  if (!has(embedding_name(config)) && has(fmt::format("{}.weight", config.names->embedding))) config.root.clear();
  constexpr const char* kHead = "lm_head.weight";
  if (!has(config.head) && has(kHead)) config.head = kHead;
  if (config.tied_head && has(config.head)) config.tied_head = false;
  return source;
}

// Finds tensors, checks them against the config, and takes this rank's part.
class ModelLoader {
 public:
  ModelLoader(Model* model, WeightPlace place)
      : model_(model), config_(model->config()), shard_(model->shard_), place_(place) {}

  void load() {
    const ModelShard& s = shard_;
    refuse_experts(config_);
    model_->embedding_ = rows_of(embedding_name(config_), {config_.vocab, config_.hidden}, {0, config_.vocab});
    if (const std::string name = positions_name(config_); !name.empty())
      model_->positions_ = rows_of(name, {config_.positions_rows(), config_.hidden}, {0, config_.positions_rows()});
    model_->head_ = kept(config_.tied_head ? part_of(model_->embedding_, s.vocab)
                                           : rows_of(head_name(config_), {config_.vocab, config_.hidden}, s.vocab));
    model_->final_norm_.weight = norm_floats(final_norm_name(config_), config_.hidden, {0, config_.hidden});
    if (const std::string name = final_norm_bias_name(config_); !name.empty())
      model_->final_norm_.bias = floats_of(name, config_.hidden, {0, config_.hidden});
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

  // On a cache line. Large memory has huge pages; where all is copied, small copies share it.
  std::byte* allot(std::size_t bytes) {
    const std::size_t lines = (bytes + kLine - 1) / kLine * kLine;
    if (lines > free_bytes_) {
      const std::size_t least = place_ == WeightPlace::copied ? std::max(lines, kChunk) : lines;
      const std::size_t align = least < kHugePage ? kLine : kHugePage;
      const std::size_t size = (std::max(least, kLine) + align - 1) / align * align;
      auto* memory = static_cast<std::byte*>(std::aligned_alloc(align, size));
      if (memory == nullptr) fail(Code::no_memory, "no memory for {} bytes of weights", size);
      model_->copies_.emplace_back(memory, std::free);
      ask_for_huge_pages(memory, size);
      free_ = memory, free_bytes_ = place_ == WeightPlace::copied ? size : lines;
    }
    model_->copied_bytes_ += static_cast<std::int64_t>(bytes);
    std::byte* out = free_;
    free_ += lines, free_bytes_ -= lines;
    return out;
  }

  // A weight as the files have it, where it is to be multiplied with.
  Weight kept(Weight weight) {
    if (place_ == WeightPlace::mapped || weight.empty()) return weight;
    const std::size_t bytes = num(row_bytes(weight.dtype, weight.rows * weight.ld));
    std::byte* out = allot(bytes);
    std::memcpy(out, weight.data, bytes);
    weight.data = out;
    weight.huge_pages = true;
    return weight;
  }

  static bool readable_in_place(const StoredTensor& tensor) {
    return reinterpret_cast<std::uintptr_t>(tensor.data) % stored_size(tensor.dtype) == 0;
  }

  static void take(const StoredTensor& tensor, std::int64_t first, std::int64_t count, std::byte* out) {
    const std::size_t size = stored_size(tensor.dtype);
    std::memcpy(out, tensor.data + num(first) * size, num(count) * size);
  }

  static Weight part_of(const Weight& whole, const IndexRange& rows) {
    const std::int64_t offset = rows.begin * row_bytes(whole.dtype, whole.ld);
    return {static_cast<const std::byte*>(whole.data) + offset, whole.dtype, rows.size(), whole.cols, whole.ld};
  }

  // Rows lie one behind the other in the file: a view, unless they lie at odd addresses.
  Weight rows_of(const std::string& name, const std::vector<std::int64_t>& shape, const IndexRange& rows) {
    const StoredTensor& tensor = get(name, shape);
    const std::int64_t cols = shape[1];
    Weight weight{tensor.data, kept_dtype(tensor.dtype), shape[0], cols, cols};
    if (readable_in_place(tensor)) return part_of(weight, rows);
    weight.rows = rows.size();
    if (weight.empty()) return weight;
    std::byte* out =
        allot(num(row_bytes(weight.dtype, rows.size() * cols)));  // never in blocks, which any address does for
    take(tensor, rows.begin * cols, rows.size() * cols, out);
    weight.data = out;
    return weight;
  }

  // Outputs `rows` and inputs `cols` of a part, rows `width` elements apart: a view where the file has them so.
  Weight cut(const PartPlace& place, const IndexRange& rows, const IndexRange& cols, std::int64_t width) {
    const StoredTensor& tensor = get(place.name + ".weight", place.shape);
    const std::int64_t inputs = place.shape[place.transposed ? 0 : 1];
    Weight weight{tensor.data, kept_dtype(tensor.dtype), rows.size(), width, width};
    if (weight.empty()) return weight;
    const bool whole_rows = cols.size() == inputs && width == inputs;
    const bool in_order = !place.transposed && place.contiguous() && tensor.paired_rows == 0;
    if (whole_rows && in_order && readable_in_place(tensor)) {
      weight.data = tensor.data + (place.first + rows.begin) * row_bytes(weight.dtype, inputs);
      return kept(weight);
    }
    if (is_blocked(weight.dtype)) return cut_blocks(tensor, place, rows, cols, width);
    weight.huge_pages = place_ == WeightPlace::copied;
    const std::size_t row = num(width) * size_of(weight.dtype);
    std::byte* out = allot(row * num(rows.size()));
    std::memset(out, 0, row * num(rows.size()));
    if (place.transposed)
      take_transposed(tensor, place, rows, cols, row, out);
    else
      for (std::int64_t r = 0; r < rows.size(); ++r)
        take(tensor, stored_row(tensor, place, rows.begin + r) * inputs + cols.begin, cols.size(), out + num(r) * row);
    weight.data = out;
    return weight;
  }

  // The same of weights in blocks: whole blocks are copied, those at both ends with the columns of other ranks, for
  // which x has zeros; and blocks of zeros up to `width`.
  Weight cut_blocks(const StoredTensor& tensor, const PartPlace& place, const IndexRange& rows, const IndexRange& cols,
                    std::int64_t width) {
    const DtypeBlock block = block_shape(tensor.dtype);
    const std::int64_t inputs = place.shape[1], before = cols.begin / block.values;
    if (place.transposed || inputs % block.values != 0)
      bad_input("{}: tensor \"{}\" has no whole rows of {} blocks; use the model's folder", config_.file, tensor.name,
                to_string(tensor.dtype));
    const std::int64_t taken = cols.size() == 0 ? 0 : (cols.end + block.values - 1) / block.values - before;
    Weight weight{nullptr, kept_dtype(tensor.dtype), rows.size(), width, 0, cols.begin % block.values};
    const std::int64_t blocks = (weight.first + width + block.values - 1) / block.values;
    weight.ld = blocks * block.values;
    const std::size_t bytes = num(rows.size() * blocks * block.bytes);
    std::byte* out = allot(bytes);
    std::memset(out, 0, bytes);
    for (std::int64_t r = 0; r < rows.size(); ++r) {
      const std::int64_t from = stored_row(tensor, place, rows.begin + r) * (inputs / block.values) + before;
      std::memcpy(out + r * blocks * block.bytes, tensor.data + from * block.bytes, num(taken * block.bytes));
    }
    weight.data = out;
    return weight;
  }

  // Of a weight kept as (in, out): kTurned inputs at a time, so that both sides stay cached.
  static void take_transposed(const StoredTensor& tensor, const PartPlace& place, const IndexRange& rows,
                              const IndexRange& cols, std::size_t row, std::byte* out) {
    constexpr std::int64_t kTurned = 16;
    const std::size_t size = num(size_of(kept_dtype(tensor.dtype)));
    std::vector<std::byte> taken(num(kTurned * rows.size()) * size);
    for (std::int64_t begin = 0; begin < cols.size(); begin += kTurned) {
      const std::int64_t count = std::min(kTurned, cols.size() - begin);
      for (std::int64_t c = 0; c < count; ++c)
        take(tensor, (cols.begin + begin + c) * place.shape[1] + place.first + rows.begin, rows.size(),
             taken.data() + num(c * rows.size()) * size);
      for (std::int64_t r = 0; r < rows.size(); ++r)
        for (std::int64_t c = 0; c < count; ++c)
          std::memcpy(out + num(r) * row + num(begin + c) * size, taken.data() + num(c * rows.size() + r) * size, size);
    }
  }

  float* floats_of(const std::string& name, std::int64_t size, const IndexRange& part) {
    const std::vector<std::int64_t> shape{size};
    const StoredTensor& tensor = get(name, shape);
    if (part.size() == 0) return nullptr;
    auto* out = reinterpret_cast<float*>(allot(num(part.size()) * sizeof(float)));
    widen(tensor, part.begin, part.size(), out);
    return out;
  }

  const float* norm_floats(const std::string& name, std::int64_t size, const IndexRange& part) {
    float* out = floats_of(name, size, part);
    for (std::int64_t i = 0; config_.design.norm_adds_one && i < part.size(); ++i) out[i] += 1.0f;
    return out;
  }

  bool has(BlockPart part) const { return std::find(parts_.begin(), parts_.end(), part) != parts_.end(); }

  Weight rows(std::int64_t block, BlockPart part, const IndexRange& of) {
    if (!has(part)) return {};
    return cut(place_of(config_, block, part), of, {0, config_.hidden}, config_.hidden);
  }

  // This rank's outputs, group by group where heads take turns.
  float* bias(std::int64_t block, BlockPart part, const IndexRange& of) {
    if (!has(part) || !has_bias(config_, part)) return nullptr;
    const PartPlace place = place_of(config_, block, part);
    const std::vector<std::int64_t> shape{place.shape[place.transposed ? 1 : 0]};
    const StoredTensor& tensor = get(place.name + ".bias", shape);
    if (of.size() == 0) return nullptr;
    auto* out = reinterpret_cast<float*>(allot(num(of.size()) * sizeof(float)));
    for (std::int64_t i = 0; i < of.size();) {
      const std::int64_t group = std::min(of.size() - i, place.group - (of.begin + i) % place.group);
      const std::int64_t count = tensor.paired_rows == 0 ? group : 1;
      widen(tensor, stored_row(tensor, place, of.begin + i), count, out + i);
      i += count;
    }
    return out;
  }

  // Of what is added to the residual.
  const float* output_bias(std::int64_t block, BlockPart part) {
    float* out = bias(block, part, {0, config_.hidden});
    for (std::int64_t i = 0; out != nullptr && i < config_.hidden; ++i)
      out[i] *= static_cast<float>(config_.design.residual_scale);
    return out;
  }

  NormWeight norm(std::int64_t block, BlockPart part) {
    if (!has(part)) return {};
    const IndexRange all{0, config_.hidden};
    return {norm_floats(weight_name(config_, block, part), config_.hidden, all), bias(block, part, all)};
  }

  const float* head_norm(std::int64_t block, BlockPart part, const IndexRange& columns) {
    if (!has(part)) return nullptr;
    const bool whole = config_.design.qk_norm == QkNorm::whole;
    return norm_floats(weight_name(config_, block, part), shape_of(config_, part)[0],
                       whole ? columns : IndexRange{0, config_.head_dim});
  }

  BlockWeights block_of(std::int64_t b) {
    const std::int64_t d = config_.head_dim;
    const IndexRange q{shard_.heads.begin * d, shard_.heads.end * d},
        kv{shard_.kv_heads.begin * d, shard_.kv_heads.end * d};
    const IndexRange all{0, config_.hidden};
    BlockWeights w;
    w.norm1 = norm(b, BlockPart::norm1);
    w.norm2 = norm(b, BlockPart::norm2);
    w.post_norm1 = norm(b, BlockPart::post_norm1);
    w.post_norm2 = norm(b, BlockPart::post_norm2);
    w.q = rows(b, BlockPart::q, q);
    w.k = rows(b, BlockPart::k, kv);
    w.v = rows(b, BlockPart::v, kv);
    w.q_bias = bias(b, BlockPart::q, q);
    w.k_bias = bias(b, BlockPart::k, kv);
    w.v_bias = bias(b, BlockPart::v, kv);
    w.q_norm = head_norm(b, BlockPart::q_norm, q);
    w.k_norm = head_norm(b, BlockPart::k_norm, kv);
    w.o = cut(place_of(config_, b, BlockPart::o), all, q, shard_.attention_width);
    w.o_bias = output_bias(b, BlockPart::o);
    w.gate = rows(b, BlockPart::gate, shard_.mlp);
    w.gate_bias = bias(b, BlockPart::gate, shard_.mlp);
    w.up = rows(b, BlockPart::up, shard_.mlp);
    w.up_bias = bias(b, BlockPart::up, shard_.mlp);
    w.down = cut(place_of(config_, b, BlockPart::down), all, shard_.mlp, shard_.mlp_width);
    w.down_bias = output_bias(b, BlockPart::down);
    return w;
  }

  Model* model_;
  const ModelConfig& config_;
  const ModelShard& shard_;
  WeightPlace place_;
  std::byte* free_ = nullptr;  // of the last memory
  std::size_t free_bytes_ = 0;
  const std::vector<BlockPart> parts_ = block_parts(config_);
};

WeightPlace parse_weight_place(std::string_view name) { return parse_name(kPlaces, "weights", name); }

Model::Model(const ModelSource& source, int rank, int ranks, WeightPlace place)
    : source_(source), shard_(shard_of(source.config, rank, ranks)) {
  ModelLoader(this, place).load();
}

Model::Model(Model&&) noexcept = default;
Model::~Model() = default;

Model Model::load(const std::string& folder, int rank, int ranks) { return Model(open_model(folder), rank, ranks); }

std::int64_t Model::bytes_per_token() const {
  const auto bytes = [](const Weight& w) {
    return w.rows * (is_blocked(w.dtype) ? row_bytes(w.dtype, w.ld) : w.cols * size_of(w.dtype));
  };
  std::int64_t total = bytes(head_);
  for (const BlockWeights& b : blocks_)
    for (const Weight* w : {&b.q, &b.k, &b.v, &b.o, &b.gate, &b.up, &b.down}) total += bytes(*w);
  return total;
}

}  // namespace weft
