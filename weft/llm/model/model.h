// One rank's part of a model, ready to be multiplied with. Rows of weights are read where the mapped files have them
// (row-major, one row per output); the output projections, of which a rank needs columns, are copied once, and so are
// tensors that hold parts head by head or the other way round (tensor_names.h). Nothing else of the files is touched.
// Or all that a token reads is copied, into pages that make tokens quicker. What a description says of weights is done
// here: norms that add one, biases that are scaled.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "weft/base/dtype.h"
#include "weft/base/index.h"
#include "weft/llm/model/config.h"
#include "weft/llm/model/shard.h"

namespace weft {

struct StoredTensor;

// Where tensors come from: a folder (io/safetensors.h), a GGUF file (gguf/gguf_model.h), or random values
// (random_model.h).
class TensorSource {
 public:
  virtual ~TensorSource() = default;
  virtual const StoredTensor* find(std::string_view name) const = 0;  // null where there is none
  virtual std::string where() const = 0;                              // what messages begin with
};
std::shared_ptr<const TensorSource> folder_source(const std::string& folder);
std::shared_ptr<const TensorSource> file_source(const std::string& path);  // one .safetensors file

// A matrix of weights, (rows, cols) row-major, f32, bf16 or f16, or in blocks, of which rows are a whole number.
struct Weight {
  const void* data = nullptr;
  Dtype dtype = Dtype::f32;
  std::int64_t rows = 0, cols = 0, ld = 0;  // ld: elements from row to row
  std::int64_t first = 0;                   // in blocks: columns of a row's first block that come before its own
  bool huge_pages = false;                  // asked for, for its memory

  bool empty() const { return rows == 0 || cols == 0; }
};

struct NormWeight {
  const float* weight = nullptr;  // (hidden)
  const float* bias = nullptr;    // (hidden), or null
};

// What a model's design does not have is empty or null.
struct BlockWeights {
  NormWeight norm1, norm2;                           // before the halves of a block
  NormWeight post_norm1, post_norm2;                 // behind them
  const float *q_norm = nullptr, *k_norm = nullptr;  // (head_dim), or (this rank's columns) where all heads are normed
  Weight q, k, v;                                    // (this rank's columns, hidden)
  const float *q_bias = nullptr, *k_bias = nullptr, *v_bias = nullptr;  // this rank's
  Weight o;                                                             // (hidden, shard.attention_width)
  const float* o_bias = nullptr;                                        // (hidden): added once, whatever the ranks
  Weight gate, up;                                                      // (this rank's columns, hidden)
  const float *gate_bias = nullptr, *up_bias = nullptr;
  Weight down;  // (hidden, shard.mlp_width)
  const float* down_bias = nullptr;
};

struct ModelSource {
  ModelConfig config;
  std::shared_ptr<const TensorSource> tensors;
  // Tensors that take the place of those of the same name, as the repaired weights of an spd file; may be null. One
  // named "rank<i>.NAME" is for rank i alone.
  std::shared_ptr<const TensorSource> repaired;
};
// The config and tensors of a folder, or of a GGUF file. Where the files differ from what the config leads to expect,
// the files are right: a head beside a tied one, and the several spellings of GPT-2 and GPT-NeoX.
ModelSource open_model(const std::string& folder);

// Where weights are while they are multiplied with.
//   mapped  in the files' pages: nothing is read before it is needed, and processes share memory
//   copied  in memory of this process, of huge pages where the kernel has them: a token takes less time, the start as
//           long as reading the files takes
enum class WeightPlace { mapped, copied };
WeightPlace parse_weight_place(std::string_view name);  // throws bad_input

class Model {
 public:
  // Throws bad_input naming the tensor where one is missing or of another shape. The bits of all results are the same
  // wherever weights are.
  Model(const ModelSource& source, int rank, int ranks, WeightPlace place = WeightPlace::mapped);
  Model(Model&&) noexcept;
  ~Model();
  static Model load(const std::string& folder, int rank = 0, int ranks = 1);

  const ModelConfig& config() const { return source_.config; }
  const ModelShard& shard() const { return shard_; }
  const BlockWeights& block(std::int64_t index) const { return blocks_[at(index)]; }
  const NormWeight& final_norm() const { return final_norm_; }
  const Weight& head() const { return head_; }            // (this rank's rows, hidden)
  const Weight& embedding() const { return embedding_; }  // (vocab, hidden), whole
  const Weight& positions() const { return positions_; }  // learned: (positions_rows(), hidden)
  std::int64_t copied_bytes() const { return copied_bytes_; }
  // Bytes of weights that one token reads on this rank: all but the embedding.
  std::int64_t bytes_per_token() const;

 private:
  friend class ModelLoader;
  ModelSource source_;
  ModelShard shard_;
  std::vector<BlockWeights> blocks_;
  NormWeight final_norm_;
  Weight head_, embedding_, positions_;
  std::vector<std::unique_ptr<std::byte, void (*)(void*)>> copies_;
  std::int64_t copied_bytes_ = 0;
};

// What an spd file says it is for: SHA-256 (hex) over the text of config.json (of a GGUF file: what stands for it) and,
// for every tensor of the model in the model's order, its name, dtype, shape and 16 samples of 64 bytes at equal
// distances. The folder's own tensors, never the repaired ones.
std::string model_hash(const std::string& folder);

}  // namespace weft
