#include "cli/ops.h"

#include <CLI/CLI.hpp>
#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "weft/base/error.h"
#include "weft/base/names.h"
#include "weft/collective/build.h"
#include "weft/world/op.h"
#include "weft/world/world.h"

namespace weft::cli {
namespace {

constexpr const char* kAxis = "tp";
constexpr std::int64_t kMaxSize = std::int64_t{1} << 31;
constexpr std::int64_t kMaxElements = std::int64_t{1} << 40;

struct SpaceName {
  std::string_view name;
  SpaceKind kind;
};
constexpr SpaceName kSpaces[] = {
    {"rs", SpaceKind::reduce_scatter},
    {"ar", SpaceKind::all_reduce},
    {"ag", SpaceKind::all_gather},
    {"a2a", SpaceKind::all_to_all},
    {"bcast", SpaceKind::broadcast},
    {"keep", SpaceKind::keep},
    {"reduce-scatter", SpaceKind::reduce_scatter},
    {"all-reduce", SpaceKind::all_reduce},
    {"all-gather", SpaceKind::all_gather},
    {"all-to-all", SpaceKind::all_to_all},
    {"broadcast", SpaceKind::broadcast},
};
struct ProducerName {
  std::string_view name;
  ProducerKind kind;
};
constexpr ProducerName kProducers[] = {
    {"gemm", ProducerKind::gemm},
    {"gemv", ProducerKind::gemv},
    {"embedding-bag", ProducerKind::embedding_bag},
    {"embedding", ProducerKind::embedding_bag},
    {"copy", ProducerKind::copy},
};

struct Parsed {
  ProducerKind producer = ProducerKind::copy;
  SpaceKind space = SpaceKind::keep;
  bool gathers = false;
};

bool find_space(std::string_view name, SpaceKind* kind) {
  for (const SpaceName& one : kSpaces)
    if (one.name == name) return *kind = one.kind, true;
  return false;
}

bool find_pair(std::string_view name, Parsed* parsed) {
  for (const ProducerName& one : kProducers) {
    if (name.size() <= one.name.size() || !name.starts_with(one.name) || name[one.name.size()] != '-') continue;
    parsed->producer = one.kind;
    if (find_space(name.substr(one.name.size() + 1), &parsed->space)) return true;
  }
  return false;
}

Parsed parse_name_of_op(const std::string& given) {
  std::string name = given;
  for (char& c : name)
    if (c == '_') c = '-';
  Parsed parsed;
  if (name == "ag-gemm" || name == "all-gather-gemm") return {ProducerKind::gemm, SpaceKind::all_gather, true};
  if (find_space(name, &parsed.space) && parsed.space != SpaceKind::keep) return parsed;
  if (find_pair(name, &parsed)) return parsed;
  bad_input(
      "unknown op \"{}\"; use rs, ar, ag, a2a, bcast, ag-gemm, or PRODUCER-SPACE with gemm, gemv, embedding or "
      "copy and rs, ar, ag, a2a, bcast or keep, as in gemm-rs",
      given);
}

void check_size(const char* flag, std::int64_t value, std::int64_t max = kMaxSize) {
  if (value < 1 || value > max) bad_input("--{} is {}; use a whole number from 1 to {}", flag, value, max);
}

// Products of sizes stay far from overflow, with any number of ranks.
void check_product(const char* a, std::int64_t rows, const char* b, std::int64_t cols) {
  if (rows > kMaxElements / cols)
    bad_input("--{} {} and --{} {} make a matrix of more than {} elements; make one of them smaller", a, rows, b, cols,
              kMaxElements);
}

Producer matrix_producer(const OpFlags& f, ProducerKind kind) {
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
  return vector ? gemv(o) : gemm(o);
}

Producer embedding_producer(const OpFlags& f) {
  check_size("tables", f.tables, 1 << 20);
  check_size("rows", f.rows);
  check_size("dim", f.dim, 1 << 20);
  check_size("batch", f.batch);
  check_size("pooling", f.pooling, 1 << 20);
  check_product("tables", f.tables, "dim", f.dim);
  check_product("rows", f.rows, "dim", f.dim);
  check_product("batch", f.batch, "dim", f.tables * f.dim);
  check_product("batch", f.batch, "pooling", f.pooling);
  return embedding_bag({.tables = f.tables,
                        .rows = f.rows,
                        .dim = f.dim,
                        .batch = f.batch,
                        .pooling = parse_pooling(f.pool),
                        .tile_rows = f.tile[0]});
}

Stack parse_stack(const OpFlags& f, const Parsed& parsed) {
  if (f.stack.empty())  // a sample wants the vectors of all tables side by side
    return parsed.producer == ProducerKind::embedding_bag ? Stack::columns : Stack::rows;
  constexpr Names<Stack, 2> kStacks{{{Stack::rows, "rows"}, {Stack::columns, "columns"}}};
  return parse_name(kStacks, "stack", f.stack);
}

}  // namespace

void add_op_flags(CLI::App& app, OpFlags* f, int max_ranks) {
  app.add_option("--ranks", f->ranks, fmt::format("ranks, 1 to {} (2)", max_ranks))->type_name("N");
  app.add_option("--m", f->m, "rows of one rank's output (1024; gemv 1)")->type_name("N");
  app.add_option("--n", f->n, "its columns (1024; gemv 4096)")->type_name("N");
  app.add_option("--k", f->k, "length of its sums (512; gemv 2048)")->type_name("N");
  app.add_option("--tile", f->tile, "rows,columns of a tile (chosen)")->delimiter(',')->type_name("R,C");
  app.add_option("--weight", f->weight, "type of weights: f32 or bf16")->type_name("TYPE");
  app.add_option("--route", f->route, "auto, ring, direct, one_shot, two_shot")->type_name("ROUTE");
  app.add_option("--slices", f->slices, "all_reduce by ring: slices (chosen)")->type_name("S");
  app.add_option("--wire", f->wire, "partial sums travel as f32 or bf16")->type_name("TYPE");
  app.add_option("--stack", f->stack, "all_to_all: stack by rows or columns")->type_name("HOW");
  app.add_option("--root", f->root, "broadcast: rank that makes it (0)")->type_name("RANK");
  app.add_option("--tables", f->tables, "embedding: tables of one rank (8)")->type_name("N");
  app.add_option("--rows", f->rows, "embedding: rows of a table (10000)")->type_name("N");
  app.add_option("--dim", f->dim, "embedding: floats of a row (64)")->type_name("N");
  app.add_option("--batch", f->batch, "embedding: samples of the whole batch (1024)")->type_name("N");
  app.add_option("--pooling", f->pooling, "embedding: rows pooled for a sample in a table (32)")->type_name("N");
  app.add_option("--pool", f->pool, "embedding: sum or mean")->type_name("HOW");
}

OpSpec parse_op(const OpFlags& f, int max_ranks) {
  const Parsed parsed = parse_name_of_op(f.op);
  if (f.ranks < 1 || f.ranks > max_ranks) bad_input("--ranks is {}; use 1 to {}", f.ranks, max_ranks);
  OpSpec spec;
  spec.name = f.op;
  spec.gathers = parsed.gathers;
  spec.ranks = f.ranks;
  for (const std::int64_t size : f.tile)
    if (size < 0 || size > kMaxSize)
      bad_input("--tile is {},{}; use sizes from 1 to {}, or 0 to let Weft choose", f.tile[0], f.tile[1], kMaxSize);
  if (parsed.producer == ProducerKind::embedding_bag) {
    spec.producer = embedding_producer(f);
    spec.pooling = f.pooling;
  } else {
    spec.producer = matrix_producer(f, parsed.producer);
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
  o.slices = f.slices;
  o.wire = parse_dtype(f.wire);
  o.root = f.root;
  o.stack = parse_stack(f, parsed);
  if (parsed.space != SpaceKind::all_to_all && !f.stack.empty())
    bad_input("--stack is for all_to_all alone, not for {}; leave it out", to_string(parsed.space));
  return spec;
}

Plan build(const OpSpec& spec, const Cluster& cluster) {
  return spec.gathers ? weft::build(spec.space, spec.producer, cluster)
                      : weft::build(spec.producer, spec.space, cluster);
}

Op compile(World& world, const OpSpec& spec) {
  return spec.gathers ? world.compile(spec.space, spec.producer) : world.compile(spec.producer, spec.space);
}

nlohmann::ordered_json shape_json(const OpSpec& spec) {
  const Producer& p = spec.producer;
  if (p.kind == ProducerKind::embedding_bag)
    return {{"tables", p.n / p.dim}, {"rows", p.rows}, {"dim", p.dim}, {"batch", p.m}, {"pooling", spec.pooling}};
  nlohmann::ordered_json shape{{"m", p.m}, {"n", p.n}};
  if (!spec.alone()) shape["k"] = p.k;
  return shape;
}

std::string shape_text(const OpSpec& spec) {
  const Producer& p = spec.producer;
  if (p.kind == ProducerKind::embedding_bag)
    return fmt::format("{} tables of {} x {}, {} samples of {}", p.n / p.dim, p.rows, p.dim, p.m, spec.pooling);
  return spec.alone() ? fmt::format("{} x {}", p.m, p.n) : fmt::format("{} x {} x {}", p.m, p.n, p.k);
}

}  // namespace weft::cli
