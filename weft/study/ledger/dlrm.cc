// A recommendation model: every rank pools the bags of its tables for the whole batch, all_to_all brings each rank the
// pooled rows of its own samples, and the dense part (bottom, low-rank cross layers, top) is computed from them.
#include <algorithm>
#include <numeric>

#include <fmt/core.h>

#include "weft/base/index.h"
#include "weft/kernel/rows/elementwise.h"
#include "weft/kernel/rows/sum.h"
#include "weft/study/input/values.h"
#include "weft/study/ledger/stages.h"
namespace weft {
namespace {

// This rank's tables and what the batch looks up in them.
struct Tables {
  std::vector<int> mine;
  std::vector<const float*> tables;
  std::vector<std::vector<std::int64_t>> indices, offsets;
  std::vector<const std::int64_t*> index_pointers, offset_pointers;

  Inputs inputs() const { return {.tables = tables, .indices = index_pointers, .offsets = offset_pointers}; }

  void refresh(const Workload& w, int rank, std::uint64_t round) {
    for (std::size_t t = 0; t < mine.size(); ++t) {
      const auto table = num(mine[t]);
      const std::uint64_t stream = stream_of(Input::index, rank, round, t);
      for (std::int64_t i = 0; i < std::ssize(indices[t]); ++i) indices[t][at(i)] = index_at(stream, i, w.rows[table]);
    }
  }
};

std::shared_ptr<Tables> make_tables(WorkloadBlock& block) {
  const Workload& w = block.workload();
  auto out = std::make_shared<Tables>();
  out->mine = tables_of_ranks(w, block.ranks())[at(block.rank())];
  for (const int table : out->mine) {
    const auto t = num(table);
    const std::int64_t reads = w.multi_hot[t];
    float* values = block.buffer(w.rows[t] * w.dim);
    const std::uint64_t stream = stream_of(Input::table, block.rank(), 0, t);
    for (std::int64_t i = 0; i < w.rows[t] * w.dim; ++i) values[i] = value_at(stream, i) / static_cast<float>(reads);
    out->tables.push_back(values);
    out->indices.emplace_back(num(w.batch * reads));
    auto& offsets = out->offsets.emplace_back(num(w.batch) + 1);
    for (std::int64_t b = 0; b < std::ssize(offsets); ++b) offsets[at(b)] = b * reads;
  }
  for (const auto& indices : out->indices) out->index_pointers.push_back(indices.data());
  for (const auto& offsets : out->offsets) out->offset_pointers.push_back(offsets.data());
  out->refresh(w, block.rank(), 0);
  return out;
}

// The most rows that a rank reads for a sample.
double most_reads(const Workload& w, int ranks) {
  std::int64_t most = 0;
  for (const auto& tables : tables_of_ranks(w, ranks)) {
    std::int64_t reads = 0;
    for (const int table : tables) reads += w.multi_hot[at(table)];
    most = std::max(most, reads);
  }
  return static_cast<double>(most);
}

// Pooled rows go beside the bottom's output into `met`, (own, all columns).
void add_embedding(WorkloadBlock& block, float* met, std::int64_t met_cols) {
  const Workload& w = block.workload();
  std::vector<std::int64_t> tables_of;
  for (const auto& tables : tables_of_ranks(w, block.ranks())) tables_of.push_back(std::ssize(tables));
  const auto tables = make_tables(block);
  MeasuredPart& part = block.part("embedding",
                                  embedding_bag({.rows = *std::max_element(w.rows.begin(), w.rows.end()),
                                                 .dim = w.dim,
                                                 .batch = w.batch,
                                                 .tables_of = tables_of}),
                                  all_to_all(block.mesh(), "tp", {.stack = Stack::columns}));
  const std::int64_t own = w.batch / block.ranks();
  block.on_refresh([=, &part, &block](std::uint64_t round) {
    tables->refresh(block.workload(), block.rank(), round);
    part.refresh_panels(tables->inputs());
  });
  const double bytes = (w.batch * w.dim * 4) * most_reads(w, block.ranks());
  block.stage({"embedding",
               [=, &part](Style style, StageLog& log) {
                 for (const Placed& p : part.run(style, tables->inputs(), log)) {
                   const std::int64_t rows = std::min(p.values.rows, own - p.row);
                   const std::int64_t cols = std::min(p.values.cols, met_cols - p.col);
                   if (rows > 0)
                     copy(rows, cols, ConstStrip{p.values.data, p.values.cols, Dtype::f32},
                          Strip{met + p.row * met_cols + w.dim + p.col, met_cols, Dtype::f32});
                 }
                 log.did(Doing::make);
               },
               {&part},
               [=, &part](Style style, const Cluster& cluster) {
                 return part.predicted_s(style, cluster, bytes / cluster.read_bytes_per_s);
               }});
}

struct DlrmRooms {
  float *features, *met, *crossed;  // met: what meets, the bottom's output beside the pooled rows
  std::int64_t own, met_cols;
};

// One dense layer after another, over this rank's samples. The last of the top has no activation.
MeasuredPart* add_dense(WorkloadBlock& block, const std::string& name, std::size_t count, const float* x) {
  MeasuredPart* before = nullptr;
  for (std::size_t i = 1; i <= count; ++i)
    before = &add_product(block, {.name = fmt::format("{}{}", name, i),
                                  .x = [=]() -> const float* { return before == nullptr ? x : before->made(); },
                                  .activation = name == "top" && i == count ? Activation::none : Activation::relu});
  return before;
}

void add_cross(WorkloadBlock& block, const DlrmRooms& at, const MeasuredPart& bottom) {
  const std::int64_t dim = block.workload().dim, elements = at.own * at.met_cols;
  for (std::int64_t i = 1; i <= block.workload().cross_layers; ++i) {
    const auto x = [=, &bottom]() -> const float* {
      if (i > 1) return at.crossed;
      copy(at.own, dim, ConstStrip{bottom.made(), dim, Dtype::f32}, Strip{at.met, at.met_cols, Dtype::f32});
      std::copy_n(at.met, elements, at.crossed);
      return at.crossed;
    };
    MeasuredPart& down = add_product(block, {.name = fmt::format("cross{}_down", i), .x = x});
    add_product(
        block,
        {.name = fmt::format("cross{}_up", i),
         .x = [&down] { return down.made(); },
         .then = [=](const Result& up) { multiply_add(elements, at.met, up[0].values.data, at.crossed, at.crossed); }});
  }
}

}  // namespace

void add_dlrm(WorkloadBlock& block) {
  const Workload& w = block.workload();
  const std::int64_t own = w.batch / block.ranks(), met_cols = (int_size(w.rows) + 1) * w.dim;
  const DlrmRooms at{block.buffer(own * w.bottom[0]), block.buffer(own * met_cols), block.buffer(own * met_cols), own,
                     met_cols};
  block.set_input(at.features, own * w.bottom[0]);
  add_embedding(block, at.met, met_cols);
  const MeasuredPart* bottom = add_dense(block, "bottom", w.bottom.size() - 1, at.features);
  add_cross(block, at, *bottom);
  add_dense(block, "top", w.top.size(), at.crossed);
  // What is compared is what the top was given: its single answer per sample would hide much.
  block.set_output(at.crossed, own * met_cols);
}

}  // namespace weft
