#include "cli/device_link.h"

#include <algorithm>

#include "weft/base/error.h"

#include "cli/rank_flags.h"

namespace weft::cli {

std::string take_device_link(const std::string& link, int ranks_per_host, DeviceStudyOptions* options) {
  if (link.empty() || link == "hbm" || link == "shm") return "hbm";
  if (link == "pcie") {
    options->link = CudaLink::pcie;
    return link;
  }
  const auto paced = paced_link(link);
  if (!paced) bad_input("--link {} is no link of a GPU's ranks; use hbm, pcie, or RATE,LATENCY", link);
  options->pace = Pace{paced->bytes_per_s, paced->latency_s, std::max(ranks_per_host, 1), paced->fabric};
  return link;
}

}  // namespace weft::cli
