// What the rows of a model's ledger should take: the plans of its synchronisations and of its local products, priced on
// this machine's rates, and what lies between them, timed for this model's shapes (local_parts.h). All blocks have one
// shape, so a block is priced once.
#include <algorithm>
#include <thread>

#include "weft/base/index.h"
#include "weft/collective/build.h"
#include "weft/kernel/gemm/gemv.h"
#include "weft/llm/engine/reduction.h"
#include "weft/llm/model/shard.h"
#include "weft/plan/price/estimate.h"
#include "weft/study/ledger/hardware.h"
#include "weft/study/ledger/local_parts.h"
#include "weft/study/ledger/model_ledger.h"

namespace weft {
namespace {

struct Product {
  std::int64_t m, n, k;
};

class ModelPricer {
 public:
  ModelPricer(const ModelTask& task, const Cluster& cluster, const LocalParts& local)
      : task_(task),
        config_(task.source.config),
        cluster_(cluster),
        local_(local),
        shard_(shard_of(config_, 0, task.ranks)),
        mesh_({{"tp", task.ranks}}),
        rows_(int_size(task.prompt)) {}

  double seconds(const ModelForm& form) const {
    double out = kept({1, shard_.vocab.size(), config_.hidden});
    for (const BlockMode& mode : form.modes) out += block_s(form.sync, mode);
    return out;
  }

  std::vector<Product> summed() const {
    return {{rows_, config_.hidden, shard_.attention_width}, {rows_, config_.hidden, shard_.mlp_width}};
  }

 private:
  double block_s(Style sync, const BlockMode& mode) const {
    const auto products = summed();
    double out = local_s() + sync_s(products[1], sync, mode.wire);
    out += mode.drop ? kept(products[0]) : sync_s(products[0], sync, mode.wire);
    return out;
  }

  double local_s() const {
    const std::int64_t attended = shard_.heads.size() * config_.head_dim;
    const std::int64_t qkv = attended + 2 * shard_.kv_heads.size() * config_.head_dim;
    const std::int64_t up = shard_.mlp.size() * (config_.gated() ? 2 : 1);
    return kept({rows_, qkv, config_.hidden}) + kept({rows_, up, config_.hidden}) + local_.block_s;
  }

  Producer producer(const Product& p) const { return gemv({.m = p.m, .n = p.n, .k = p.k, .weight = Dtype::bf16}); }

  // Rows of many tokens meet packed weights, which the estimate knows nothing of.
  double packed_s(const Product& p) const {
    return p.m > most_gemv_rows() ? static_cast<double>(p.n * p.k) * local_.weight_s : 0;
  }

  double kept(const Product& p) const {
    return estimate(build(producer(p), keep(), cluster_), cluster_).seconds + packed_s(p);
  }

  double sync_s(const Product& p, Style sync, BlockWire wire) const {
    const Space space = all_reduce(mesh_, "tp", sync_options(wire));
    if (sync == Style::compute || task_.ranks == 1) return kept(p);
    if (sync == Style::fused) return estimate(build(producer(p), space, cluster_), cluster_).seconds + packed_s(p);
    const std::int64_t panels = sync == Style::panels ? EngineOptions{}.panels : 1;
    const std::int64_t rows = (p.m + panels - 1) / panels;
    const double product = kept({rows, p.n, p.k});
    const double sum = estimate(build(copy({.rows = rows, .cols = p.n}), space, cluster_), cluster_).seconds;
    return product + sum + static_cast<double>(panels - 1) * std::max(product, sum);
  }

  const ModelTask& task_;
  const ModelConfig& config_;
  const Cluster& cluster_;
  const LocalParts local_;
  ModelShard shard_;
  Mesh mesh_;
  std::int64_t rows_;  // of the prompt
};

// Timed on a core of its own; ranks that share one take turns, as in the rates of the cluster.
LocalParts local_parts_of(const ModelTask& task) {
  const ModelConfig& config = task.source.config;
  LocalParts out = time_local_parts(config, shard_of(config, 0, task.ranks), int_size(task.prompt));
  const double cores = std::max(1u, std::thread::hardware_concurrency());
  const double turns = task.link.paced ? std::max(1.0, task.ranks / cores) : 1.0;
  out.block_s *= turns, out.weight_s *= turns;
  return out;
}

OnAnotherLink on_link_of(const ModelTask& task, Cluster cluster, const LocalParts& local, double bytes_per_s) {
  cluster.network.bytes_per_s = bytes_per_s;
  const ModelPricer pricer(task, cluster, local);
  OnAnotherLink out{.bytes_per_s = bytes_per_s};
  for (const ModelForm& form : forms_of(task)) {
    if (form.name == "sequential") out.sequential_us = pricer.seconds(form) * 1e6;
    if (form.name == "fused") out.fused_us = pricer.seconds(form) * 1e6;
    if (form.name == kFloor) out.compute_us = pricer.seconds(form) * 1e6;
  }
  return out;
}

}  // namespace

void predict_model(const ModelTask& task, ModelLedger* ledger) {
  const LocalParts local = local_parts_of(task);
  const ModelPricer pricer(task, ledger->table.cluster, local);
  for (const ModelForm& form : forms_of(task)) ledger->table.find(form.name)->predicted_us = pricer.seconds(form) * 1e6;
  if (const std::optional<Link>& link = ledger->table.link.paced)
    for (const double factor : {0.1, 10.0})
      ledger->elsewhere.push_back(on_link_of(task, ledger->table.cluster, local, link->bytes_per_s * factor));
  std::vector<sim::SimShape> shapes;
  for (const Product& p : pricer.summed()) shapes.push_back({p.m, p.n, p.k, task.ranks, 4});
  const auto row = simulated_row(ledger->table, shapes, static_cast<double>(task.source.config.blocks));
  if (row) ledger->table.rows.insert(ledger->table.rows.end() - 1, *row);  // the floor stays last
}

}  // namespace weft
