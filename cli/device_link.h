// What --link means to ranks that share a GPU.
#pragma once

#include <string>

#include "weft/study/device/device_study.h"

namespace weft::cli {

// hbm (or nothing, or shm), pcie, or RATE[,LATENCY]: into the options. Returns its name.
std::string take_device_link(const std::string& link, int ranks_per_host, DeviceStudyOptions* options);

}  // namespace weft::cli
