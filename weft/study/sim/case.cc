#include "weft/study/sim/case.h"

#include <algorithm>

#include "weft/collective/build.h"

namespace weft::sim {

namespace {

constexpr const char* kTensorAxis = "tp";

std::vector<SimCase> cases_of(const std::vector<std::string>& models) {
  std::vector<SimCase> out;
  for (const std::string& model : models) {
    const Workload workload = load_workload(model);
    for (const int tp : workload.degrees)
      for (SimCase& one : summed_layers(workload, tp)) out.push_back(std::move(one));
  }
  return out;
}

}  // namespace

std::vector<SimCase> summed_layers(const Workload& workload, int tp) {
  std::vector<SimCase> out;
  for (const SubLayer& layer : sub_layers(workload, {.ranks = tp}))
    if (layer.after == Collective::all_reduce && layer.work == WorkKind::gemm)
      out.push_back({workload.name, tp, layer});
  return out;
}

std::vector<SimCase> fitted_cases() { return cases_of({"mega-gpt-2"}); }
std::vector<SimCase> predicted_cases() { return cases_of({"t-nlg"}); }
std::vector<SimCase> large_cases() { return cases_of({"gpt-3", "palm", "mt-nlg"}); }
std::vector<SimCase> paper_cases() { return cases_of({"mega-gpt-2", "t-nlg"}); }

SimShape shape_of(const SimCase& one) {
  return {.m = one.layer.m,
          .n = one.layer.n,
          .k = one.layer.k,
          .devices = one.tp,
          .element_bytes = static_cast<int>(size_of(one.layer.dtype))};
}

CasePlans plans_of(const SimShape& shape, const Chip& chip) {
  const std::int64_t rows = std::max(shape.m, shape.n), cols = std::min(shape.m, shape.n);
  const int n = shape.devices;
  const Mesh mesh({{kTensorAxis, n}});
  const std::array<std::int64_t, 2> tile{std::min(chip.tile_rows, ceil_div(rows, n)), std::min(chip.tile_cols, cols)};
  const Producer product = gemm({.m = rows, .n = cols, .k = shape.k, .tile = tile});
  const Producer whole = copy({.rows = rows, .cols = cols, .tile = tile});
  const Producer part = copy({.rows = ceil_div(rows, n), .cols = cols, .tile = tile});
  CasePlans plans;
  plans.fused = build(product, reduce_scatter(mesh, kTensorAxis, {.route = Route::ring}));
  plans.direct = build(product, reduce_scatter(mesh, kTensorAxis, {.route = Route::direct}));
  plans.scatter = build(whole, reduce_scatter(mesh, kTensorAxis, {.route = Route::ring}));
  plans.gather = build(part, all_gather(mesh, kTensorAxis, {.route = Route::ring}));
  plans.direct_gather = build(part, all_gather(mesh, kTensorAxis, {.route = Route::direct}));
  return plans;
}

Simulator::Kept& Simulator::kept(const SimShape& s) {
  std::unique_ptr<Kept>& found = kept_[{s.m, s.n, s.k, s.devices, s.element_bytes}];
  if (!found) {
    found = std::make_unique<Kept>();
    found->plans = plans_of(s, chip_);
    found->of = std::make_unique<Case>(found->plans, chip_, s.element_bytes);
  }
  return *found;
}

const CaseResult& Simulator::run(const SimShape& shape, Config config) {
  Kept& one = kept(shape);
  const auto found = one.results.find(config);
  if (found != one.results.end()) return found->second;
  return one.results.emplace(config, one.of->run(config)).first->second;
}

double Simulator::speedup(const SimCase& one, Config config) {
  return run(one, Config::sequential).seconds / run(one, config).seconds;
}

RunResult Simulator::fused(const SimCase& one, Config config, double bin_s, bool slices) {
  return kept(shape_of(one)).of->fused(config, bin_s, slices);
}

double largest(const std::vector<double>& values) {
  return values.empty() ? 0 : *std::max_element(values.begin(), values.end());
}

}  // namespace weft::sim
