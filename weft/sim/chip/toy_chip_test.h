// A chip whose arithmetic a person can do: a slice of K, reading it, and sending a tile take 1 us each; a near-memory
// update takes 2, the link's latency is 2, and everything else takes no time.
#pragma once

#include "weft/collective/build.h"
#include "weft/sim/chip/chip.h"

namespace weft::sim {

inline Chip toy_chip() {
  Chip chip;
  chip.name = "toy";
  chip.cus = 1;
  chip.clock_hz = 1e9;
  chip.flops_per_cycle = 8.192;  // 2 * 16 * 16 * 16 flops in 1 us
  chip.gemm_efficiency = 1;
  chip.tile_rows = chip.tile_cols = chip.tile_k = 16;
  chip.llc_bytes = 1 << 20;
  chip.dram_bytes_per_s = 512e6;  // 16 * 16 elements of 2 bytes in 1 us
  chip.burst_bytes = 512;
  chip.dram_entry_bytes = 512;
  chip.dram_entries = 4;
  chip.update_factor = 2;
  chip.grant_bytes = 512;
  chip.starvation_s = 1;
  chip.kernel_bytes_per_s = 1024e6;
  chip.link_bytes_per_s = 512e6;
  chip.link_latency_s = 2e-6;
  chip.egress_bytes = 1 << 20;
  chip.dma_bytes = 1 << 20;
  chip.tracker_entries = 16;
  chip.tracker_ways = 4;
  return chip;
}

// One tile of 16 x 16 for each device and chunk, K in one slice.
inline Plan toy_plan(int devices) {
  return build(gemm({.m = 16 * devices, .n = 16, .k = 16, .tile = {16, 16}}),
               reduce_scatter(Mesh({{"tp", devices}}), "tp", {.route = Route::ring}));
}

}  // namespace weft::sim
