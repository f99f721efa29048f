// The ledger of one block of a transformer on a GPU that its ranks share: every product of the block measured as
// device_study.h does, and added up. Attention, norms and gates are no part of it: the GPU has none of ours.
#pragma once

#include <string>
#include <vector>

#include "weft/cluster/workload.h"
#include "weft/study/device/device_study.h"
#include "weft/study/ledger/table.h"

namespace weft {

struct DeviceProduct {
  std::string name;  // of the sub-layer
  OpSpec spec;       // as a GPU makes it
};

// In the order of the block, with an all_reduce after op and fc2. Throws bad_input for workloads other than
// transformers, and where a GPU cannot make a product.
std::vector<DeviceProduct> device_products(const Workload& workload, int ranks);

struct DeviceLedger {
  Workload workload;
  LedgerTable table;  // rows: sequential, panels, fused, compute
  struct Product {
    DeviceProduct what;
    Measurement m;
  };
  std::vector<Product> products;
  double max_rel_err = 0;
};

// A product without a collective is in every row what the faster of cuBLASLt and ours takes; so is the floor.
DeviceLedger added_up(const Workload& workload, std::vector<DeviceLedger::Product> products);

DeviceLedger measure_device_ledger(const Workload& workload, int ranks, const DeviceStudyOptions& options);

}  // namespace weft
