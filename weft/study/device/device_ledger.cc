#include "weft/study/device/device_ledger.h"

#include <algorithm>

#include "weft/base/error.h"

namespace weft {

std::vector<DeviceProduct> device_products(const Workload& workload, int ranks) {
  if (workload.kind != WorkloadKind::transformer)
    bad_input("{} is no transformer; the ledger of a GPU has blocks of those alone", workload.name);
  std::vector<DeviceProduct> out;
  for (const SubLayer& layer : sub_layers(workload, {.ranks = ranks}, Phase::forward)) {
    if (layer.work != WorkKind::gemm) continue;
    OpSpec spec;
    spec.ranks = ranks;
    spec.producer = gemm({.m = layer.m, .n = layer.n, .k = layer.k});
    if (layer.after == Collective::none) {
      spec.name = "gemm", spec.space = keep();
    } else {
      spec.name = "gemm-ar", spec.space = all_reduce(Mesh({{"tp", ranks}}), "tp");
    }
    out.push_back({layer.name, device_spec(spec)});
  }
  return out;
}

DeviceLedger added_up(const Workload& workload, std::vector<DeviceLedger::Product> products) {
  DeviceLedger out;
  out.workload = workload;
  double sequential = 0, panels = 0, fused = 0, floor = 0;
  for (const DeviceLedger::Product& one : products) {
    const double alone = one.m.floor_us().value_or(one.m.fused_us);
    const double after = one.m.sequential_us.value_or(alone);
    floor += alone;
    sequential += after;
    panels += one.m.panels_us.value_or(after);
    fused += has_collective(one.what.spec) ? one.m.fused_us : alone;
    out.max_rel_err = std::max(out.max_rel_err, one.m.max_rel_err);
    out.table.aa_band = std::max(out.table.aa_band, one.m.aa_band);
    out.table.rounds = one.m.rounds, out.table.ranks = out.table.cores = one.what.spec.ranks;
  }
  out.table.transport = "cuda";
  out.table.rows = {{.name = "sequential", .measured_us = sequential},
                    {.name = "panels", .measured_us = panels},
                    {.name = "fused", .measured_us = fused},
                    {.name = kFloor, .measured_us = floor}};
  set_exposed(&out.table);
  out.products = std::move(products);
  return out;
}

DeviceLedger measure_device_ledger(const Workload& workload, int ranks, const DeviceStudyOptions& options) {
  std::vector<DeviceLedger::Product> products;
  for (DeviceProduct& what : device_products(workload, ranks)) {
    Measurement m = measure_on_device(what.spec, options);
    products.push_back({std::move(what), std::move(m)});
  }
  return added_up(workload, std::move(products));
}

}  // namespace weft
