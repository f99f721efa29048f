// Where the build has no CUDA (cuda_study.cc where it has).
#include "weft/base/error.h"
#include "weft/study/device/device_study.h"

namespace weft {

std::string device_name() { return ""; }
std::string why_no_device() {
  return "this build has no CUDA executor (nvcc 13 there, configure with -D WEFT_CUDA=ON)";
}

Measurement measure_on_device(const OpSpec& spec, const DeviceStudyOptions& options) {
  if (!options.trace.empty()) check_device_trace(spec);
  bad_input("--device cuda: {}; leave it out to measure on CPUs", why_no_device());
}

}  // namespace weft
