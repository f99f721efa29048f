// Beyond the paper's comparison: the gather fused into the product that follows it, a product whose output is
// exchanged, the generation phase, whole models, and a map over link rates and CUs.
#pragma once

#include <string>
#include <vector>

#include "weft/study/sim/case.h"

namespace weft::sim {

// From a product through its sum and gather to the end of the product that reads it.
struct ConsumerRow {
  SimCase made;
  std::string consumer;
  double sequential_us = 0, t3_mca_us = 0, both_us = 0;  // both: the gather fused into the consumer as well
  double speedup() const { return sequential_us / both_us; }
};
std::vector<ConsumerRow> with_consumer(Simulator& simulator, const std::vector<SimCase>& cases);

// A product, each part of whose rows goes to another device: the second product of an expert.
struct ExchangeRow {
  std::string model;
  SimShape shape;
  double product_us = 0, exchange_us = 0, tracker_us = 0, fused_cu_us = 0;
};
std::vector<ExchangeRow> exchanges(const Chip& chip);

// One token for each of `batch` sequences: the weights are read once, the sums are small.
struct GenerationRow {
  std::string model, layer;
  int tp = 0, batch = 0;
  double sequential_us = 0, t3_mca_us = 0, fused_cu_us = 0, direct_us = 0, product_us = 0;
  double sequential_direct_us = 0;  // the product, then kernels that exchange without a ring
};
std::vector<GenerationRow> generation(const Chip& chip);

// One block, times the model's layers. Data parallelism, embeddings and the optimizer are left out.
struct EndToEndRow {
  std::string model;
  int tp = 0;
  bool training = false;  // else prompt inference: forward only
  double sequential_s = 0, t3_s = 0, t3_mca_s = 0, ideal_s = 0;
  double summed_share = 0;  // of sequential: products with their sums and gathers
};
std::vector<EndToEndRow> end_to_end(Simulator& simulator);

struct SweepCell {
  double link_bytes_per_s = 0;
  int cus = 0;
  double t3_mca = 1, copy_engine = 1;  // speedups over sequential
};
struct Sweep {
  SimCase layer;
  std::vector<double> links;
  std::vector<int> cus;
  std::vector<SweepCell> cells;  // row by row: CUs, then links
};
Sweep sweep(const Chip& chip, const SimCase& layer);

}  // namespace weft::sim
