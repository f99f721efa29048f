// `weft ledger`: where a model's communication time goes on these links, and what removes it. Flags, refusals, and who
// does what: this process measures the machine's rates, starts itself again as ranks, and rank 0 prints the ledger.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <thread>

#include <CLI/CLI.hpp>
#include <fmt/core.h>

#include "weft/base/error.h"
#include "weft/base/units.h"
#include "weft/cluster/find_cluster.h"
#include "weft/transport/memory.h"
#include "weft/transport/mpirun.h"
#include "weft/transport/rendezvous.h"
#include "weft/transport/shm.h"
#include "weft/world/world.h"

#include "cli/calibrate.h"
#include "cli/command.h"
#include "cli/ledger_block.h"
#include "cli/ledger_hardware.h"
#include "cli/ledger_measure.h"
#include "cli/ledger_report.h"
#include "cli/progress.h"
#include "cli/ranks.h"

namespace weft::cli {
namespace {

// 250 Mbit/s between every two ranks: for the default workload and 4 ranks on two cores the products that communicate
// and their collectives then take about the same time.
constexpr const char* kDefaultLink = "250mbit,10us";
constexpr const char* kDefaultSvg = "weft-ledger.svg";

struct Flags {
  std::string workload = "t-nlg", link = kDefaultLink, svg, trace, save;
  int ranks = 4, rounds = 9;
  bool full = false, json = false;

