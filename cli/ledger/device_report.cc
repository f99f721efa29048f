// The ledger of a block on a GPU: its rows, and where they go product by product.
#include <fmt/core.h>

#include "weft/base/index.h"
#include "weft/draw/text_table.h"

#include "cli/ledger/report.h"

namespace weft::cli::ledger {
namespace {

std::string product_table(const DeviceLedger& ledger) {
  std::vector<std::vector<std::string>> rows{
      {"product", "m x n x k", "compute", "collective", "exposed: sequential", "panels", "fused", ""}};
  for (const DeviceLedger::Product& one : ledger.products) {
    const double floor = one.m.floor_us().value_or(one.m.fused_us);
    auto& cells = rows.emplace_back(std::vector<std::string>(rows[0].size()));
    cells[0] = one.what.name, cells[1] = shape_text(one.what.spec), cells[2] = duration_text(floor);
    if (!has_collective(one.what.spec)) continue;
    cells[3] = duration_text(one.m.comm_us.value_or(0));
    cells[4] = difference_text(one.m.sequential_us.value_or(floor) - floor);
    cells[5] = one.m.panels_us ? difference_text(*one.m.panels_us - floor) : "-";
    cells[6] = difference_text(one.m.fused_us - floor);
    cells[7] = one.m.route;
  }
  return draw::aligned(rows);
}

}  // namespace

std::string text_of(const DeviceLedger& ledger, const std::string& device) {
  return fmt::format("\nProducts of one block of {} on one {}\n\n{}", ledger.workload.name, device,
                     rows_text(ledger.table)) +
         product_table(ledger) +
         fmt::format("\nChecked against float64, largest error {:.1e}. Attention and norms are not in it. {}",
                     ledger.max_rel_err, rounds_text(ledger.table));
}

Json json_of(const DeviceLedger& ledger, const std::string& device) {
  Json out{{"workload", ledger.workload.name}, {"device", device}, {"sizes", size_words(ledger.workload)}};
  add_table(ledger.table, &out);
  Json products = Json::array();
  for (const DeviceLedger::Product& one : ledger.products)
    products.push_back({{"name", one.what.name},
                        {"op", one.what.spec.name},
                        {"shape", shape_json(one.what.spec)},
                        {"route", or_null(one.m.route)},
                        {"compute_us", or_null(one.m.compute_us)},
                        {"library_us", or_null(one.m.library_us)},
                        {"comm_us", or_null(one.m.comm_us)},
                        {"sequential_us", or_null(one.m.sequential_us)},
                        {"decomposed_us", or_null(one.m.panels_us)},
                        {"fused_us", one.m.fused_us},
                        {"hidden", or_null(one.m.hidden().part)}});
  out.update(Json{{"products", products},
                  {"aa_band", ledger.table.aa_band},
                  {"max_rel_err", ledger.max_rel_err},
                  {"verified", true}});
  return out;
}

}  // namespace weft::cli::ledger
