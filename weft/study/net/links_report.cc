#include "weft/study/net/links_report.h"

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "weft/base/units.h"
#include "weft/draw/text_table.h"
#include "weft/sim/net/report.h"

namespace weft::netsim {

std::string time_text(Time time) { return format_duration(sim::to_seconds(time)); }

std::string simulated_text(const NetResult& result) {
  return fmt::format("simulated {} of {} ranks{}", result.simulated, result.ranks,
                     result.simulated < result.ranks ? " (one of each class, as proved)" : "");
}

nlohmann::ordered_json links_json(const NetResult& result, const Topology& topology, int most) {
  nlohmann::ordered_json links = nlohmann::ordered_json::array();
  for (const HotLink& link : hottest_links(result, topology, most))
    links.push_back({{"name", link.name},
                     {"count", link.count},
                     {"bytes", link.bytes},
                     {"messages", link.messages},
                     {"busy_us", link.busy_s * 1e6},
                     {"busy_share", link.share}});
  return links;
}

std::string links_text(const NetResult& result, const Topology& topology, int most) {
  std::vector<std::vector<std::string>> rows{
      {"hottest links", "such links", "bytes", "messages", "busy", "of the time"}};
  for (const HotLink& link : hottest_links(result, topology, most))
    rows.push_back({link.name, fmt::format("{}", link.count), format_bytes(link.bytes),
                    fmt::format("{}", link.messages), format_duration(link.busy_s),
                    fmt::format("{:.1f} %", link.share * 100)});
  return rows.size() > 1 ? "\n" + draw::aligned(rows, draw::Last::number) : "";
}

}  // namespace weft::netsim
