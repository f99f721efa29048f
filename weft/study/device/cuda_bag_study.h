// Embedding bags on a GPU, alone or with their all_to_all, as device_study.h describes it.
#pragma once

#include "weft/study/device/device_study.h"

namespace weft {

Measurement measure_bags(const OpSpec& spec, const DeviceStudyOptions& options);

}  // namespace weft