  std::string svg_path() const { return svg.empty() && !json ? kDefaultSvg : svg; }
  // Between hosts there are links already: only ranks of one are paced, unless somebody insists and is refused.
  std::optional<Link> paced() const {
    if (link == "shm" || (link == kDefaultLink && launched_on_several_hosts())) return {};
    return parse_link(link);
  }
};

Workload workload_of(const Flags& flags) {
  const Workload whole = load_workload(flags.workload);
  return flags.full ? whole : scaled(whole, whole.scale_down);
}

void check(const Flags& flags, const Workload& workload) {
  if (flags.ranks < 2 || flags.ranks > kMaxLocalRanks)
    bad_input("--ranks is {}; use 2 to {}: one rank has nobody to communicate with", flags.ranks, kMaxLocalRanks);
  if (flags.rounds < 1 || flags.rounds > 10'000) bad_input("--rounds is {}; use 1 to 10000", flags.rounds);
  flags.paced();
  const double bytes = block_bytes(workload, flags.ranks);  // also refuses ranks that cannot share the model
  const auto free = static_cast<double>(available_memory_bytes());
  if (bytes > 0.9 * free)
    fail(Code::no_memory, "{} on {} ranks needs about {}, and {} are free; leave out --full or use a smaller workload",
         workload.name, flags.ranks, format_bytes(bytes), format_bytes(free));
  for (const std::string& path : {flags.svg_path(), flags.save})
    if (!path.empty() && !std::ofstream(path, std::ios::app))
      bad_input("{} cannot be written; name a file in a folder that is there and yours", path);
}

// What the ranks price and predict with: the file that WEFT_CLUSTER names, or the rates of this machine now. They travel
// in a file without a name, so that nothing is left behind.
void tell_rates(int ranks) {
  if (std::getenv("WEFT_CLUSTER") != nullptr) return;
  Progress progress(Progress::Who::speaks);
  progress.show("measuring this machine's rates ...");
  const std::string text = to_json(calibrate(ranks));
  const int file = memfd_create("weft-cluster", 0);
  if (file < 0 || write(file, text.data(), text.size()) != static_cast<ssize_t>(text.size()))
    fail(Code::io, "cannot keep this machine's rates in memory; set WEFT_CLUSTER to a file of clusters/");
  setenv("WEFT_CLUSTER", fmt::format("/proc/{}/fd/{}", getpid(), file).c_str(), 1);
}

int run_rank(const Flags& flags) {
  const Workload workload = workload_of(flags);
  const double cores = std::max(1u, std::thread::hardware_concurrency());
  World world = World::init(0, nullptr,
                            {.threads = 1,
                             .link = flags.paced(),
                             .cluster = launched_on_several_hosts()  // a host's file has its own cores
                                            ? find_cluster()
                                            : with_cores(find_cluster(), std::min(1.0, cores / flags.ranks)),
                             .trace = flags.trace});
  LedgerOptions options{.rounds = flags.rounds,
                        .scaled = !flags.full,
                        .link = flags.paced(),
                        .link_name = flags.paced()                 ? flags.link
                                     : launched_on_several_hosts() ? "network"
                                                                   : "shm"};
  auto progress = std::make_unique<Progress>(world.rank() == 0 ? Progress::Who::speaks : Progress::Who::is_silent);
  options.progress = [&](const std::string& what) { progress->show(what); };
  Ledger ledger = measure_ledger(world, workload, options);
  progress.reset();  // its line goes before anything is printed
  if (world.rank() != 0) return 0;
  add_simulated_row(&ledger);
  const std::string svg = flags.svg_path();
  if (!svg.empty()) std::ofstream(svg) << ledger_svg(ledger);
  if (!flags.save.empty()) std::ofstream(flags.save) << ledger_json(ledger, svg);
  fmt::print("{}", flags.json ? ledger_json(ledger, svg) : ledger_text(ledger, svg));
  return 0;
}

void print_title(const Flags& flags, const Workload& workload) {
  if (flags.json) return;
  fmt::print("{}\n", ledger_title(workload, !flags.full, flags.ranks, flags.paced()));
  std::fflush(stdout);
}

// Nobody came before these ranks to measure: they predict with the rates that were saved, or the default ones.
int run_under_mpirun(Flags flags) {
  flags.ranks = launched_size();
  const Workload workload = workload_of(flags);
  check(flags, workload);
  if (launched_rank() == 0) print_title(flags, workload);
  return run_rank(flags);
}

int run(const Flags& flags) {
  if (under_mpirun()) return run_under_mpirun(flags);
  if (launched()) return run_rank(flags);
  const Workload workload = workload_of(flags);
  check(flags, workload);
  print_title(flags, workload);
  tell_rates(flags.ranks);
  return relaunch(flags.ranks);
}

}  // namespace

void add_ledger(CLI::App& app, Run* chosen) {
  auto* command = app.add_subcommand("ledger", "where a model's communication time goes, and what removes it");
  auto flags = std::make_shared<Flags>();
  std::string names;
  for (const std::string& name : workload_names()) names += (names.empty() ? "" : ", ") + name;
  command->add_option("--workload", flags->workload, fmt::format("{}, or a file (t-nlg)", names))
      ->type_name("NAME|FILE");
  command->add_option("--ranks", flags->ranks, fmt::format("ranks, 2 to {} (4)", kMaxLocalRanks))->type_name("N");
  command->add_option("--link", flags->link, fmt::format("between ranks: shm, or RATE[,LATENCY] ({})", kDefaultLink))
      ->type_name("LINK");
  command->add_option("--rounds", flags->rounds, "rounds; every figure is a median over them (9)")->type_name("K");
  command->add_flag("--full", flags->full, "the model's own sizes, not its stated scale-down");
  command
      ->add_option("--svg", flags->svg,
                   fmt::format("the timeline before and after ({}; with --json none)", kDefaultSvg))
      ->type_name("FILE");
  command->add_option("--trace", flags->trace, "write every tile of all ranks, for ui.perfetto.dev")->type_name("FILE");
  command->add_option("--save", flags->save, "write the JSON object to a file as well")->type_name("FILE");
  command->add_flag("--json", flags->json, "one JSON object on standard output");
  command->footer("Example:\n  weft ledger\n  weft ledger --workload mixtral-8x7b --link 200mbit,20us --json");
  command->callback([=] { *chosen = [flags] { return run(*flags); }; });
}

}  // namespace weft::cli
