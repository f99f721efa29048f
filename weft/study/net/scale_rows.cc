#include "weft/study/net/scale_rows.h"

#include <algorithm>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "weft/base/error.h"
#include "weft/base/json_out.h"
#include "weft/base/units.h"
#include "weft/draw/text_table.h"

namespace weft::netsim {
namespace {

double saved(const Styles& styles) { return 1 - styles.both_s / styles.bulk_s; }

}  // namespace

std::vector<ScaleRow> rows_over_ranks(const Setting& setting, int from, int to, const Slowing& slow_down) {
  if (from < 2 || to < from) bad_input("--from {} --to {} ranks; use 2 or more, the smaller first", from, to);
  std::vector<ScaleRow> out;
  for (int ranks = from; ranks <= to; ranks *= 2) {
    Setting one = at_ranks(setting, ranks);
    slow_down(&one.topology);
    out.push_back({fmt::format("{} ranks", ranks), run_styles(one)});
  }
  return out;
}

std::vector<ScaleRow> rows_varied(Setting setting, const Varied& varied, const Slowing& slow_down) {
  slow_down(&setting.topology);
  std::vector<ScaleRow> out{{"as given", run_styles(setting)}};
  const auto add = [&](const std::vector<Variation>& all) {
    for (const Variation& one : all) out.push_back({one.what, run_styles(one.setting)});
  };
  if (varied.rates) add(free_parameters(setting, 0.2));
  if (varied.unknowns) add(unknowns_of_dlrm(setting));
  return out;
}

std::string scale_text(const std::vector<ScaleRow>& rows) {
  std::vector<std::vector<std::string>> table{
      {"setting", "computing", "bulk", "panels", "fused forward", "fused both", "saved", "simulated ranks"}};
  double least = 1, most = -1;
  for (const ScaleRow& row : rows) {
    table.push_back({row.what, format_duration(row.styles.compute_s), format_duration(row.styles.bulk_s),
                     format_duration(row.styles.panels_s), format_duration(row.styles.forward_s),
                     format_duration(row.styles.both_s), fmt::format("{:.1f} %", 100 * saved(row.styles)),
                     fmt::format("{} of {}", row.styles.simulated, row.styles.ranks)});
    least = std::min(least, saved(row.styles)), most = std::max(most, saved(row.styles));
  }
  return draw::aligned(table, draw::Last::number) +
         fmt::format("\nfused both ways saves {:.1f} % to {:.1f} % of a bulk step\n", 100 * least, 100 * most);
}

std::string scale_json(const std::string& workload, const std::string& network, const std::vector<ScaleRow>& rows) {
  using Json = nlohmann::ordered_json;
  Json list = Json::array();
  for (const ScaleRow& row : rows)
    list.push_back({{"what", row.what},
                    {"ranks", row.styles.ranks},
                    {"simulated_ranks", row.styles.simulated},
                    {"compute_us", row.styles.compute_s * 1e6},
                    {"time_us", row.styles.bulk_s * 1e6},
                    {"exposed_us", (row.styles.bulk_s - row.styles.compute_s) * 1e6},
                    {"panels_us", row.styles.panels_s * 1e6},
                    {"fused_forward_us", row.styles.forward_s * 1e6},
                    {"fused_us", row.styles.both_s * 1e6}});
  return json_line(Json{{"workload", workload}, {"network", network}, {"rows", list}});
}

}  // namespace weft::netsim
