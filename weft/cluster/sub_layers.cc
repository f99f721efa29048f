// From a model's numbers to the pieces of work of one block on one rank.
#include <algorithm>
#include <iterator>
#include <numeric>

#include <fmt/core.h>

#include "weft/base/error.h"
#include "weft/base/index.h"
#include "weft/cluster/cluster.h"
#include "weft/cluster/workload.h"
#include "weft/mesh/box.h"

namespace weft {
namespace {

// A forward piece and what its gradients exchange.
struct Pass {
  SubLayer forward;
  Collective bwd_before = Collective::none, bwd_after = Collective::none;
  Collective wgrad_before = Collective::none, wgrad_after = Collective::none;
};

struct Shape {
  std::int64_t m, n, k, count = 1;
};

Pass gemm_pass(std::string name, const Shape& shape) {
  Pass pass;
  pass.forward = {.name = std::move(name), .m = shape.m, .n = shape.n, .k = shape.k, .count = shape.count};
  return pass;
}

std::int64_t share(std::int64_t whole, int ranks, const Workload& w, const char* what) {
  if (whole % ranks != 0)
    bad_input("workload \"{}\": {} ({}) cannot be shared by {} ranks; use a number of ranks that divides it", w.name,
              what, whole, ranks);
  return whole / ranks;
}

// Columns are split: x whole on every rank, or gathered; the gradient of x is a sum over the ranks.
Pass column_split(Pass pass, Reduction reduction) {
  const bool scattered = reduction == Reduction::reduce_scatter;
  if (scattered) pass.forward.before = pass.wgrad_before = Collective::all_gather;
  pass.bwd_after = scattered ? Collective::reduce_scatter : Collective::all_reduce;
  return pass;
}

// k is split: the output is a sum over the ranks.
Pass row_split(Pass pass, Reduction reduction) {
  const bool scattered = reduction == Reduction::reduce_scatter;
  pass.forward.after = scattered ? Collective::reduce_scatter : Collective::all_reduce;
  if (scattered) pass.bwd_before = Collective::all_gather;
  return pass;
}

Pass attention_pass(std::int64_t m, std::int64_t n, std::int64_t keys) {
  Pass pass = gemm_pass("attention", {m, n, keys});
  pass.forward.work = WorkKind::attention;
  return pass;
}

// Heads split over the ranks. A rank holds at least one head of k and v: ranks beyond kv_heads hold the same one.
void add_tensor_attention(const Workload& w, const Parallel& parallel, Reduction reduction, std::vector<Pass>* out) {
  const std::int64_t q = share(w.heads * w.head_dim, parallel.ranks, w, "heads * head_dim");
  const std::int64_t kv = parallel.ranks > w.kv_heads && w.kv_heads < w.heads
                              ? w.head_dim
                              : share(w.kv_heads * w.head_dim, parallel.ranks, w, "kv_heads * head_dim");
  out->push_back(column_split(gemm_pass("ip", {w.tokens(), q + 2 * kv, w.hidden}), reduction));
  out->push_back(attention_pass(w.tokens(), q, w.sequence));
  out->push_back(row_split(gemm_pass("op", {w.tokens(), w.hidden, q}), reduction));
}

// Tokens split over the ranks: nothing is exchanged. The gradients of these weights are summed once a step, over many
// blocks, and are not counted here.
void add_data_attention(const Workload& w, const Parallel& parallel, std::vector<Pass>* out) {
  const std::int64_t m = share(w.tokens(), parallel.ranks, w, "sequence * batch");
  const std::int64_t width = w.heads * w.head_dim;
  if (w.q_rank > 0) {
    out->push_back(gemm_pass("q_down", {m, w.q_rank, w.hidden}));
    out->push_back(gemm_pass("q_up", {m, width + w.heads * w.rope_dim, w.q_rank}));
    out->push_back(gemm_pass("kv_down", {m, w.kv_rank + w.rope_dim, w.hidden}));
    out->push_back(gemm_pass("kv_up", {m, 2 * width, w.kv_rank}));
  } else {
    out->push_back(gemm_pass("ip", {m, width + 2 * w.kv_heads * w.head_dim, w.hidden}));
  }
  // Scores take head_dim + rope_dim columns and values head_dim: their mean, as flops counts both together.
  out->push_back(attention_pass(m, width + w.heads * w.rope_dim / 2, w.sequence));
  out->push_back(gemm_pass("op", {m, w.hidden, width}));
}

std::vector<Pass> transformer(const Workload& w, const Parallel& parallel) {
  std::vector<Pass> out;
  add_tensor_attention(w, parallel, parallel.reduction, &out);
  const std::int64_t ffn = share(w.ffn, parallel.ranks, w, "ffn");
  out.push_back(column_split(gemm_pass("fc1", {w.tokens(), w.gated ? 2 * ffn : ffn, w.hidden}), parallel.reduction));
  out.push_back(row_split(gemm_pass("fc2", {w.tokens(), w.hidden, ffn}), parallel.reduction));
  return out;
}

// Between attention and experts a rank holds its part of the tokens; all_to_all brings each to the ranks of its top_k
// experts and back. Experts are taken as evenly loaded, the last row of each filled up.
std::vector<Pass> moe(const Workload& w, const Parallel& parallel) {
  std::vector<Pass> out;
  if (w.attention == AttentionSplit::tensor)
    add_tensor_attention(w, parallel, Reduction::reduce_scatter, &out);
  else
    add_data_attention(w, parallel, &out);
  const std::int64_t own = share(w.tokens(), parallel.ranks, w, "sequence * batch");
  const std::int64_t experts = share(w.experts, parallel.ranks, w, "experts");
  const std::int64_t rows = ceil_div(w.tokens() * w.top_k, w.experts);
  const std::int64_t columns = w.gated ? 2 * w.ffn : w.ffn;
  out.push_back(gemm_pass("router", {own, w.experts, w.hidden}));
  if (w.shared_experts > 0) {
    out.push_back(gemm_pass("shared_fc1", {own, w.shared_experts * columns, w.hidden}));
    out.push_back(gemm_pass("shared_fc2", {own, w.hidden, w.shared_experts * w.ffn}));
  }
  Pass fc1 = gemm_pass("expert_fc1", {rows, columns, w.hidden, experts});
  fc1.forward.before = fc1.bwd_after = Collective::all_to_all;
  Pass fc2 = gemm_pass("expert_fc2", {rows, w.hidden, w.ffn, experts});
  fc2.forward.after = fc2.bwd_before = Collective::all_to_all;
  out.push_back(fc1);
  out.push_back(fc2);
  return out;
}

// Tables are whole on their rank, which pools the bags of the whole batch and sends every rank its samples; the dense
// part is the same on all ranks, each with its own samples.
std::vector<Pass> dlrm(const Workload& w, const Parallel& parallel) {
  const std::vector<int> tables = tables_of_ranks(w, parallel.ranks)[at(parallel.rank)];
  std::int64_t reads = 0;
  for (int table : tables) reads += w.multi_hot[at(table)];
  const auto num_tables = std::ssize(tables);
  Pass embedding = gemm_pass("embedding", {w.batch, num_tables * w.dim, reads});
  embedding.forward.work = WorkKind::embedding_bag;
  embedding.forward.dim = w.dim;
  embedding.forward.after = embedding.bwd_before = Collective::all_to_all;
  std::vector<Pass> out{embedding};

  const std::int64_t m = share(w.batch, parallel.ranks, w, "batch");
  const auto dense = [&](std::string name, std::int64_t n, std::int64_t k) {
    Pass pass = gemm_pass(std::move(name), {m, n, k});
    pass.wgrad_after = Collective::all_reduce;
    out.push_back(pass);
  };
  for (std::size_t i = 1; i < w.bottom.size(); ++i) dense(fmt::format("bottom{}", i), w.bottom[i], w.bottom[i - 1]);
  const std::int64_t met = w.interaction > 0 ? w.interaction : (std::ssize(w.rows) + 1) * w.dim;
  for (std::int64_t i = 1; i <= w.cross_layers; ++i) {
    dense(fmt::format("cross{}_down", i), w.cross_rank, met);
    dense(fmt::format("cross{}_up", i), met, w.cross_rank);
  }
  for (std::size_t i = 0; i < w.top.size(); ++i)
    dense(fmt::format("top{}", i + 1), w.top[i], i == 0 ? met : w.top[i - 1]);
  return out;
}

void add_backward(const Pass& pass, std::vector<SubLayer>* out) {
  SubLayer layer = pass.forward;
  layer.phase = Phase::backward;
  layer.name = pass.forward.name + "_bwd";
  layer.before = pass.bwd_before;
  layer.after = pass.bwd_after;
  if (layer.work == WorkKind::attention) layer.count *= 2;
  if (layer.work == WorkKind::gemm) std::swap(layer.n, layer.k);
  out->push_back(layer);
  if (layer.work != WorkKind::gemm) return;
  layer.name = pass.forward.name + "_wgrad";
  layer.before = pass.wgrad_before;
  layer.after = pass.wgrad_after;
  layer.m = pass.forward.k;
  layer.n = pass.forward.n;
  layer.k = pass.forward.m;
  out->push_back(layer);
}

double sent_elements(Collective collective, double elements, int ranks) {
  const double others = (ranks - 1.0) / ranks;
  switch (collective) {
    case Collective::none:
      return 0;
    case Collective::all_reduce:
      return 2 * others * elements;
    case Collective::reduce_scatter:
    case Collective::all_gather:
    case Collective::all_to_all:
      return others * elements;
  }
  return 0;
}

}  // namespace

std::vector<SubLayer> sub_layers(const Workload& workload, const Parallel& parallel) {
  if (parallel.ranks < 1 || parallel.rank < 0 || parallel.rank >= parallel.ranks)
    bad_input("no rank {} of {}; use 0 to ranks - 1", parallel.rank, parallel.ranks);
  const std::vector<Pass> passes = workload.kind == WorkloadKind::transformer ? transformer(workload, parallel)
                                   : workload.kind == WorkloadKind::moe       ? moe(workload, parallel)
                                                                              : dlrm(workload, parallel);
  std::vector<SubLayer> out;
  for (const Pass& pass : passes) out.push_back(pass.forward);
  for (auto pass = passes.rbegin(); pass != passes.rend(); ++pass) add_backward(*pass, &out);
  for (SubLayer& layer : out) layer.dtype = workload.dtype;
  return out;
}

std::vector<SubLayer> sub_layers(const Workload& workload, const Parallel& parallel, Phase phase) {
  std::vector<SubLayer> out = sub_layers(workload, parallel);
  std::erase_if(out, [phase](const SubLayer& layer) { return layer.phase != phase; });
  return out;
}

std::vector<std::vector<int>> tables_of_ranks(const Workload& workload, int ranks) {
  const auto num_tables = int_size(workload.multi_hot);
  if (ranks < 1 || ranks > num_tables)
    bad_input("workload \"{}\": {} tables cannot be dealt to {} ranks; use 1 to {}", workload.name, num_tables, ranks,
              num_tables);
  std::vector<int> order(num(num_tables));
  std::iota(order.begin(), order.end(), 0);
  const auto reads = [&](int table) { return workload.multi_hot[at(table)]; };
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return reads(a) > reads(b); });
  std::vector<std::vector<int>> tables(num(ranks));
  std::vector<std::int64_t> load(num(ranks));
  for (int table : order) {
    const auto rank = std::min_element(load.begin(), load.end()) - load.begin();
    tables[at(rank)].push_back(table);
    load[at(rank)] += reads(table);
  }
  for (auto& of_rank : tables) std::sort(of_rank.begin(), of_rank.end());
  return tables;
}

double flops(const SubLayer& layer) {
  const double m = layer.m, k = layer.k;
  if (layer.work == WorkKind::embedding_bag) return m * k * layer.dim;
  return 2 * m * layer.n * k * layer.count;
}

double sent_bytes(const SubLayer& layer, int ranks) {
  const double rows = static_cast<double>(layer.m) * layer.count;
  const double out = rows * layer.n;
  const double in = layer.work == WorkKind::embedding_bag ? out : rows * layer.k;
  return (sent_elements(layer.before, in, ranks) + sent_elements(layer.after, out, ranks)) * size_of(layer.dtype);
}

double compute_seconds(const SubLayer& layer, const Cluster& cluster) {
  if (layer.work == WorkKind::embedding_bag) return flops(layer) * size_of(layer.dtype) / cluster.read_bytes_per_s;
  return flops(layer) / cluster.flops_per_s;
}

}  // namespace weft
