#include "weft/study/ledger/local_parts.h"

#include <time.h>

#include <algorithm>
#include <functional>
#include <vector>

#include "weft/base/index.h"
#include "weft/base/statistics.h"
#include "weft/base/thread_pool.h"
#include "weft/kernel/gemm/gemm.h"
#include "weft/kernel/rows/elementwise.h"
#include "weft/kernel/rows/epilogue.h"
#include "weft/kernel/rows/norm.h"
#include "weft/llm/model/model_attention.h"

namespace weft {
namespace {

constexpr int kPasses = 7;

double thread_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// Of the processor: whoever else wants it meanwhile is no cost of the pass.
double median_seconds(const std::function<void()>& pass) {
  std::vector<double> times;
  pass();  // touches its memory
  for (int i = 0; i < kPasses; ++i) {
    const double start = thread_seconds();
    pass();
    times.push_back(thread_seconds() - start);
  }
  return median(times);
}

// The memory of one block's rows, and the passes over it in the order of Engine's.
class BlockPass {
 public:
  BlockPass(const ModelConfig& config, const ModelShard& shard, std::int64_t rows)
      : config_(config),
        shard_(shard),
        rows_(rows),
        attention_(config, shard, rows, threads_.size()),
        ld_((shard.heads.size() + 2 * shard.kv_heads.size()) * config.head_dim),
        hidden_(floats(config.hidden)),
        normed_(floats(config.hidden)),
        qkv_(floats(ld_)),
        attended_(floats(shard.attention_width)),
        wide_(floats(2 * shard.mlp.size())),
        activated_(floats(shard.mlp_width)) {
    if (!attention_.empty()) cache_.assign(num(2 * attention_.cache_floats()), 0.0f);
  }

  void run() {
    norm();
    attend();
    norm();
    if (config_.gated())
      gate(rows_, shard_.mlp.size(), config_.design.activation, wide_.data(), 2 * shard_.mlp.size(), activated_.data(),
           shard_.mlp_width);
    else
      apply(rows_, shard_.mlp.size(), {.activation = config_.design.activation}, activated_.data(), shard_.mlp_width);
    for (int sum = 0; sum < 2; ++sum)  // what a block adds to its rows, behind each product that is summed
      apply(rows_, config_.hidden, {.residual = hidden_.data(), .residual_ld = config_.hidden}, normed_.data(),
            config_.hidden);
  }

 private:
  std::vector<float> floats(std::int64_t cols) const { return std::vector<float>(num(rows_ * cols), 0.25f); }

  void norm() {
    rms_norm(rows_, config_.hidden, {hidden_.data()}, hidden_.data(), config_.hidden, normed_.data(), config_.hidden);
  }

  void attend() {
    if (attention_.empty()) return;
    const std::int64_t d = config_.head_dim, heads = shard_.heads.size(), kv = shard_.kv_heads.size();
    float *q = qkv_.data(), *k = q + heads * d, *v = k + kv * d;
    const RopeTable* rope = attention_.rope(0);
    if (rope != nullptr) rope->apply(0, rows_, heads, q, ld_), rope->apply(0, rows_, kv, k, ld_);
    const KvCache cache{cache_.data(), cache_.data() + attention_.cache_floats()};
    attention_.of(0).append(cache, 0, rows_, k, ld_, v, ld_);
    const AttentionRows rows{cache, 0, rows_, q, attended_.data()};
    attention_.of(0).run(threads_, {&rows, 1}, ld_, shard_.attention_width);
  }

  const ModelConfig& config_;
  const ModelShard& shard_;
  const std::int64_t rows_;
  ThreadPool threads_{1};
  ModelAttention attention_;
  const std::int64_t ld_;
  std::vector<float> hidden_, normed_, qkv_, attended_, wide_, activated_, cache_;
};

double pack_seconds(std::int64_t n, std::int64_t k) {
  const GemmKernel kernel(
      {.tile_rows = 64, .tile_cols = n, .k = k, .lda = k, .ldb = k, .b_dtype = Dtype::bf16, .b_transposed = true});
  const std::vector<std::uint16_t> weights(num(n * k), 0x3c00);
  std::vector<float> packed(num(kernel.packed_floats(n)));
  return median_seconds([&] { kernel.pack(n, weights.data(), packed.data()); });
}

}  // namespace

LocalParts time_local_parts(const ModelConfig& config, const ModelShard& shard, std::int64_t rows) {
  BlockPass pass(config, shard, rows);
  LocalParts out{.block_s = median_seconds([&] { pass.run(); })};
  const std::int64_t columns = std::max<std::int64_t>(shard.mlp.size(), 1);
  out.weight_s = pack_seconds(columns, config.hidden) / static_cast<double>(columns * config.hidden);
  return out;
}

}  // namespace weft
