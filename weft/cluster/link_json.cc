#include "weft/cluster/link_json.h"

#include <string>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

namespace weft {

double get_rate(const Json& object, std::string_view key, std::string_view where) {
  return get_double(object, key, where, kMinRate, kMaxRate);
}

double get_seconds(const Json& object, std::string_view key, std::string_view where) {
  return get_double(object, key, where, 0, kMaxSeconds);
}

Link get_link(const Json& object, std::string_view key, std::string_view where) {
  const Json& link = get_object(object, key, where);
  const std::string inside = fmt::format("{}: in \"{}\"", where, key);
  check_fields(link, {"bytes_per_s", "latency_s"}, inside);
  return {get_rate(link, "bytes_per_s", inside), get_seconds(link, "latency_s", inside)};
}

}  // namespace weft
