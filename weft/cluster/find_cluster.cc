#include "weft/cluster/find_cluster.h"

#include <cstdlib>
#include <filesystem>
#include <string_view>

#include "weft/base/error.h"

namespace weft {
namespace {

std::string_view variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace

std::string saved_cluster_path() {
  if (const auto cache = variable("XDG_CACHE_HOME"); !cache.empty()) return std::string(cache) + "/weft/cluster.json";
  if (const auto home = variable("HOME"); !home.empty()) return std::string(home) + "/.cache/weft/cluster.json";
  return {};
}

Cluster find_cluster() {
  const std::string named(variable("WEFT_CLUSTER"));
  if (named == "default") return default_cluster();
  if (!named.empty()) return load_cluster(named);
  const std::string saved = saved_cluster_path();
  std::error_code unknown;
  if (saved.empty() || !std::filesystem::is_regular_file(saved, unknown)) return default_cluster();
  try {
    return load_cluster(saved);
  } catch (const Error&) {
    return default_cluster();
  }
}

}  // namespace weft
