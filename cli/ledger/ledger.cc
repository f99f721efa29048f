// `weft ledger`: where a model's communication time goes on these links, and what removes it. Flags, refusals, and who
// does what: this process measures the machine's rates, starts itself again as ranks, and rank 0 prints the ledger. Two
// ledgers: of a whole model that is there (--model), and of one block with a large model's shapes (--workload).
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <thread>

#include <CLI/CLI.hpp>
#include <fmt/core.h>
#include <fmt/ranges.h>

#include "weft/base/error.h"
#include "weft/base/json_out.h"
#include "weft/base/os/new_file.h"
#include "weft/base/units.h"
#include "weft/cluster/find_cluster.h"
#include "weft/draw/text_table.h"
#include "weft/study/calibrate/calibrate.h"
#include "weft/study/ledger/block.h"
#include "weft/study/ledger/hardware.h"
#include "weft/study/ledger/scale_row.h"
#include "weft/study/report/block_picture.h"
#include "weft/transport/join/rendezvous.h"
#include "weft/transport/local/memory.h"
#include "weft/transport/local/shm.h"
#include "weft/world/world.h"

#include "cli/command.h"
#include "cli/device_link.h"
#include "cli/flag_values.h"
#include "cli/ledger/report.h"
#include "cli/out_file.h"
#include "cli/progress.h"
#include "cli/ranks.h"

namespace weft::cli {
namespace ledger {
namespace {

// What `weft ledger` measures unless it is told otherwise.
constexpr int kModelRanks = 2, kBlockRanks = 4, kTokens = 512, kModelRounds = 7, kBlockRounds = 9;
constexpr const char* kModel = "weft-16";
// Two machines on 2.5 Gbit/s Ethernet, one NIC each: the model's all-reduces then take about as long as half of its
// products, and each mechanism has something to remove.
constexpr const char* kModelLink = "2.5gbit,20us,nic";
// 250 Mbit/s between every two ranks: for t-nlg and 4 ranks on two cores the products that communicate and their
// collectives then take about the same time.
constexpr const char* kBlockLink = "250mbit,10us";
constexpr const char* kDefaultSvg = "weft-ledger.svg";

struct Flags {
  std::string workload, svg, save, device = "cpu";
  ModelTaskOptions model{.model = kModel, .tokens = kTokens};
  RankFlags ranks{.count = kModelRanks, .link = ""};  // an empty link: the one that suits
  std::optional<int> rounds;
  bool full = false, json = false;

  bool of_model() const { return workload.empty(); }
  int num_rounds() const { return rounds.value_or(of_model() ? kModelRounds : kBlockRounds); }
  std::string link_name() const { return !ranks.link.empty() ? ranks.link : of_model() ? kModelLink : kBlockLink; }
  std::string svg_path() const { return svg.empty() && !json ? kDefaultSvg : svg; }

