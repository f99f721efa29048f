#include "python/csrc/plans.h"

#include <algorithm>
#include <cstdlib>
#include <string>
#include <string_view>

#include "weft/base/error.h"
#include "weft/collective/build.h"
#include "weft/plan/price/estimate.h"
#include "weft/transport/local/memory.h"
#include "weft/world/cuda/cuda_form.h"

namespace weft::torch_ops {
namespace {

constexpr const char* kAxis = "group";

// What a call of torch's product costs beside its arithmetic.
constexpr double kTorchCall = 4e-6;

Space space_of(const Shape& shape, const Mesh& mesh) {
  switch (shape.call) {
    case Call::linear_all_reduce:
    case Call::all_reduce:
      return all_reduce(mesh, kAxis, {.wire = shape.wire});
    case Call::linear_reduce_scatter:
    case Call::reduce_scatter:
      return reduce_scatter(mesh, kAxis, {.wire = shape.wire});
    case Call::linear_all_to_all:
    case Call::all_to_all:
      return all_to_all(mesh, kAxis);
    case Call::embedding_bag_all_to_all:
      return all_to_all(mesh, kAxis, {.stack = Stack::columns});
    default:
      return all_gather(mesh, kAxis);
  }
}

Producer bags_of(const Shape& shape) {
  const Tables& tables = shape.tables;
  EmbeddingOptions options{.rows = tables.rows, .dim = tables.dim, .batch = shape.m, .pooling = tables.pooling};
  options.tables = tables.of.front();
  if (std::any_of(tables.of.begin(), tables.of.end(), [&](std::int64_t n) { return n != options.tables; }))
    options.tables_of = tables.of;
  return embedding_bag(options);
}

// Of a gather it is x that moves.
std::int64_t moved_columns(const Shape& shape) { return shape.call == Call::all_gather_linear ? shape.k : shape.n; }

double torch_seconds(const Shape& shape, std::int64_t ranks, const Cluster& cluster, const Rates& rates) {
  const auto m = static_cast<double>(rows_made(shape, ranks)), n = static_cast<double>(shape.n),
             k = static_cast<double>(shape.k);
  const auto bytes = static_cast<double>(size_of(shape.type));
  const double reading = bytes * (n * k + m * k) / cluster.read_bytes_per_s;
  return kTorchCall + std::max(2 * m * n * k / rates.torch_flops, reading) + bytes * m * n / cluster.tile_bytes_per_s;
}

double seconds_of(const Shape& shape, Way way, const World& world, const Rates& rates) {
  Cluster cluster = world.cluster(world.size());
  cluster.flops_per_s = rates.weft_flops;
  double seconds = estimate(plan_of(shape, way, world), cluster).seconds;
  if (way != Way::fused && has_product(shape.call)) seconds += torch_seconds(shape, world.size(), cluster, rates);
  return seconds;
}

}  // namespace

Producer product_of(const Shape& shape) {
  GemmOptions options{.m = shape.m,
                      .n = shape.n,
                      .k = shape.k,
                      .weight = shape.type,
                      .bias = shape.bias,
                      .residual = shape.residual,
                      .activation = shape.activation};
  if (shape.type == Dtype::f32 || has_wide_rows(shape, Way::fused)) return gemv(options);
  options.x = options.y = shape.type;
  options.layout = WeightLayout::nk;
  return gemm(options);
}

std::int64_t rows_made(const Shape& shape, std::int64_t ranks) {
  return shape.call == Call::all_gather_linear ? shape.m * ranks : shape.m;
}

Plan plan_of(const Shape& shape, Way way, const World& world) {
  const Mesh mesh = world.mesh({{kAxis, world.size()}});
  const Cluster cluster = world.cluster(world.size());
  const Space space = space_of(shape, mesh);
  if (shape.call == Call::embedding_bag_all_to_all) return build(bags_of(shape), space, cluster);
  if (way == Way::fused && has_product(shape.call)) return build(product_of(shape), space, cluster);
  if (way != Way::window)
    return build(copy({.rows = shape.m, .cols = moved_columns(shape), .dtype = shape.type}), space, cluster);
  const bool exchanges = shape.call == Call::linear_all_to_all;
  const std::int64_t ld = exchanges ? 0 : window_ld(shape.m, shape.n, world.size(), shape.type);
  return build(window({.m = shape.m, .n = shape.n, .ld = ld, .dtype = shape.type}), space, cluster);
}

Plan cuda_plan_of(const Shape& shape, const World& world) {
  const Space space = space_of(shape, world.mesh({{kAxis, world.size()}}));
  Producer p = shape.call == Call::embedding_bag_all_to_all ? bags_of(shape)
               : has_product(shape.call)                    ? product_of(shape)
                                         : copy({.rows = shape.m, .cols = moved_columns(shape), .dtype = shape.type});
  if (p.kind == ProducerKind::gemv) p.kind = ProducerKind::gemm, p.weights = WeightLayout::nk;
  const auto few = few_rows_form(p, space, shape.type);
  const CudaForm form = few ? *few : cuda_form(p, with_cuda_route(space, p), shape.type);
  return shape.call == Call::all_gather_linear ? build(form.space, form.producer) : build(form.producer, form.space);
}

namespace {

// A window's rows are whole pages, or, of sums, lie farther apart until they are: by no more than a quarter.
bool has_window(const Shape& shape, std::int64_t ranks) {
  if (ranks == 1 || (shape.wire != Dtype::f32 && shape.wire != shape.type)) return false;
  if (shape.call != Call::linear_all_to_all)
    return window_ld(shape.m, shape.n, static_cast<int>(ranks), shape.type) <= shape.n + shape.n / 4;
  const std::int64_t part = row_bytes(shape.type, shape.m / ranks * shape.n);
  return shape.m % ranks == 0 && part % static_cast<std::int64_t>(page_bytes()) == 0;
}

}  // namespace

std::vector<Way> ways_of(const Shape& shape, std::int64_t ranks, bool window_reaches) {
  if (!has_product(shape.call)) return {Way::fused};
  if (shape.call == Call::all_gather_linear) return {Way::after};
  std::vector<Way> ways{Way::fused, Way::after};
  if (window_reaches && has_window(shape, ranks)) ways.push_back(Way::window);
  return ways;
}

Choice choose_way(const Shape& shape, const World& world, const Rates& rates) {
  auto ways = ways_of(shape, world.size(), !world.has_wire());
  // For tests and comparisons, the same on all ranks: shapes that this way serves take it.
  if (const char* asked = std::getenv("WEFT_WAY"); asked != nullptr)
    for (const Way way : std::vector(ways))
      if (std::string_view(asked) == name_of(way)) ways = {way};
  Choice best;
  double least = 0;
  std::string prices;
  for (const Way way : ways) {
    const double seconds = seconds_of(shape, way, world, rates);
    if (prices.empty() || seconds < least) best.way = way, least = seconds;
    prices += fmt::format("{}{} {:.0f} us", prices.empty() ? "" : ", ", name_of(way), seconds * 1e6);
  }
  best.why = fmt::format("{}: {}; torch multiplies at {:.0f} GF/s, Weft at {:.0f}", name_of(best.way),
                         ways.size() > 1 ? "priced " + prices : "the only way, priced " + prices,
                         rates.torch_flops / 1e9, rates.weft_flops / 1e9);
  return best;
}

}  // namespace weft::torch_ops
