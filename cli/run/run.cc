// `weft run -n N -- PROG`: N local ranks of a program that uses the library; with --rendezvous, as part of a world
// whose other ranks the same command starts on other hosts.
#include <algorithm>

#include <CLI/CLI.hpp>
#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "weft/base/error.h"
#include "weft/base/json_out.h"
#include "weft/transport/join/launch.h"
#include "weft/transport/join/net_address.h"
#include "weft/transport/join/net_handshake.h"
#include "weft/transport/join/net_join.h"

#include "cli/command.h"
#include "cli/flag_values.h"
#include "cli/rank_flags.h"

namespace weft::cli {
namespace run_command {
namespace {

struct Flags {
  RankFlags ranks{.count = 0, .threads = 0, .link = ""};  // 0 and "": as the environment says
  std::string rendezvous;
  std::optional<int> first_rank, world_size;
  bool json = false;
  std::vector<std::string> program;
};

// All three flags or none: half of them says nothing that could be run.
void join_world(const Flags& flags, LaunchOptions* options) {
  const bool named = !flags.rendezvous.empty();
  if (!named && !flags.first_rank && !flags.world_size) return;
  if (!named || !flags.first_rank || !flags.world_size)
    bad_input(
        "ranks of several hosts need all of --rendezvous HOST:PORT, --first-rank R and --world-size N; {} is "
        "missing",
        !named              ? "--rendezvous"
        : !flags.first_rank ? "--first-rank"
                            : "--world-size");
  const std::int64_t last = std::int64_t{*flags.first_rank} + flags.ranks.count - 1;
  if (*flags.world_size > kMaxWorldRanks)
    bad_input("--world-size is {}; use 1 to {}", *flags.world_size, kMaxWorldRanks);
  if (last >= *flags.world_size)
    bad_input("--first-rank {} and -n {} make ranks up to {}, but --world-size is {}; every rank is below it",
              *flags.first_rank, flags.ranks.count, last, *flags.world_size);
  static_cast<void>(parse_address(flags.rendezvous));  // refused here, in one sentence, and not once a rank
  static_cast<void>(secret_from_env());
  options->rendezvous = flags.rendezvous;
  options->first_rank = *flags.first_rank;
  options->world_size = *flags.world_size;
}

int run(const Flags& flags) {
  if (flags.ranks.threads > 1024) bad_input("--threads is {}; use 1 to 1024", flags.ranks.threads);
  LaunchOptions options{.num_ranks = flags.ranks.count, .argv = flags.program};
  if (flags.ranks.threads > 0) options.env.emplace_back("WEFT_THREADS", std::to_string(flags.ranks.threads));
  paced_link(flags.ranks.link);  // says so where it is no link at all
  if (!flags.ranks.link.empty()) options.env.emplace_back("WEFT_LINK", flags.ranks.link);
  if (!flags.ranks.trace.empty()) options.env.emplace_back("WEFT_TRACE", flags.ranks.trace);
  join_world(flags, &options);
  const int world_size = std::max(flags.ranks.count, options.world_size);
  const LaunchResult result = launch(options);
  if (flags.json) {
    nlohmann::ordered_json report{{"ranks", flags.ranks.count},
                                  {"exit_code", result.exit_code()},
                                  {"first_failed", nullptr},
                                  {"host", nullptr},
                                  {"reason", nullptr}};
    if (result.first_failed >= 0) report["first_failed"] = result.first_failed, report["reason"] = result.reason;
    if (!result.host.empty()) report["host"] = result.host;
    fmt::print("{}", json_line(report));
  }
  if (result.interrupted)
    fmt::print(stderr, "weft: interrupted; all {} ranks have been stopped\n", flags.ranks.count);
  else if (const std::string sentence = result.sentence(); !sentence.empty())
    fmt::print(stderr, "weft: {}\n", sentence);
  if (!result.interrupted && result.first_failed >= 0)
    fmt::print(stderr, "weft: rank {} of {}{} failed: {}\n", result.first_failed, world_size,
               world_size > flags.ranks.count && !result.host.empty() ? fmt::format(" (host {})", result.host) : "",
               result.reason);
  return result.exit_code();
}

}  // namespace
}  // namespace run_command

void add_run(CLI::App& app, Run* chosen) {
  auto* command = app.add_subcommand("run", "start N local ranks of a program that uses the library");
  auto flags = std::make_shared<run_command::Flags>();
  add_number(*command, "-n,--ranks", &flags->ranks.count, "ranks to start")->required()->type_name("N");
  add_threads_flag(*command, &flags->ranks, "threads of each rank (WEFT_THREADS, or 1)");
  add_link_flag(*command, &flags->ranks);
  add_trace_flag(*command, &flags->ranks);
  command->add_flag("--json", flags->json, "report how it ended as one JSON object, after the program's own output");
  command->add_option("--rendezvous", flags->rendezvous, "where rank 0 of a world of several hosts listens")
      ->type_name("HOST:PORT");
  add_number(*command, "--first-rank", &flags->first_rank, "the first rank started here, in that world", 0)
      ->type_name("R");
  add_number(*command, "--world-size", &flags->world_size, "ranks of that world, on all hosts", 1)->type_name("N");
  command->add_option("program", flags->program, "the program and its arguments, after --")
      ->required()
      ->type_name("PROG");
  command->footer(
      "Example:\n  weft run -n 4 -- build/examples/01_gemm_reduce_scatter\n"
      "  weft run -n 4 --link 10gbit,10us --trace run.json -- build/examples/01_gemm_reduce_scatter\n"
      "Two hosts, a secret that only you can read on both (head -c 24 /dev/urandom | base64), never on the command "
      "line:\n"
      "  a$ WEFT_SECRET_FILE=~/.weft weft run -n 2 --rendezvous 10.0.0.1:5000 --first-rank 0 --world-size 4 -- PROG\n"
      "  b$ WEFT_SECRET_FILE=~/.weft weft run -n 2 --rendezvous 10.0.0.1:5000 --first-rank 2 --world-size 4 -- PROG");
  command->callback([=] { *chosen = [flags] { return run_command::run(*flags); }; });
}

}  // namespace weft::cli
