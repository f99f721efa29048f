#include "weft/study/device/cuda_panels.h"

#include <algorithm>

#include "weft/base/index.h"
#include "weft/study/panels.h"

namespace weft {
namespace {

// What a panel's collective takes: nothing that waits for a peer's product.
Route panel_route(const OpSpec& spec) {
  return spec.space.kind == SpaceKind::all_reduce ? Route::two_shot : Route::direct;
}

std::vector<CudaOperands> outputs_of(const CudaExecutor& executor, int ranks) {
  std::vector<CudaOperands> out;
  for (int r = 0; r < ranks; ++r) out.push_back({executor.output(r)});
  return out;
}

}  // namespace

bool CudaPanels::fit(const OpSpec& spec, int panels) {
  const bool shown =
      spec.gathers || spec.space.kind == SpaceKind::reduce_scatter || spec.space.kind == SpaceKind::all_reduce;
  return shown && has_collective(spec) && spec.producer.m % (panels * spec.ranks) == 0 &&
         spec.producer.m / panels >= spec.producer.tile[0];
}

CudaPanels::CudaPanels(const OpSpec& spec, const DeviceInputs& inputs, const CudaOptions& link, int panels,
                       int clusters)
    : spec_(spec) {
  for (int p = 0; p < panels; ++p) add(inputs, link, p, panels, clusters);
}

void CudaPanels::add(const DeviceInputs& inputs, const CudaOptions& link, int panel, int panels, int clusters) {
  Step& step = steps_.emplace_back();
  const std::int64_t rows = spec_.producer.m / panels, row_bytes = spec_.producer.k * 2;
  const auto stretches = panel_stretches(spec_, panels, panel);
  for (int r = 0; r < spec_.ranks; ++r) {
    CudaOperands in = inputs.operands()[at(r)];
    in.x = inputs.x(r) + stretches[0].begin * row_bytes;
    if (stretches.size() > 1) {
      std::byte* to = step.rows.emplace_back(rows * row_bytes).data();
      for (const Stretch& s : stretches) {
        copy_on_device(to, inputs.x(r) + s.begin * row_bytes, s.size() * row_bytes);
        to += s.size() * row_bytes;
      }
      in.x = step.rows.back().data();
    }
    step.operands.push_back(in);
  }
  OpSpec part = spec_;
  part.producer.m = rows;
  CudaOptions few = link;
  few.clusters_per_rank = clusters, few.queue = beside_.handle();
  step.collective = std::make_unique<CudaExecutor>(fused_plan(moved_spec(part), panel_route(spec_)), few);
  const Plan gemm = kept_plan(part, spec_.gathers ? rows * spec_.ranks : rows);
  const int most = CudaExecutor(gemm, {}).clusters_per_rank();
  step.gemm = std::make_unique<CudaExecutor>(gemm, CudaOptions{.clusters_per_rank = std::max(most - clusters, 1)});
}

void CudaPanels::run() {
  follow(beside_.handle(), device_queue());
  for (Step& step : steps_) {
    if (spec_.gathers) {
      step.collective->start(step.operands);
      follow(device_queue(), beside_.handle());
      auto in = outputs_of(*step.collective, spec_.ranks);
      for (int r = 0; r < spec_.ranks; ++r) in[at(r)].w = step.operands[at(r)].w;
      step.gemm->start(in);
    } else {
      step.gemm->start(step.operands);
      follow(beside_.handle(), device_queue());
      step.collective->start(outputs_of(*step.gemm, spec_.ranks));
    }
  }
  follow(device_queue(), beside_.handle());
}

// What a rank gets from a panel follows what it got from the one before; gathered rows are cut rank by rank.
Places CudaPanels::places() const {
  return [this](int rank, std::int64_t row, std::int64_t col) {
    const std::int64_t m = spec_.producer.m, cut = m / count();
    if (spec_.gathers) {
      const Step& step = steps_[at(row % m / cut)];
      return places_of(*step.gemm)(rank, row / m * cut + row % m % cut, col);
    }
    const std::int64_t part = spec_.space.kind == SpaceKind::all_reduce ? cut : cut / spec_.ranks;
    return places_of(*steps_[at(row / part)].collective)(rank, row % part, col);
  };
}

}  // namespace weft
