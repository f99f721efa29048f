// `weft spd predict`: what dropping synchronisations would buy on devices that are not here: time to the first token of
// a prompt (weft/llm/spd/predict.h), for several links and shares of blocks dropped.
#include "weft/llm/spd/predict.h"

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "weft/base/json_out.h"
#include "weft/base/units.h"
#include "weft/cluster/data_file.h"
#include "weft/draw/text_table.h"

#include "cli/flag_values.h"
#include "cli/spd/spd.h"

namespace weft::cli::spd {
namespace {

struct PredictFlags {
  std::string workload = "llama-2-70b", cluster = "a100-8", wire = "bf16";
  std::vector<std::string> links{"300GB/s", "50GB/s", "10GB/s"};
  std::vector<double> dropped{0, 25, 50, 75, 100};
  int tp = 8;
  std::int64_t tokens = 2048;
  bool json = false;
};

void print_text(const PredictFlags& flags, const FirstTokenSpec& spec, const std::vector<DropPrediction>& rows) {
  fmt::print("{}: prompt of {} tokens on {} devices ({}), sums travel as {}; predicted, nothing here is measured\n\n",
             spec.workload.name, spec.tokens, spec.ranks, spec.cluster.name, flags.wire);
  std::vector<std::vector<std::string>> table{
      {"link", "dropped", "sequential", "comm", "fused", "comm", "fused / sync", "sent a rank"}};
  for (const DropPrediction& row : rows)
    table.push_back({format_rate(row.link_bytes_per_s), fmt::format("{} of {}", row.dropped, spec.workload.layers),
                     format_duration(row.time.sequential), fmt::format("{:.1f} %", 100 * row.sequential_comm_share()),
                     format_duration(row.time.fused), fmt::format("{:.1f} %", 100 * row.comm_share()),
                     fmt::format("{:.3f}", row.against_sync), format_bytes(row.time.bytes)});
  fmt::print("{}\n", draw::aligned(table, draw::Last::number));
  fmt::print(
      "sequential: each product, then its all-reduce; fused: tiles leave as they are made, where that is no slower.\n"
      "comm: what of the time is communication that nothing hides. fused / sync: against the sequential time of the\n"
      "link's first row.\n");
}

void print_json(const PredictFlags& flags, const FirstTokenSpec& spec, const std::vector<DropPrediction>& rows) {
  nlohmann::ordered_json out{
      {"workload", spec.workload.name}, {"tp", spec.ranks},   {"tokens", spec.tokens},
      {"cluster", spec.cluster.name},   {"wire", flags.wire}, {"rows", nlohmann::ordered_json::array()}};
  for (const DropPrediction& row : rows)
    out["rows"].push_back({{"link_bytes_per_s", row.link_bytes_per_s},
                           {"dropped_blocks", row.dropped},
                           {"dropped", static_cast<double>(row.dropped) / spec.workload.layers},
                           {"ttft_us", row.time.fused * 1e6},
                           {"sequential_us", row.time.sequential * 1e6},
                           {"compute_us", row.time.compute * 1e6},
                           {"comm_share", row.comm_share()},
                           {"sequential_comm_share", row.sequential_comm_share()},
                           {"bytes_sent", row.time.bytes},
                           {"route", row.route}});
  fmt::print("{}", json_line(out));
}

int run(const PredictFlags& flags) {
  FirstTokenSpec spec;
  spec.workload = load_workload(flags.workload);
  spec.cluster = load_cluster(find_data_file("clusters", "cluster", flags.cluster));
  spec.ranks = flags.tp;
  spec.tokens = flags.tokens;
  spec.wire = parse_dtype(flags.wire);
  std::vector<Link> links;
  for (std::string text : flags.links) {  // commas part the links, so a latency stands behind a colon
    std::replace(text.begin(), text.end(), ':', ',');
    links.push_back(parse_link(text));
  }
  const std::vector<DropPrediction> rows = predict_drops(spec, links, flags.dropped);
  if (flags.json)
    print_json(flags, spec, rows);
  else
    print_text(flags, spec, rows);
  return 0;
}

}  // namespace

void add_predict(CLI::App& group, Run* chosen) {
  auto* command =
      group.add_subcommand("predict", "time to first token on modelled devices, for shares of blocks dropped");
  auto flags = std::make_shared<PredictFlags>();
  command->add_option("--workload", flags->workload, "a transformer of workloads/ (llama-2-70b)")->type_name("NAME");
  command->add_option("--cluster", flags->cluster, "rates of a device, of clusters/ (a100-8)")->type_name("NAME|FILE");
  add_number(*command, "--tp", &flags->tp, "devices that share the model (8)")->type_name("N");
  add_number(*command, "--tokens", &flags->tokens, "of the prompt (2048)")->type_name("N");
  command
      ->add_option("--links", flags->links, "what a device sends in one direction: RATE, or RATE:LATENCY as 10GB/s:5us")
      ->delimiter(',')
      ->type_name("RATE,...");
  command->add_option("--dropped", flags->dropped, "shares of blocks, in percent (0,25,50,75,100)")
      ->delimiter(',')
      ->type_name("P,...");
  command->add_option("--wire", flags->wire, "sums travel as bf16 or int8")->type_name("TYPE");
  command->add_flag("--json", flags->json, "one JSON object on standard output");
  command->footer(
      "Example:\n  weft spd predict --workload llama-2-70b --tp 8 --links 300GB/s,50GB/s,10GB/s --tokens 2048\n"
      "  weft spd predict --wire int8 --tokens 4096 --dropped 0,10,20,30,40,50,60,70,80,90,100 --json");
  command->callback([=] { *chosen = [flags] { return run(*flags); }; });
}

}  // namespace weft::cli::spd