  // Between hosts there are links already: only ranks of one are paced, unless somebody insists and is refused.
  AskedLink asked_link() const {
    const bool hosts = launched_on_several_hosts();
    if (ranks.link == "shm" || (ranks.link.empty() && hosts)) return {{}, hosts ? "network" : "shm"};
    return {parse_link(link_name()), link_name()};
  }
};

Workload workload_of(const Flags& flags) {
  const Workload whole = load_workload(flags.workload);
  return flags.full ? whole : scaled(whole, whole.scale_down);
}

ModelTask task_of(const Flags& flags) {
  ModelTaskOptions options = flags.model;
  options.ranks = flags.ranks.count;
  options.rounds = flags.num_rounds();
  options.link = flags.asked_link();
  return open_model_task(options);
}

void check_flags(const Flags& flags) {
  check_num_ranks(flags.ranks.count, 2);
  if (flags.num_rounds() < 1 || flags.num_rounds() > 10'000)
    bad_input("--rounds is {}; use 1 to 10000", flags.num_rounds());
  flags.asked_link();
}

void check_memory(const Workload& workload, int ranks) {
  const double bytes = block_bytes(workload, ranks);  // also refuses ranks that cannot share the model
  const auto free = static_cast<double>(available_memory_bytes());
  if (bytes > 0.9 * free)
    fail(Code::no_memory, "{} on {} ranks needs about {}, and {} are free; leave out --full or use a smaller workload",
         workload.name, ranks, format_bytes(bytes), format_bytes(free));
}

// Refuses what cannot be measured, then says what will be.
void check_and_print_title(const Flags& flags) {
  check_flags(flags);
  std::string title;
  if (flags.of_model()) {
    title = title_of(task_of(flags));
  } else {
    const Workload workload = workload_of(flags);
    check_memory(workload, flags.ranks.count);
    if (!flags.svg_path().empty()) check_writable(flags.svg_path());
    title = title_of(workload, !flags.full, flags.ranks.count, flags.asked_link());
  }
  if (flags.json || (launched() && launched_rank() != 0)) return;
  fmt::print("{}\n", draw::wrapped(title));
  std::fflush(stdout);
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

World join(const Flags& flags) {
  const double cores = std::max(1u, std::thread::hardware_concurrency());
  return World::init(0, nullptr,
                     {.threads = 1,
                      .link = flags.asked_link().paced,
                      .cluster = launched_on_several_hosts()  // a host's file has its own cores
                                     ? find_cluster()
                                     : with_cores(find_cluster(), std::min(1.0, cores / flags.ranks.count)),
                      .trace = flags.ranks.trace});
}

void print_ledger(const Flags& flags, const Json& json, const std::string& text) {
  const std::string line = json_line(json);
  if (!flags.save.empty()) write_file(flags.save, line);
  fmt::print("{}", flags.json ? line : text);
}

void run_block(const Flags& flags, const Say& say) {
  const Workload workload = workload_of(flags);
  World world = join(flags);
  BlockLedger ledger = measure_block_ledger(
      world, workload,
      {.rounds = flags.num_rounds(), .scaled = !flags.full, .link = flags.asked_link(), .progress = say});
  if (world.rank() != 0) return;
  add_simulated_row(&ledger);
  add_scale_row(&ledger, load_workload(flags.workload));
  const std::string svg = flags.svg_path();
  if (!svg.empty()) write_file(svg, block_svg(ledger));
  print_ledger(flags, json_of(ledger, svg), text_of(ledger, svg));
}

void run_model(const Flags& flags, const Say& say) {
  const auto ledger = measure_model_ledger(
      task_of(flags), [&] { return join(flags); }, say);
  if (ledger) print_ledger(flags, json_of(*ledger), text_of(*ledger));
}

int run_rank(const Flags& flags) {
  Progress progress(launched_rank() == 0 ? Progress::Who::speaks : Progress::Who::is_silent);
  const Say say = [&](const std::string& what) { progress.show(what); };
  if (flags.of_model())
    run_model(flags, say);
  else
    run_block(flags, say);
  return 0;
}

// All ranks are this process's: they share one GPU.
int run_on_device(const Flags& flags) {
  if (flags.of_model() || !flags.ranks.trace.empty() || !flags.svg.empty())
    bad_input("--device cuda measures the products of --workload NAME; leave out --model, --trace and --svg");
  if (flags.num_rounds() < 1 || flags.num_rounds() > 10'000)
    bad_input("--rounds is {}; use 1 to 10000", flags.num_rounds());
  DeviceStudyOptions options;
  options.rounds = flags.num_rounds();
  const std::string link = take_device_link(flags.ranks.link, 1, &options);
  DeviceLedger ledger = measure_device_ledger(workload_of(flags), flags.ranks.count, options);
  ledger.table.link.name = link;
  print_ledger(flags, json_of(ledger, device_name()), text_of(ledger, device_name()));
  return 0;
}

int run(Flags flags) {
  if (flags.device != "cpu" && flags.device != "cuda") bad_input("--device is {}; use cpu or cuda", flags.device);
  if (flags.device == "cuda") return run_on_device(flags);
  flags.ranks.count = num_ranks(flags.ranks.count);
  const auto before = [&] {
    check_and_print_title(flags);
    if (!launched()) tell_rates(flags.ranks.count);  // under mpirun: the rates that were saved, or the default
  };
  return on_processes(
      flags.ranks.count, [&] { return run_rank(flags); }, before);
}

void add_model_flags(CLI::App& app, ModelTaskOptions* model) {
  app.add_option("--model", model->model, fmt::format("a model's folder, or a name in models/ ({})", kModel))
      ->type_name("DIR|NAME");
  add_number(app, "--tokens", &model->tokens, fmt::format("--model: tokens of the prompt ({})", kTokens))
      ->type_name("N");
  app.add_option("--spd", model->spd, "--model: what to drop (DIR/spd/tp<ranks>.spd, or every block)")
      ->type_name("FILE");
  app.add_option("--prompt", model->prompt, "--model: the prompt, its first tokens (DIR/prompt.txt, or the text's)")
      ->type_name("FILE");
  app.add_option("--text", model->text, "--model: text that losses are measured on (DIR/heldout.txt)")
      ->type_name("FILE");
  app.add_flag("--train", model->train, "--model: also a training step of its shape, a stage per rank");
  for (const char* flag : {"--model", "--tokens", "--spd", "--prompt", "--text", "--train"})
    app.get_option("--workload")->excludes(app.get_option(flag));
}

void add_block_flags(CLI::App& app, Flags* flags) {
  auto* workload =
      app.add_option("--workload", flags->workload,
                     fmt::format("one block with the shapes of {}, or of a file", fmt::join(workload_names(), ", ")))
          ->type_name("NAME|FILE");
  app.add_flag("--full", flags->full, "--workload: the model's own sizes, not its stated scale-down")->needs(workload);
  add_out_file(app, "--svg", &flags->svg,
               fmt::format("--workload: the timeline before and after ({}; with --json none)", kDefaultSvg))
      ->needs(workload);
}

void add_common_flags(CLI::App& app, Flags* flags) {
  add_ranks_flag(
      app, &flags->ranks,
      fmt::format("ranks, 2 to {} ({} of a model, {} of a block)", kMaxLocalRanks, kModelRanks, kBlockRanks));
  add_link_flag(app, &flags->ranks,
                fmt::format("between ranks: shm, or RATE[,LATENCY][,nic] ({} of a model, {} of a block)", kModelLink,
                            kBlockLink));
  add_number(app, "--rounds", &flags->rounds,
             fmt::format("rounds; every figure is a median over them ({} of a model, {} of a block)", kModelRounds,
                         kBlockRounds))
      ->type_name("K");
  add_trace_flag(app, &flags->ranks);
  app.add_option("--device", flags->device, "--workload: cpu, or cuda: all ranks on one GPU, products alone (cpu)")
      ->type_name("D");
  add_out_file(app, "--save", &flags->save, "write the JSON object to a file as well");
  app.add_flag("--json", flags->json, "one JSON object on standard output");
}

}  // namespace
}  // namespace ledger

void add_ledger(CLI::App& app, Run* chosen) {
  auto* command = app.add_subcommand("ledger", "where a model's communication time goes, and what removes it");
  auto flags = std::make_shared<ledger::Flags>();
  ledger::add_block_flags(*command, flags.get());
  ledger::add_model_flags(*command, &flags->model);
  ledger::add_common_flags(*command, flags.get());
  command->footer(
      "Example:\n  weft ledger\n  weft ledger --model DIR --spd FILE --link 1gbit,50us\n  weft ledger --train\n"
      "  weft ledger --workload mixtral-8x7b --link 200mbit,20us --json\n"
      "  weft ledger --workload t-nlg --full --device cuda --ranks 4 --link pcie");
  command->callback([=] {
    if (!flags->of_model() && command->count("--ranks") == 0) flags->ranks.count = ledger::kBlockRanks;
    *chosen = [flags] { return ledger::run(*flags); };
  });
}

}  // namespace weft::cli
