// `weft run -n N -- PROG`: N local ranks of a program that uses the library.
#include <CLI/CLI.hpp>
#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "weft/base/error.h"
#include "weft/cluster/cluster.h"
#include "weft/transport/launch.h"

#include "cli/command.h"

namespace weft::cli {
namespace {

struct Flags {
  int ranks = 0;
  int threads = 0;
  std::string link, trace;
  bool json = false;
  std::vector<std::string> program;
};

int run(const Flags& flags) {
  if (flags.threads < 0 || flags.threads > 1024) bad_input("--threads is {}; use 1 to 1024", flags.threads);
  LaunchOptions options{.num_ranks = flags.ranks, .argv = flags.program};
  if (flags.threads > 0) options.env.emplace_back("WEFT_THREADS", std::to_string(flags.threads));
  if (!flags.link.empty() && flags.link != "ucx") parse_link(flags.link);  // says so where it is no link at all
  if (!flags.link.empty()) options.env.emplace_back("WEFT_LINK", flags.link);
  if (!flags.trace.empty()) options.env.emplace_back("WEFT_TRACE", flags.trace);
  const LaunchResult result = launch(options);
  if (flags.json) {
    nlohmann::ordered_json report{
        {"ranks", flags.ranks}, {"exit_code", result.exit_code()}, {"first_failed", nullptr}, {"reason", nullptr}};
    if (result.first_failed >= 0) report["first_failed"] = result.first_failed, report["reason"] = result.reason;
    fmt::print("{}\n", report.dump());
  }
  if (result.interrupted)
    fmt::print(stderr, "weft: interrupted; all {} ranks have been stopped\n", flags.ranks);
  else if (result.first_failed >= 0)
    fmt::print(stderr, "weft: rank {} of {} failed: {}\n", result.first_failed, flags.ranks, result.reason);
  return result.exit_code();
}

}  // namespace

void add_run(CLI::App& app, Run* chosen) {
  auto* command = app.add_subcommand("run", "start N local ranks of a program that uses the library");
  auto flags = std::make_shared<Flags>();
  command->add_option("-n,--ranks", flags->ranks, "ranks to start")->required()->type_name("N");
  command->add_option("--threads", flags->threads, "threads of each rank (WEFT_THREADS, or 1)")->type_name("T");
  command->add_option("--link", flags->link, "between ranks: shm, ucx, or a rate and latency as 10gbit,10us")
      ->type_name("LINK");
  command->add_option("--trace", flags->trace, "write a timeline of all ranks, for ui.perfetto.dev")->type_name("FILE");
  command->add_flag("--json", flags->json, "report how it ended as one JSON object, after the program's own output");
  command->add_option("program", flags->program, "the program and its arguments, after --")
      ->required()
      ->type_name("PROG");
  command->footer(
      "Example:\n  weft run -n 4 -- build/examples/01_gemm_reduce_scatter\n"
      "  weft run -n 4 --link 10gbit,10us --trace run.json -- build/examples/01_gemm_reduce_scatter");
  command->callback([=] { *chosen = [flags] { return run(*flags); }; });
}

}  // namespace weft::cli
