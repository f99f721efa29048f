// `weft ledger`: where a model's communication time goes on these links, and what removes it. Flags, refusals, and who
// does what: this process measures the machine's rates, starts itself again as ranks, and rank 0 prints the ledger. Two
// ledgers: of a whole model that is there (--model), and of one block with a large model's shapes (--workload).
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
#include "weft/study/calibrate/calibrate.h"
#include "weft/transport/join/mpirun.h"
#include "weft/transport/join/rendezvous.h"
#include "weft/transport/local/memory.h"
#include "weft/transport/local/shm.h"
#include "weft/world/world.h"

#include "cli/command.h"
#include "cli/ledger/block.h"
#include "cli/ledger/hardware.h"
#include "cli/ledger/measure.h"
#include "cli/ledger/of_model.h"
#include "cli/ledger/report.h"
#include "cli/progress.h"
#include "cli/ranks.h"

namespace weft::cli {
namespace {

// 250 Mbit/s between every two ranks: for the default workload and 4 ranks on two cores the products that communicate
// and their collectives then take about the same time.
constexpr const char* kBlockLink = "250mbit,10us";
// A few machines joined by slow links, which is where a model gains by sending less.
constexpr const char* kModelLink = "100mbit,10us";
constexpr const char* kDefaultSvg = "weft-ledger.svg";
constexpr int kModelRounds = 5, kBlockRounds = 9;

struct Flags {
  std::string workload, link, svg, trace, save;
  ModelFlags model;
  int ranks = 4;
  std::optional<int> asked_rounds;
  int rounds = 0;  // as asked, or what suits
  bool full = false, json = false;

  bool of_model() const { return workload.empty(); }
  std::string link_text() const { return !link.empty() ? link : of_model() ? kModelLink : kBlockLink; }

