#include "weft/study/op_request.h"

#include <algorithm>

#include <fmt/core.h>

#include "weft/base/error.h"
#include "weft/base/index.h"
#include "weft/base/names.h"
#include "weft/cluster/workload.h"

namespace weft {
namespace {

constexpr const char* kAxis = "tp";
constexpr std::int64_t kMaxSize = std::int64_t{1} << 31;
constexpr std::int64_t kMaxElements = std::int64_t{1} << 40;

void check_size(const char* flag, std::int64_t value, std::int64_t max = kMaxSize) {
  if (value < 1 || value > max) bad_input("--{} is {}; use a whole number from 1 to {}", flag, value, max);
}

// Products of sizes stay far from overflow, with any number of ranks.
void check_product(const char* a, std::int64_t rows, const char* b, std::int64_t cols) {
  if (rows > kMaxElements / cols)
    bad_input("--{} {} and --{} {} make a matrix of more than {} elements; make one of them smaller", a, rows, b, cols,
              kMaxElements);
}

Producer matrix_producer(const OpRequest& f, ProducerKind kind) {
  const bool vector = kind == ProducerKind::gemv;
  GemmOptions o;
  o.m = f.m.value_or(vector ? 1 : 1024);
  o.n = f.n.value_or(vector ? 4096 : 1024);
  o.k = f.k.value_or(vector ? 2048 : 512);
  check_size("m", o.m);
  check_size("n", o.n);
  check_product("m", o.m, "n", o.n);
  if (kind == ProducerKind::copy) return copy({.rows = o.m, .cols = o.n, .tile = f.tile});
  check_size("k", o.k);
  check_product("m", o.m, "k", o.k);
  check_product("k", o.k, "n", o.n);
  o.weight = parse_dtype(f.weight);
  o.tile = f.tile;
  o.addend = f.addend;
  return vector ? gemv(o) : gemm(o);
}

// The tables of every rank: as the flags say, all alike, or those of a workload, dealt as it says.
std::vector<std::vector<BagTable>> even_tables(const OpRequest& f) {
  const std::int64_t tables = f.tables.value_or(8), rows = f.rows.value_or(10'000), pooling = f.pooling.value_or(32);
  check_size("tables", tables, 1 << 20);
  check_size("rows", rows);
  check_size("pooling", pooling, 1 << 20);
  return std::vector<std::vector<BagTable>>(num(f.ranks), std::vector<BagTable>(num(tables), {rows, pooling}));
}

bool takes_table(const std::string& which, std::int64_t hot) {
  return which == "all" || (which == "one-hot") == (hot == 1);
}

std::vector<std::vector<BagTable>> workload_tables(const OpRequest& f, Workload w) {
  const std::int64_t cap = f.rows.value_or(w.scale_down.rows > 0 ? w.scale_down.rows : 100'000);
  check_size("rows", cap);
  std::vector<std::int64_t> rows, hot;
  for (std::size_t t = 0; t < w.rows.size(); ++t)
    if (takes_table(f.tables_of, w.multi_hot[t])) {
      rows.push_back(std::min(cap, w.rows[t]));
      hot.push_back(w.multi_hot[t]);
    }
  w.rows = rows, w.multi_hot = hot;
  std::vector<std::vector<BagTable>> out;
  for (const auto& of_rank : tables_of_ranks(w, f.ranks)) {
    auto& bags = out.emplace_back();
    for (const int t : of_rank) bags.push_back({rows[at(t)], hot[at(t)]});
  }
  return out;
}

void check_embedding(const OpRequest& f, std::int64_t dim, std::int64_t batch,
                     const std::vector<std::vector<BagTable>>& bags) {
  check_size("dim", dim, 1 << 20);
  check_size("batch", batch);
  if (!(f.zipf >= 0 && f.zipf <= 4)) bad_input("--zipf is {}; use 0 (uniform) to 4", f.zipf);
  for (const auto& of_rank : bags) {
    check_product("tables", std::ssize(of_rank), "dim", dim);
    check_product("batch", batch, "dim", std::ssize(of_rank) * dim);
    for (const BagTable& bag : of_rank) {
      check_product("rows", bag.rows, "dim", dim);
      check_product("batch", batch, "pooling", bag.pooling);
    }
  }
}

void take_embedding(const OpRequest& f, OpSpec* spec) {
  if (f.tables_of != "all" && f.tables_of != "one-hot" && f.tables_of != "multi-hot")
    bad_input("--tables-of is \"{}\"; use one-hot, multi-hot or all", f.tables_of);
  std::int64_t dim = f.dim.value_or(64), batch = f.batch.value_or(1024);
  if (f.workload.empty()) {
    if (f.tables_of != "all") bad_input("--tables-of {} picks from a workload; add --workload dlrm-v2", f.tables_of);
    spec->bags = even_tables(f);
  } else {
    const Workload w = load_workload(f.workload);
    if (w.kind != WorkloadKind::dlrm) bad_input("--workload {} has no embedding tables; use dlrm-v2", f.workload);
    if (f.tables || f.pooling)
      bad_input("--tables and --pooling are the workload's with --workload {}; leave them out", f.workload);
    dim = f.dim.value_or(w.dim);
    batch = f.batch.value_or(w.scale_down.batch > 0 ? w.scale_down.batch : w.batch);
    spec->bags = workload_tables(f, w);
    spec->workload = f.tables_of == "all" ? w.name : fmt::format("{} {}", w.name, f.tables_of);
  }
  check_embedding(f, dim, batch, spec->bags);
  spec->zipf = f.zipf;
  EmbeddingOptions options{.dim = dim, .batch = batch, .pooling = parse_pooling(f.pool), .tile_rows = f.tile[0]};
  bool differ = false;
  std::int64_t most_reads = 0;
  for (const auto& of_rank : spec->bags) {
    most_reads = std::max(most_reads, rows_read(of_rank));
    options.tables_of.push_back(std::ssize(of_rank));
    options.tables = std::max(options.tables, options.tables_of.back());
    differ = differ || of_rank.size() != spec->bags[0].size();
    for (const BagTable& bag : of_rank) options.rows = std::max(options.rows, bag.rows);
  }
  if (!differ) options.tables_of.clear();
  spec->pooling = static_cast<double>(most_reads) / options.tables;
  spec->producer = embedding_bag(options);
}

// The second product of a workload's experts, of `ffn` and as wide as `hidden`: its rows go back to their tokens.
OpRequest with_experts(OpRequest f, OpSpec* spec) {
  const Workload w = load_workload(f.workload);
  for (const auto& [flag, value] : f.given)
    if (flag == "--m" || flag == "--n" || flag == "--k")
      bad_input("{} {} is the workload's with --workload {}; leave it out", flag, value, f.workload);
  spec->routing = routing_of(w, f.ranks, f.tokens.value_or(w.sequence), f.skew);
  f.m = f.ranks * capacity_of(*spec->routing, f.ranks), f.n = w.hidden, f.k = w.ffn;
  return f;
}

Stack parse_stack(const OpRequest& f, const OpName& parsed) {
  if (f.stack.empty())  // a sample wants the vectors of all tables side by side
    return parsed.producer == ProducerKind::embedding_bag ? Stack::columns : Stack::rows;
  constexpr Names<Stack, 2> kStacks{{{Stack::rows, "rows"}, {Stack::columns, "columns"}}};
  return parse_name(kStacks, "stack", f.stack);
}

// Which ops take a flag, and how the sentence calls them. Flags that all ops take have no row.
struct Takes {
  std::string_view flag;
  bool (*op)(const OpName&);
  std::string_view whose;
};

constexpr auto kTables = [](const OpName& op) { return op.producer == ProducerKind::embedding_bag; };
constexpr auto kMatrix = [](const OpName& op) { return op.producer != ProducerKind::embedding_bag; };
constexpr auto kProduct = [](const OpName& op) {
  return op.producer == ProducerKind::gemm || op.producer == ProducerKind::gemv;
};
constexpr auto kSums = [](const OpName& op) {
  return op.space == SpaceKind::reduce_scatter || op.space == SpaceKind::all_reduce;
};
constexpr auto kAllReduce = [](const OpName& op) { return op.space == SpaceKind::all_reduce; };
constexpr auto kAllToAll = [](const OpName& op) { return op.space == SpaceKind::all_to_all; };
constexpr auto kExperts = [](const OpName& op) {
  return op.producer == ProducerKind::gemm && op.space == SpaceKind::all_to_all;
};
constexpr auto kWorkload = [](const OpName& op) { return kTables(op) || kExperts(op); };
constexpr auto kBroadcast = [](const OpName& op) { return op.space == SpaceKind::broadcast; };

constexpr Takes kTakes[] = {
    {"--m", kMatrix, "gemm, gemv and collectives alone"},
    {"--n", kMatrix, "gemm, gemv and collectives alone"},
    {"--k", kProduct, "gemm and gemv"},
    {"--weight", kProduct, "gemm and gemv"},
    {"--addend", kProduct, "gemm and gemv"},
    {"--slices", kAllReduce, "all_reduce"},
    {"--wire", kSums, "reduce_scatter and all_reduce"},
    {"--wire-sums", kAllReduce, "all_reduce"},
    {"--stack", kAllToAll, "all_to_all"},
    {"--root", kBroadcast, "broadcast"},
    {"--tables", kTables, "embedding"},
    {"--rows", kTables, "embedding"},
    {"--dim", kTables, "embedding"},
    {"--batch", kTables, "embedding"},
    {"--pooling", kTables, "embedding"},
    {"--zipf", kTables, "embedding"},
    {"--workload", kWorkload, "embedding and gemm-a2a"},
    {"--tokens", kExperts, "gemm-a2a"},
    {"--skew", kExperts, "gemm-a2a"},
    {"--tables-of", kTables, "embedding"},
    {"--pool", kTables, "embedding"},
};

void refuse_foreign_flags(const OpRequest& f, const OpName& op) {
  for (const auto& [flag, value] : f.given)
    for (const Takes& row : kTakes)
      if (row.flag == flag && !row.op(op))
        bad_input("{}{}{} is for {}, not for {}; leave it out", flag, value.empty() ? "" : " ", value, row.whose, f.op);
}

}  // namespace

OpSpec parse_op(const OpRequest& f, int max_ranks) {
  const OpName parsed = parse_op_name(f.op);
  refuse_foreign_flags(f, parsed);
  if (f.ranks < 1 || f.ranks > max_ranks) bad_input("--ranks is {}; use 1 to {}", f.ranks, max_ranks);
  if (f.ranks_per_host < 0 || f.ranks_per_host > f.ranks)
    bad_input("--ranks-per-host is {}; use 1 to {}, the number of ranks", f.ranks_per_host, f.ranks);
  OpSpec spec;
  spec.name = f.op;
  spec.gathers = parsed.gathers;
  spec.ranks = f.ranks;
  spec.ranks_per_host = f.ranks_per_host;
  for (const std::int64_t size : f.tile)
    if (size < 0 || size > kMaxSize)
      bad_input("--tile is {},{}; use sizes from 1 to {}, or 0 to let Weft choose", f.tile[0], f.tile[1], kMaxSize);
  if (parsed.producer == ProducerKind::embedding_bag) {
    take_embedding(f, &spec);
  } else {
    if (f.workload.empty() && (f.tokens || f.skew != 0))
      bad_input("--tokens and --skew are for the experts of a workload; add --workload mixtral-8x7b");
    spec.producer = matrix_producer(f.workload.empty() ? f : with_experts(f, &spec), parsed.producer);
  }
  if (parsed.space == SpaceKind::keep) {
    if (f.route != "auto" && parse_route(f.route) != Route::local)
      bad_input("--route is {}, but keep moves nothing; leave it at auto", f.route);
    return spec;
  }
  spec.space.kind = parsed.space;
  spec.space.mesh = Mesh({{kAxis, f.ranks}});
  spec.space.axis = kAxis;
  SpaceOptions& o = spec.space.options;
  o.route = parse_route(f.route);
  if (!f.torus.empty() && o.route != Route::torus)
    bad_input("--torus is for --route torus, not {}; leave it out", f.route);
  o.torus = f.torus;
  o.slices = f.slices;
  o.wire = parse_dtype(f.wire);
  if (!f.wire_sums.empty()) o.wire_sums = parse_dtype(f.wire_sums);
  o.root = f.root;
  o.stack = parse_stack(f, parsed);
  return spec;
}

}  // namespace weft
