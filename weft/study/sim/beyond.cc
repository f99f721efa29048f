#include "weft/study/sim/beyond.h"

#include <algorithm>

#include "weft/base/error.h"
#include "weft/collective/build.h"

namespace weft::sim {
namespace {

constexpr const char* kAxis = "tp";

// What reads the gathered output of a summed sub-layer.
std::string consumer_of(const std::string& layer) {
  if (layer == "op") return "fc1";
  if (layer == "fc2") return "ip";  // of the next block
  if (layer == "fc1_bwd") return "op_bwd";
  return "fc2_bwd";  // of the block before
}

SubLayer named(const std::vector<SubLayer>& layers, const std::string& name) {
  for (const SubLayer& layer : layers)
    if (layer.name == name) return layer;
  bad_input("the model has no sub-layer \"{}\"; use a transformer", name);
}

Plan gather_product(const SubLayer& consumer, int devices, const Chip& chip) {
  const std::int64_t rows = ceil_div(consumer.m, devices);
  const std::array<std::int64_t, 2> tile{std::min(chip.tile_rows, rows), std::min(chip.tile_cols, consumer.n)};
  return build(all_gather(Mesh({{kAxis, devices}}), kAxis, {.route = Route::ring}),
               gemm({.m = rows, .n = consumer.n, .k = consumer.k, .tile = tile}));
}

double microseconds(const Plan& plan, const Chip& chip, const RunOptions& options) {
  return simulate(plan, chip, options).seconds() * 1e6;
}

// Reduce-scatter and gather by kernels that send straight to the owner: what a small sum takes today.
double direct_sum_us(const SimShape& shape, const Chip& chip) {
  const std::array<std::int64_t, 2> tile{std::min(chip.tile_rows, shape.m / shape.devices), shape.n};
  const Space space = reduce_scatter(Mesh({{kAxis, shape.devices}}), kAxis, {.route = Route::direct});
  const Plan sum = build(copy({.rows = shape.m, .cols = shape.n, .tile = tile}), space);
  return microseconds(sum, chip, {}) + microseconds(plans_of(shape, chip).direct_gather, chip, {});
}

}  // namespace

std::vector<ConsumerRow> with_consumer(Simulator& simulator, const std::vector<SimCase>& cases) {
  std::vector<ConsumerRow> out;
  const Chip& chip = simulator.chip();
  for (const SimCase& one : cases) {
    const SubLayer next = named(sub_layers(load_workload(one.model), {.ranks = one.tp}), consumer_of(one.layer.name));
    const Plan plan = gather_product(next, one.tp, chip);
    const double alone = microseconds(plan, chip, {.output = Output::cached, .keep = true});
    const double fused =
        microseconds(plan, chip, {.mover = Mover::tracker, .policy = Policy::mca, .output = Output::cached});
    const auto &before = simulator.run(one, Config::sequential), &after = simulator.run(one, Config::t3_mca);
    out.push_back({one, next.name, before.seconds * 1e6 + alone, after.seconds * 1e6 + alone,
                   (after.seconds - after.gather_s) * 1e6 + fused});
  }
  return out;
}

std::vector<ExchangeRow> exchanges(const Chip& chip) {
  std::vector<ExchangeRow> out;
  for (const char* model : {"mixtral-8x7b", "deepseek-v3-moe"}) {
    const Workload workload = load_workload(model);
    for (const int devices : {workload.degrees.back()}) {
      const SubLayer layer = named(sub_layers(workload, {.ranks = devices}), "expert_fc2");
      const SimShape shape{layer.m * layer.count / devices * devices, layer.n, layer.k, devices};
      const std::array<std::int64_t, 2> tile{std::min(chip.tile_rows, shape.m / devices), chip.tile_cols};
      const Space space = all_to_all(Mesh({{kAxis, devices}}), kAxis, {.route = Route::direct});
      const Plan fused = build(gemm({.m = shape.m, .n = shape.n, .k = shape.k, .tile = tile}), space);
      const Plan alone = build(copy({.rows = shape.m, .cols = shape.n, .tile = tile}), space);
      ExchangeRow row{.model = model, .shape = shape};
      row.product_us = microseconds(fused, chip, {.output = Output::cached, .keep = true});
      row.exchange_us = microseconds(alone, chip, {});
      row.tracker_us = microseconds(fused, chip, {.mover = Mover::tracker, .policy = Policy::mca});
      row.fused_cu_us = microseconds(fused, chip, {.cu_share = chip.fused_cu_share});
      out.push_back(row);
    }
  }
  return out;
}

// The kernel of a product with few columns: strips of 16 rows, so that there are more of them than CUs, and loads long
// enough to keep the memory busy.
std::vector<GenerationRow> generation(const Chip& given) {
  Chip chip = given;
  chip.tile_rows = 16;
  chip.tile_k = 512;
  chip.raster_cols = 0;
  Simulator simulator(chip);
  std::vector<GenerationRow> out;
  for (const char* model : {"mega-gpt-2", "t-nlg", "gpt-3"}) {
    const Workload workload = load_workload(model);
    const int tp = workload.degrees.front();
    for (const char* name : {"op", "fc2"})
      for (const int batch : {1, 4, 16, 64}) {
        const SubLayer layer = named(sub_layers(workload, {.ranks = tp}), name);
        const SimShape shape{.m = layer.n, .n = batch, .k = layer.k, .devices = tp};
        const auto us = [&](Config config) { return simulator.run(shape, config).seconds * 1e6; };
        const double product = simulator.run(shape, Config::sequential).gemm_s * 1e6;
        out.push_back({model, name, tp, batch, us(Config::sequential), us(Config::t3_mca), us(Config::fused_cu),
                       us(Config::direct), product, product + direct_sum_us(shape, chip)});
      }
  }
  return out;
}

Sweep sweep(const Chip& chip, const SimCase& layer) {
  Sweep out{.layer = layer, .links = {12.5e9, 25e9, 50e9, 75e9, 150e9, 300e9, 600e9}, .cus = {20, 40, 80, 160, 320}};
  for (const int cus : out.cus)
    for (const double link : out.links) {
      Chip changed = chip;
      changed.cus = cus;
      changed.link_bytes_per_s = link;
      Simulator simulator(changed);
      out.cells.push_back(
          {link, cus, simulator.speedup(layer, Config::t3_mca), simulator.speedup(layer, Config::copy_engine)});
    }
  return out;
}

}  // namespace weft::sim
