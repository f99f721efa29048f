// gemm-a2a of experts whose rows are drawn anew in every round (routing.h), as device_study.h describes it. Counts are
// in device memory before a turn begins; over pcie copy engines are told them too.
//   compute     our gemm of the rows that were drawn, packed, output kept
//   library     cuBLASLt, tuned for as many rows (a multiple of 128), rank after rank on all multiprocessors
//   comm        the all_to_all of those rows alone
//   sequential  the faster of the two gemms, then that all_to_all. To bring rows from where a gemm leaves them to where
//               the collective takes them is not charged
// What ours alone gives in the place of the library is shown beside: where ranks have a GPU each, cuBLASLt cannot lend
// the busiest of them the others' multiprocessors.
#pragma once

#include "weft/study/device/device_study.h"

namespace weft {

Measurement measure_routed(const OpSpec& spec, const DeviceStudyOptions& options);

}  // namespace weft
