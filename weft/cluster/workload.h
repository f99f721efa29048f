// Workloads as data: the shapes of one block of a model, what each product of it exchanges with the other ranks, and
// a smaller version for small machines. Bench, ledger, GPU and simulator read the same table. The files in workloads/
// hold only a model's own numbers: every sub-layer is computed from them for the number of ranks asked for.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "weft/base/dtype.h"

namespace weft {

struct Cluster;

enum class WorkloadKind { transformer, moe, dlrm };
enum class AttentionSplit { tensor, data };  // over the ranks: its heads, or its tokens
enum class Collective { none, all_reduce, reduce_scatter, all_gather, all_to_all };
enum class Phase { forward, backward };
enum class WorkKind { gemm, attention, embedding_bag };

std::string_view to_string(Collective collective);

// A smaller model for a small machine. What is left at its default stays as it is.
//   tokens   sequence * batch becomes this; flops and bytes of a sub-layer both follow it, so their ratio stays
//   hidden   factor on hidden, heads, kv_heads, latent ranks (dlrm: on the widths of the dense part); head_dim stays
//   ffn      factor on ffn
// Kept: every output is still tokens x hidden, and k of a rank, which is flops for each element exchanged, is that of
// the full model times (factor * full ranks / ranks), the factor being `hidden` for attention's projections and `ffn`
// for fc1 and fc2. So factors of ranks / full ranks keep compute : communication, but for the (N - 1) / N of an output
// that travels. Experts are whole on a rank: their ratio is multiplied by `ffn` alone. Attention itself shrinks with
// the sequence and exchanges nothing. The dtype stays: on a machine that sends f32 for bf16, bytes double throughout.
struct Scale {
  int ranks = 4;  // the ranks it is meant for
  std::int64_t tokens = 0;
  double hidden = 1, ffn = 1;
  std::int64_t experts = 0, top_k = 0;  // moe
  std::int64_t rows = 0;                // dlrm: no table has more; lookups and bytes sent stay, cache hits do not
  std::int64_t batch = 0;               // dlrm
  std::string why;

  friend bool operator==(const Scale&, const Scale&) = default;
};

// How a model is trained on many ranks: tp * pp * dp * ep of them. Replicas (dp) share the batch, stages (pp) the
// layers, ranks of a stage the widths (tp) or the experts (ep: moe alone, whose attention is split over them too).
struct Training {
  int tp = 1, pp = 1, dp = 1, ep = 1;
  std::string schedule = "1f1b";  // a kind of weft/schedule/build.h
  int chunks = 1;                 // of each stage; interleaved_1f1b alone has more
  int micro_batches = 1;          // of a replica, per step
  std::int64_t micro_batch = 1;   // sequences; dlrm: samples of a rank

  int ranks() const { return tp * pp * dp * ep; }
  friend bool operator==(const Training&, const Training&) = default;
};

struct Workload {
  std::string name;
  std::string source;  // where each number comes from, or "assumed"
  WorkloadKind kind = WorkloadKind::transformer;
  Dtype dtype = Dtype::bf16;  // of activations, as they travel
  std::int64_t batch = 0;     // of all ranks together: sequences, or samples (dlrm)
  std::vector<int> degrees;   // numbers of ranks the model is used with
  Scale scale_down;           // the stated one for small machines
  Training training;          // the stated one for large ones

  // transformer and moe
  std::int64_t hidden = 0, layers = 0, heads = 0, kv_heads = 0, head_dim = 0, ffn = 0, sequence = 0;
  bool gated = false;  // fc1 makes 2 * ffn columns
  // moe: `ffn` is that of one expert; ranks hold experts / ranks whole experts each
  std::int64_t experts = 0, top_k = 0, shared_experts = 0;
  AttentionSplit attention = AttentionSplit::tensor;
  std::int64_t q_rank = 0, kv_rank = 0, rope_dim = 0;  // latent attention; 0: plain

  // dlrm: table t has rows[t] rows of `dim`, of which a sample reads multi_hot[t]
  std::int64_t dim = 0;
  std::vector<std::int64_t> rows, multi_hot;
  std::vector<std::int64_t> bottom, top;          // widths: bottom begins with the dense features
  std::int64_t cross_layers = 0, cross_rank = 0;  // low-rank cross network between them
  std::int64_t interaction = 0;  // what the cross network and top meet; 0: all tables' rows and bottom's, side by side

  std::int64_t tokens() const { return kind == WorkloadKind::dlrm ? batch : sequence * batch; }
  friend bool operator==(const Workload&, const Workload&) = default;
};

// One piece of work of a block on one rank.
//   gemm           `count` products of x (m, k) and w (k, n)
//   attention      m queries of n columns (heads * head_dim) over k keys, causal; backward counts twice
//   embedding_bag  m samples; n = tables * dim columns out; k rows of `dim` read for each sample
struct SubLayer {
  std::string name;  // ip (q, k and v), attention, op, fc1, fc2, expert_fc2, embedding, ...; _bwd for the gradient of
                     // its input, _wgrad for that of its weights
  Phase phase = Phase::forward;
  WorkKind work = WorkKind::gemm;
  std::int64_t m = 0, n = 0, k = 0, count = 1, dim = 0;
  Collective before = Collective::none;  // brings its input, (m, k); embedding_bwd: (m, n)
  Collective after = Collective::none;   // takes its output, (m, n)
  Dtype dtype = Dtype::bf16;

  bool communicates() const { return before != Collective::none || after != Collective::none; }
};

enum class Reduction {
  all_reduce,      // after op and fc2; every rank holds every token between them
  reduce_scatter,  // and an all_gather before the next product: ranks share the tokens between them
};

struct Parallel {
  int ranks = 1;
  int rank = 0;                                 // dlrm: whose tables; other kinds are alike on all ranks
  Reduction reduction = Reduction::all_reduce;  // transformer; moe is always reduce_scatter
};

// One block in the order it is computed, forward then backward. dlrm: the whole model. Throws bad_input where the ranks
// cannot share a width; the message names it and the numbers of ranks that can.
std::vector<SubLayer> sub_layers(const Workload& workload, const Parallel& parallel);
std::vector<SubLayer> sub_layers(const Workload& workload, const Parallel& parallel, Phase phase);

// dlrm: the tables of every rank, whole, most rows read first and each to the rank with the least to read so far.
std::vector<std::vector<int>> tables_of_ranks(const Workload& workload, int ranks);

double flops(const SubLayer& layer);                  // 2 m n k count; embedding_bag: the additions
double sent_bytes(const SubLayer& layer, int ranks);  // by one rank, both collectives, at the least possible traffic
// gemm and attention at the cluster's flops, embedding_bag at its read bandwidth.
double compute_seconds(const SubLayer& layer, const Cluster& cluster);

// See Scale. Throws bad_input where a factor leaves part of a head or nothing of a width. The result's scale_down is
// void, its degrees are {scale.ranks} and its source says what was done.
Workload scaled(const Workload& workload, const Scale& scale);

// A name is looked for in the folder workloads/ (data_file.h). All throw bad_input naming file, field, value and
// remedy; no field is optional but "note", "training" and "interaction".
Workload load_workload(const std::string& name_or_path);
Workload parse_workload(std::string_view json, std::string_view where);
std::vector<std::string> workload_names();  // of the first of those folders that is there, sorted

}  // namespace weft
