// A gemv of few rows on a GPU, alone or with its all_reduce, as device_study.h describes it.
#pragma once

#include "weft/study/device/device_study.h"

namespace weft {

Measurement measure_gemv(const OpSpec& spec, const DeviceStudyOptions& options);

}  // namespace weft
