// What weft.triton reads of a plan: its text from a builder, one rank's tables as tensors, a sentence for a wait that was
// given up, and what the reference executor makes of it. None of them needs a world. The plan is read and proved in
// every call, since none is on a path that counts.
#include <array>
#include <cstdint>
#include <cstring>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "weft/base/error.h"
#include "weft/base/index.h"
#include "weft/collective/build.h"
#include "weft/exec/ref/ref.h"
#include "weft/exec/table/tile_table.h"
#include "weft/plan/text/save.h"
#include "weft/plan/verify/verify.h"

#include "python/csrc/torch_tensor.h"

namespace weft::torch_ops {
namespace {

using torch::headeronly::ScalarType;

constexpr const char* kTileAxis = "group";

Space tile_space(const std::string& name, std::int64_t ranks, Dtype wire, const std::string& route) {
  for (const SpaceKind kind :
       {SpaceKind::keep, SpaceKind::reduce_scatter, SpaceKind::all_reduce, SpaceKind::all_to_all}) {
    if (to_string(kind) != name) continue;
    if (kind == SpaceKind::keep) return keep();
    Space space{kind, Mesh({{kTileAxis, static_cast<int>(ranks)}}), kTileAxis, {}};
    space.options.route = parse_route(route);
    space.options.wire = space.kind == SpaceKind::all_to_all ? Dtype::f32 : wire;
    return space;
  }
  bad_input("weft.triton: no space \"{}\"; use keep, reduce_scatter, all_reduce or all_to_all", name);
}

std::string tile_plan_text(std::string space, std::int64_t ranks, Sizes shape, Sizes tile, std::string dtype,
                           std::string route) {
  if (shape.size() != 3 || tile.size() != 2)
    bad_input("weft.triton: {} sizes and {} of a tile; give (m, n, k) and (rows, columns)", shape.size(), tile.size());
  if (ranks < 1 || ranks > 1024) bad_input("weft.triton: {} ranks; give 1 to 1024", ranks);
  const Dtype type = parse_dtype(dtype);
  const Producer product = gemm({.m = shape[0],
                                 .n = shape[1],
                                 .k = shape[2],
                                 .weight = type,
                                 .tile = {tile[0], tile[1]},
                                 .x = type,
                                 .y = type,
                                 .layout = WeightLayout::nk});
  return to_json(build(product, tile_space(space, ranks, type, route)));
}

struct ReadPlan {
  explicit ReadPlan(const std::string& text) : plan(parse_plan(text, "the plan given to weft.triton")), expander(plan) {
    require_runnable(plan);
  }
  Plan plan;
  Expander expander;
};

template <typename T, std::size_t columns>
Tensor table_of(const std::vector<std::array<T, columns>>& rows) {
  const Sizes sizes{static_cast<std::int64_t>(rows.size()), static_cast<std::int64_t>(columns)};
  Tensor out = torch::stable::empty(sizes, sizeof(T) == 4 ? ScalarType::Int : ScalarType::Long);
  if (!rows.empty()) std::memcpy(out.data_ptr(), rows.data(), rows.size() * sizeof(rows[0]));
  return out;
}

void check_rank(const Plan& plan, std::int64_t rank) {
  if (rank < 0 || rank >= plan.num_ranks)
    bad_input("weft.triton: rank {} of plan \"{}\", which has {}", rank, plan.name, plan.num_ranks);
}

// bytes, where counters begin and how many; lanes of each kind; the tile; the output's place and shape; the type.
std::vector<std::array<std::int64_t, 1>> facts_of(const ReadPlan& read, const TilePlan& tiles, int rank) {
  const Layout& layout = tiles.layouts[at(rank)];
  const TileTable& table = tiles.tables[at(rank)];
  const BufferLayout& output = layout.buffers[at(tiles.output)];
  const auto wide = [](std::size_t value) { return static_cast<std::int64_t>(value); };
  return {{read.plan.num_ranks}, {wide(layout.bytes)},  {wide(layout.counters)}, {layout.num_counters},
          {table.tiles},         {table.opening},       {table.closing},         {tiles.tile[0]},
          {tiles.tile[1]},       {wide(output.offset)}, {output.shape[0]},       {output.shape[1]},
          {size_of(tiles.dtype)}};
}

TileOptions tile_options(std::int64_t programs, std::int64_t group_rows) {
  return {static_cast<int>(programs), static_cast<int>(group_rows)};
}

// A row per counter: which, then how often each program raises it.
Tensor late_table(const std::vector<TileLate>& late, std::int64_t programs) {
  const auto rows = static_cast<std::int64_t>(late.size());
  Tensor out = torch::stable::empty({rows, programs + 1}, ScalarType::Long);
  auto* to = static_cast<std::int64_t*>(out.data_ptr());
  for (const TileLate& one : late) {
    *to++ = one.counter;
    for (const std::int64_t count : one.by_program) *to++ = count;
  }
  return out;
}

std::vector<Tensor> tile_tables(std::string text, std::int64_t rank, std::int64_t programs, std::int64_t group_rows) {
  const ReadPlan read(text);
  check_rank(read.plan, rank);
  const TilePlan tiles = tile_plan(read.plan, read.expander, tile_options(programs, group_rows));
  require_tiles_end(read.plan, read.expander, tiles);
  const TileTable& table = tiles.tables[at(rank)];
  std::vector<std::array<std::int32_t, 12>> lanes;
  for (const TileLane& l : table.lanes)
    lanes.push_back({l.row, l.col, l.rows, l.cols, l.first_wait, l.waits, l.first_source, l.sources, l.first_target,
                     l.targets, l.first_signal, l.signals});
  std::vector<std::array<std::int64_t, 4>> waits;
  for (const TileWait& w : table.waits) waits.push_back({w.counter, w.at, w.total, w.lag});
  std::vector<std::array<std::int64_t, 5>> places;
  for (const TilePlace& p : table.places) places.push_back({p.rank, p.offset, p.stride, p.copy_bytes, p.depth});
  std::vector<std::array<std::int64_t, 3>> signals;
  for (const TileSignal& s : table.signals) signals.push_back({s.rank, s.counter, s.bytes});
  return {table_of(facts_of(read, tiles, static_cast<int>(rank))),
          table_of(lanes),
          table_of(waits),
          table_of(places),
          table_of(signals),
          late_table(table.late, programs)};
}

std::string describe_tile_wait(std::string text, std::int64_t rank, std::int64_t programs, std::int64_t group_rows,
                               Sizes failure) {
  const ReadPlan read(text);
  check_rank(read.plan, rank);
  if (failure.size() != 4)
    bad_input("weft.triton: a failure has {} numbers; it is lane, wait, seen, ns", failure.size());
  const TilePlan tiles = tile_plan(read.plan, read.expander, tile_options(programs, group_rows));
  return describe(read.plan, read.expander, tiles,
                  {static_cast<int>(rank), static_cast<int>(failure[0]), static_cast<int>(failure[1]), failure[2],
                   static_cast<double>(failure[3]) * 1e-9});
}

// Every rank's output of one run, as floats; x (m, k) and w (n, k) of all ranks.
std::vector<Tensor> run_reference(std::string text, std::vector<Tensor> x, std::vector<Tensor> w) {
  const ReadPlan read(text);
  const Producer& p = read.plan.producers.at(0);
  if (int_size(x) != read.plan.num_ranks || int_size(w) != read.plan.num_ranks)
    bad_input("weft.triton: {} x and {} w for {} ranks; give one of each per rank", x.size(), w.size(),
              read.plan.num_ranks);
  const ScalarType type = p.x() == Dtype::bf16 ? ScalarType::BFloat16 : ScalarType::Float;
  std::vector<Bindings> bindings;
  for (std::size_t r = 0; r < x.size(); ++r) {
    for (const auto& [name, tensor, rows] : {std::tuple{"x", &x[r], p.m}, std::tuple{"w", &w[r], p.n}})
      if (!tensor->is_cpu() || !tensor->is_contiguous() || tensor->scalar_type() != type || tensor->dim() != 2 ||
          tensor->size(0) != rows || tensor->size(1) != p.k)
        bad_input("weft.triton: {} of rank {} is not ({}, {}), dense, on the CPU and of the plan's type", name, r, rows,
                  p.k);
    Inputs inputs;
    if (p.x() == Dtype::bf16)
      inputs.narrow_x = static_cast<const bf16*>(x[r].data_ptr());
    else
      inputs.x = static_cast<const float*>(x[r].data_ptr());
    inputs.w = w[r].data_ptr();
    bindings.push_back({{inputs}, std::vector<const void*>(read.plan.buffers.size())});
  }
  RefExecutor reference(read.plan);
  reference.run(bindings);
  std::vector<Tensor> out;
  for (int r = 0; r < read.plan.num_ranks; ++r) {
    const std::vector<float>& y = reference.output(r);
    const auto shape = read.expander.shape(read.plan.buffer("y"), r);
    out.push_back(new_tensor({shape[0], shape[1]}));
    std::memcpy(out.back().data_ptr(), y.data(), y.size() * sizeof(float));
  }
  return out;
}

}  // namespace
}  // namespace weft::torch_ops

STABLE_TORCH_LIBRARY_FRAGMENT(weft, m) {
  m.def("tile_plan(str space, int ranks, int[] shape, int[] tile, str dtype, str route) -> str");
  m.def("tile_tables(str plan, int rank, int programs, int group_rows) -> Tensor[]");
  m.def("describe_tile_wait(str plan, int rank, int programs, int group_rows, int[] failure) -> str");
  m.def("run_reference(str plan, Tensor[] x, Tensor[] w) -> Tensor[]");
}

STABLE_TORCH_LIBRARY_IMPL(weft, CompositeExplicitAutograd, m) {
  using namespace weft::torch_ops;
  m.impl("tile_plan", TORCH_BOX(&tile_plan_text));
  m.impl("tile_tables", TORCH_BOX(&tile_tables));
  m.impl("describe_tile_wait", TORCH_BOX(&describe_tile_wait));
  m.impl("run_reference", TORCH_BOX(&run_reference));
}