  std::string svg_path() const { return svg.empty() && !json ? kDefaultSvg : svg; }
  // Between hosts there are links already: only ranks of one are paced, unless somebody insists and is refused.
  std::optional<Link> paced() const {
    if (link == "shm" || (link.empty() && launched_on_several_hosts())) return {};
    return parse_link(link_text());
  }
};

Workload workload_of(const Flags& flags) {
  const Workload whole = load_workload(flags.workload);
  return flags.full ? whole : scaled(whole, whole.scale_down);
}

void check_common(const Flags& flags) {
  if (flags.ranks < 2 || flags.ranks > kMaxLocalRanks)
    bad_input("--ranks is {}; use 2 to {}: one rank has nobody to communicate with", flags.ranks, kMaxLocalRanks);
  if (flags.rounds < 1 || flags.rounds > 10'000) bad_input("--rounds is {}; use 1 to 10000", flags.rounds);
  flags.paced();
  if (!flags.save.empty() && !std::ofstream(flags.save, std::ios::app))
    bad_input("{} cannot be written; name a file in a folder that is there and yours", flags.save);
}

void check(const Flags& flags, const Workload& workload) {
  check_common(flags);
  const double bytes = block_bytes(workload, flags.ranks);  // also refuses ranks that cannot share the model
  const auto free = static_cast<double>(available_memory_bytes());
  if (bytes > 0.9 * free)
    fail(Code::no_memory, "{} on {} ranks needs about {}, and {} are free; leave out --full or use a smaller workload",
         workload.name, flags.ranks, format_bytes(bytes), format_bytes(free));
  const std::string svg = flags.svg_path();
  if (!svg.empty() && !std::ofstream(svg, std::ios::app))
    bad_input("{} cannot be written; name a file in a folder that is there and yours", svg);
}

// What the ranks price and predict with: the file that WEFT_CLUSTER names, or the rates of this machine now. They
// travel in a file without a name, so that nothing is left behind.
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

std::string link_name_of(const Flags& flags) {
  return flags.paced() ? flags.link_text() : launched_on_several_hosts() ? "network" : "shm";
}

World world_of(const Flags& flags) {
  const double cores = std::max(1u, std::thread::hardware_concurrency());
  return World::init(0, nullptr,
                     {.threads = 1,
                      .link = flags.paced(),
                      .cluster = launched_on_several_hosts()  // a host's file has its own cores
                                     ? find_cluster()
                                     : with_cores(find_cluster(), std::min(1.0, cores / flags.ranks)),
                      .trace = flags.trace});
}

void print_ledger(const Flags& flags, const std::string& json, const std::string& text) {
  if (!flags.save.empty()) std::ofstream(flags.save) << json;
  fmt::print("{}", flags.json ? json : text);
}

int run_block_rank(const Flags& flags) {
  const Workload workload = workload_of(flags);
  World world = world_of(flags);
  LedgerOptions options{
      .rounds = flags.rounds, .scaled = !flags.full, .link = flags.paced(), .link_name = link_name_of(flags)};
  auto progress = std::make_unique<Progress>(world.rank() == 0 ? Progress::Who::speaks : Progress::Who::is_silent);
  options.progress = [&](const std::string& what) { progress->show(what); };
  Ledger ledger = measure_ledger(world, workload, options);
  progress.reset();  // its line goes before anything is printed
  if (world.rank() != 0) return 0;
  add_simulated_row(&ledger);
  const std::string svg = flags.svg_path();
  if (!svg.empty()) std::ofstream(svg) << ledger_svg(ledger);
  print_ledger(flags, ledger_json(ledger, svg), ledger_text(ledger, svg));
  return 0;
}

ModelTask model_task_of(const Flags& flags) {
  ModelTask task = model_task(flags.model, flags.ranks);
  task.rounds = flags.rounds;
  task.link = flags.paced();
  task.link_name = link_name_of(flags);
  return task;
}

int run_model_rank(const Flags& flags) {
  const ModelTask task = model_task_of(flags);
  const auto made = ledger_of_model(flags.model, task, [&] { return world_of(flags); });
  if (made) print_ledger(flags, model_json(*made), model_text(*made));
  return 0;
}

int run_rank(const Flags& flags) { return flags.of_model() ? run_model_rank(flags) : run_block_rank(flags); }

// Refuses what cannot be measured, then says what will be.
void check_and_print_title(const Flags& flags) {
  std::string title;
  if (flags.of_model()) {
    check_common(flags);
    title = model_title(model_task_of(flags));
  } else {
    const Workload workload = workload_of(flags);
    check(flags, workload);
    title = ledger_title(workload, !flags.full, flags.ranks, flags.paced());
  }
  if (flags.json || (launched() && launched_rank() != 0)) return;
  fmt::print("{}\n", title);
  std::fflush(stdout);
}

int run(Flags flags) {
  flags.rounds = flags.asked_rounds.value_or(flags.of_model() ? kModelRounds : kBlockRounds);
  if (under_mpirun()) {  // nobody came before these ranks to measure: they have the rates that were saved, or the
                         // default
    flags.ranks = launched_size();
    check_and_print_title(flags);
    return run_rank(flags);
  }
  if (launched()) return run_rank(flags);
  check_and_print_title(flags);
  tell_rates(flags.ranks);
  return relaunch(flags.ranks);
}

}  // namespace

void add_ledger(CLI::App& app, Run* chosen) {
  auto* command = app.add_subcommand("ledger", "where a model's communication time goes, and what removes it");
  auto flags = std::make_shared<Flags>();
  std::string names;
  for (const std::string& name : workload_names()) names += (names.empty() ? "" : ", ") + name;
  command
      ->add_option("--workload", flags->workload, fmt::format("one block with the shapes of {}, or of a file", names))
      ->type_name("NAME|FILE");
  add_model_flags(*command, &flags->model);
  command->add_option("--ranks", flags->ranks, fmt::format("ranks, 2 to {} (4)", kMaxLocalRanks))->type_name("N");
  command
      ->add_option(
          "--link", flags->link,
          fmt::format("between ranks: shm, or RATE[,LATENCY] ({} of a model, {} of a block)", kModelLink, kBlockLink))
      ->type_name("LINK");
  command
      ->add_option("--rounds", flags->asked_rounds,
                   "rounds; every figure is a median over them (5 of a model, 9 of a block)")
      ->type_name("K");
  command->add_flag("--full", flags->full, "--workload: the model's own sizes, not its stated scale-down");
  command
      ->add_option("--svg", flags->svg,
                   fmt::format("--workload: the timeline before and after ({}; with --json none)", kDefaultSvg))
      ->type_name("FILE");
  command->add_option("--trace", flags->trace, "write every tile of all ranks, for ui.perfetto.dev")->type_name("FILE");
  command->add_option("--save", flags->save, "write the JSON object to a file as well")->type_name("FILE");
  command->add_flag("--json", flags->json, "one JSON object on standard output");
  command->footer(
      "Example:\n  weft ledger\n  weft ledger --model DIR --spd FILE --link 1gbit,50us\n"
      "  weft ledger --workload mixtral-8x7b --link 200mbit,20us --json");
  command->callback([=] { *chosen = [flags] { return run(*flags); }; });
}

}  // namespace weft::cli
