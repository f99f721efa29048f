// `weft draw`: a chart described in JSON becomes a picture, in the style of all others. The pages of docs/results use
// it.
#include <iostream>
#include <iterator>
#include <memory>

#include <CLI/CLI.hpp>
#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "weft/base/json.h"
#include "weft/base/json_out.h"
#include "weft/base/os/new_file.h"
#include "weft/draw/chart_json.h"

#include "cli/command.h"
#include "cli/out_file.h"

namespace weft::cli {
namespace drawing {
namespace {

constexpr std::size_t kMostBytes = std::size_t{64} << 20;

struct Flags {
  std::string chart, svg;
  bool json = false;
};

int run(const Flags& flags) {
  const bool piped = flags.chart == "-";
  const std::string text =
      piped ? std::string(std::istreambuf_iterator<char>(std::cin), {}) : read_text_file(flags.chart, kMostBytes);
  const std::string svg = draw::chart_from_json(text, piped ? "standard input" : flags.chart);
  if (!flags.svg.empty()) write_file(flags.svg, svg);
  if (flags.json)
    fmt::print("{}", json_line(nlohmann::ordered_json{{"svg", flags.svg}, {"bytes", svg.size()}}));
  else if (flags.svg.empty())
    fmt::print("{}", svg);
  return 0;
}

}  // namespace
}  // namespace drawing

void add_draw(CLI::App& app, Run* chosen) {
  auto* command = app.add_subcommand("draw", "draw a line, bar or heat chart from its description in JSON");
  auto flags = std::make_shared<drawing::Flags>();
  command->add_option("chart", flags->chart, "the description (weft/draw/chart_json.h), or - for standard input")
      ->type_name("CHART.json")
      ->required();
  add_out_file(*command, "--svg", &flags->svg, "where the picture goes (standard output)");
  command->add_flag("--json", flags->json, "one JSON object on standard output: the file and its size");
  command->footer(
      "Example:\n"
      "  echo '{\"chart\": \"line\", \"title\": \"hidden\", \"x\": {\"label\": \"Mbit/s\", \"kind\": \"log\"},\n"
      "         \"series\": [{\"name\": \"gemm-rs\", \"points\": [[50, 0.93], [250, 0.95], [1000, 0.9]]}]}' |\n"
      "    weft draw - --svg hidden.svg\n"
      "  echo '{\"chart\": \"bar\", \"series\": [\"ms\"], \"groups\": [{\"name\": \"fused\", \"values\": [767]}]}' |\n"
      "    weft draw - --svg bars.svg");
  command->callback([=] { *chosen = [flags] { return drawing::run(*flags); }; });
}

}  // namespace weft::cli
