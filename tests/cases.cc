#include "tests/cases.h"

#include <algorithm>
#include <cmath>
#include <random>

#include <fmt/core.h>

#include "weft/base/index.h"
#include "weft/collective/build.h"
#include "weft/exec/ref/ref.h"
#include "weft/mesh/mesh.h"

namespace weft::testing {
namespace {

struct Shape {
  std::int64_t m, n, k;
  std::array<std::int64_t, 2> tile;
};

// Ragged, prime, tiny (fewer rows than ranks), exactly one tile, and a few tiles each way.
constexpr Shape kShapes[] = {
    {13, 17, 7, {4, 8}}, {1, 1, 1, {4, 4}}, {3, 5, 2, {2, 3}}, {32, 48, 16, {8, 16}}, {67, 131, 29, {16, 64}}};

constexpr std::size_t kUnevenTables = 5;  // of the producers

// A torus of three dimensions where ranks are 2 x 2 x 2, else of two.
SpaceOptions cube_of(int num_ranks) {
  SpaceOptions out;
  if (num_ranks == 8) out.torus = {2, 2, 2};
  return out;
}

std::vector<Producer> producers(const Shape& s, int num_ranks) {
  std::vector<Producer> out;
  const GemmOptions plain{.m = s.m, .n = s.n, .k = s.k, .tile = s.tile};
  out.push_back(gemm(plain));
  GemmOptions fancy = plain;
  fancy.weight = Dtype::bf16;
  fancy.addend = fancy.bias = true;
  fancy.activation = Activation::gelu;
  out.push_back(gemm(fancy));
  GemmOptions vector = plain;
  vector.m = std::min<std::int64_t>(s.m, 3);
  vector.tile = {1, s.tile[1]};
  out.push_back(gemv(vector));
  vector.weight = Dtype::bf16;
  vector.addend = true;
  out.push_back(gemv(vector));
  EmbeddingOptions bags{
      .tables = 2, .rows = 11, .dim = 4, .batch = s.m, .pooling = Pooling::mean, .tile_rows = s.tile[0]};
  out.push_back(embedding_bag(bags));
  bags.pooling = Pooling::sum;
  for (int r = 0; r < num_ranks; ++r) bags.tables_of.push_back(1 + r % 3);
  out.push_back(embedding_bag(bags));
  out.push_back(copy({.rows = s.m, .cols = s.n, .tile = s.tile}));
  return out;
}

std::string name_of(const Producer& p, const Space& space, bool gathers) {
  return fmt::format("{}{} {} {} {}x{}x{}{}{}{}{}{}{}", gathers ? "gather into " : "", to_string(p.kind),
                     to_string(space.kind), to_string(space.options.route), p.m, p.n, p.k,
                     p.weight == Dtype::bf16 ? " bf16" : "", p.addend ? " addend" : "",
                     space.options.stack == Stack::columns ? " side by side" : "", p.residual ? " residual" : "",
                     p.n_of.empty() ? "" : " uneven tables",
                     space.options.wire == Dtype::bf16 ? " wire bf16"
                     : space.options.rows.empty()      ? ""
                                                       : " uneven rows");
}

// Hosts on which two-level routes are tried: of 2 or 3 ranks; 0 where that many ranks fill none.
int ranks_per_host(int num_ranks) {
  const int each = num_ranks % 3 == 0 ? 3 : 2;
  return num_ranks % each == 0 && num_ranks > each ? each : 0;
}

void add(std::vector<Case>* cases, const Producer& p, Space space, Route route, bool gathers = false) {
  space.options.route = route;
  Producer made = p;
  made.addend = p.addend && !gathers;
  cases->push_back({name_of(made, space, gathers), made, space, gathers});
}

void add_spaces(std::vector<Case>* cases, const Producer& p, const Mesh& mesh) {
  const int num_ranks = mesh.size();
  const bool uneven = !p.n_of.empty();
  SpaceOptions side_by_side;
  side_by_side.stack = Stack::columns;
  for (const Route route : {Route::direct, Route::staged}) add(cases, p, all_to_all(mesh, "tp", side_by_side), route);
  if (uneven) return;
  Producer with_residual = p;
  with_residual.residual = p.kind == ProducerKind::gemm;
  for (const Route route : {Route::ring, Route::direct}) {
    add(cases, with_residual, reduce_scatter(mesh, "tp"), route);
    add(cases, p, all_gather(mesh, "tp"), route);
    if (p.kind == ProducerKind::gemm) add(cases, with_residual, all_gather(mesh, "tp"), route, true);
  }
  if (p.kind == ProducerKind::gemm) add(cases, with_residual, all_gather(mesh, "tp"), Route::staged, true);
  for (const Route route : {Route::ring, Route::one_shot, Route::two_shot, Route::ring_shot})
    add(cases, with_residual, all_reduce(mesh, "tp"), route);
  if (num_ranks > 1 && (num_ranks & (num_ranks - 1)) == 0 && p.m % num_ranks == 0)
    add(cases, with_residual, all_reduce(mesh, "tp"), Route::halving_doubling);
  if ((num_ranks == 4 || num_ranks == 6 || num_ranks == 8) && p.m % num_ranks == 0)
    add(cases, with_residual, all_reduce(mesh, "tp", cube_of(num_ranks)), Route::torus);
  SpaceOptions wire;
  wire.wire = Dtype::bf16;
  add(cases, p, all_reduce(mesh, "tp", wire), Route::two_shot);
  for (const Route route : {Route::direct, Route::staged}) add(cases, p, all_to_all(mesh, "tp"), route);
  SpaceOptions counts;
  for (int s = 0; s < num_ranks * num_ranks; ++s) counts.rows.push_back(p.m / num_ranks * (s % 3 != 0));
  for (const Route route : {Route::direct, Route::staged}) add(cases, p, all_to_all(mesh, "tp", counts), route);
  SpaceOptions root;
  root.root = num_ranks - 1;
  add(cases, p, broadcast(mesh, "tp", root), Route::automatic);
  if (ranks_per_host(num_ranks) > 0) {
    add(cases, with_residual, reduce_scatter(mesh, "tp"), Route::two_level);
    add(cases, with_residual, all_reduce(mesh, "tp"), Route::two_level);
    add(cases, p, all_reduce(mesh, "tp", wire), Route::two_level);
    add(cases, p, all_gather(mesh, "tp"), Route::two_level);
    if (p.kind == ProducerKind::gemm) add(cases, with_residual, all_gather(mesh, "tp"), Route::two_level, true);
    add(cases, p, broadcast(mesh, "tp", root), Route::two_level);
  }
  add(cases, with_residual, keep(), Route::automatic);
}

std::vector<float> random_floats(std::size_t count, std::mt19937_64* random) {
  std::vector<float> out(count);
  std::uniform_real_distribution<float> uniform(-1.0f, 1.0f);
  for (float& value : out) value = uniform(*random);
  return out;
}

}  // namespace

std::vector<Case> all_cases(int num_ranks) {
  std::vector<Case> cases;
  const Mesh mesh({{"tp", num_ranks}});
  for (const Shape& shape : kShapes) {
    for (const Producer& p : producers(shape, num_ranks)) add_spaces(&cases, p, mesh);
    // Given x, an op that could be written through a window copies it.
    const Producer written = window({.m = shape.m, .n = shape.n});
    for (const Space& space : {keep(), reduce_scatter(mesh, "tp"), all_reduce(mesh, "tp"), all_to_all(mesh, "tp")})
      add(&cases, written, space, Route::automatic);
  }
  return cases;
}

std::vector<Case> route_cases(int num_ranks) {
  std::vector<Case> cases;
  const Mesh mesh({{"tp", num_ranks}});
  const std::int64_t lanes = num_ranks > 4 ? 1 : 2;
  add_spaces(&cases, gemm({.m = lanes * num_ranks, .n = 8, .k = 2, .tile = {1, 8}}), mesh);
  add_spaces(&cases, producers({2 * num_ranks, 4, 2, {2, 4}}, num_ranks)[kUnevenTables], mesh);
  return cases;
}

Plan plan_of(const Case& c) {
  Cluster cluster = default_cluster(c.space.num_ranks());
  if (c.space.options.route == Route::two_level) {
    cluster.ranks_per_host = ranks_per_host(c.space.num_ranks());
    cluster.num_hosts = c.space.num_ranks() / cluster.ranks_per_host;
  }
  return c.gathers ? build(c.space, c.producer, cluster) : build(c.producer, c.space, cluster);
}

Op compile(World& world, const Case& c) {
  if (c.space.options.route == Route::two_level) return world.compile(plan_of(c), c.space.mesh, c.space.axis);
  return c.gathers ? world.compile(c.space, c.producer) : world.compile(c.producer, c.space);
}

Data make_data(const Producer& p, int rank, std::uint64_t seed) {
  std::mt19937_64 random(seed * 1000003 + static_cast<std::uint64_t>(rank));
  Data data;
  const std::int64_t n = p.columns(rank);
  if (p.kind == ProducerKind::embedding_bag) {
    for (std::int64_t t = 0; t < n / p.dim; ++t) {
      data.tables.push_back(random_floats(num(p.rows * p.dim), &random));
      data.offsets.push_back({0});
      data.indices.emplace_back();
      for (std::int64_t b = 0; b < p.m; ++b) {
        for (std::uint64_t i = random() % 4; i > 0; --i)
          data.indices.back().push_back(static_cast<std::int64_t>(random() % p.rows));
        data.offsets.back().push_back(std::ssize(data.indices.back()));
      }
      data.indices.back().push_back(0);  // an empty vector has no address
    }
    for (std::size_t t = 0; t < data.tables.size(); ++t) {
      data.table_pointers.push_back(data.tables[t].data());
      data.index_pointers.push_back(data.indices[t].data());
      data.offset_pointers.push_back(data.offsets[t].data());
    }
    return data;
  }
  data.x = random_floats(num(p.m * (p.k > 0 ? p.k : n)), &random);
  data.w = random_floats(num(p.k * n), &random);
  for (const float w : data.w) data.w_bf16.push_back(to_bf16(w).bits);
  data.addend = random_floats(num(p.m * n), &random);
  // The same on every rank, as all_reduce wants them; as large as the largest output y, all ranks' rows gathered.
  random.seed(seed);
  data.bias = random_floats(num(n), &random);
  data.residual = random_floats(num(p.m * n * 8), &random);
  return data;
}

Inputs Data::inputs(const Producer& p) const {
  Inputs in;
  in.x = x.data();
  in.w = p.weight == Dtype::bf16 ? static_cast<const void*>(w_bf16.data()) : w.data();
  in.addend = addend.data();
  in.bias = bias.data();
  in.residual = residual.data();
  in.tables = table_pointers;
  in.indices = index_pointers;
  in.offsets = offset_pointers;
  return in;
}

std::vector<std::vector<float>> reference(const Plan& plan, const std::vector<Data>& data,
                                          const std::vector<Counts>& counts) {
  RefExecutor ref(plan);
  std::vector<Bindings> bindings;
  for (const Data& d : data) {
    Bindings b;
    b.producers = {d.inputs(plan.producers[0])};
    b.buffers.assign(plan.buffers.size(), d.x.data());
    bindings.push_back(std::move(b));
  }
  ref.run(bindings, counts);
  std::vector<std::vector<float>> out;
  for (int r = 0; r < plan.num_ranks; ++r) out.push_back(ref.output(r));
  return out;
}

double error(const float* a, const std::vector<float>& b) {
  double worst = 0;
  for (std::size_t i = 0; i < b.size(); ++i) {
    const double e = std::abs(static_cast<double>(a[i]) - b[i]) / (1 + std::abs(static_cast<double>(b[i])));
    worst = std::isnan(e) ? INFINITY : std::max(worst, e);
  }
  return worst;
}

double bound_of(const Case& c) { return c.space.options.wire == Dtype::bf16 ? 0.05 : 1e-4; }

}  // namespace weft::testing
