// `weft train`: trains a model that a file describes, on the ranks that its mesh asks for. Rank 0 speaks and writes.
#include "cli/train/train.h"

#include <memory>

#include <CLI/CLI.hpp>
#include <fmt/core.h>

#include "weft/base/clock.h"
#include "weft/base/cores.h"
#include "weft/base/error.h"
#include "weft/base/os/new_file.h"
#include "weft/transport/local/shm.h"

#include "cli/command.h"
#include "cli/flag_values.h"
#include "cli/out_file.h"
#include "cli/progress.h"
#include "cli/ranks.h"

namespace weft::cli::train {
namespace {

constexpr double kTellSeconds = 2;  // between two lines, and between two states of the file of metrics

pipeline::TrainConfig config_of(const Flags& flags) {
  pipeline::TrainConfig config = pipeline::load_train_config(flags.config);
  if (flags.steps >= 0) config.steps = flags.steps;
  if (!flags.schedule.empty()) config.schedule = pipeline::parse_kind(flags.schedule);
  if (!flags.out.empty()) config.out = flags.out;
  if (flags.no_overlap) config.transfers.overlap = false;
  return config;
}

// Tells of steps as they come: lines for a reader, one line that changes for who watches, and the file of metrics.
class Teller {
 public:
  Teller(const Flags& flags, std::int64_t steps, bool speaks)
      : flags_(flags),
        steps_(steps),
        speaks_(speaks),
        progress_(speaks ? Progress::Who::speaks : Progress::Who::is_silent) {}

  void tell(const pipeline::StepReport& step) {
    if (!speaks_) return;
    metrics_ += metrics_line(step);
    progress_.show(step_line(step, steps_));
    const bool due = told_ == 0 || seconds_since(told_) > kTellSeconds || step.step == steps_;
    if (!due) return;
    told_ = now_ns();
    progress_.show("");
    if (!flags_.json) fmt::print("{}\n", step_line(step, steps_));
    std::fflush(stdout);
    if (!flags_.metrics.empty()) write_file(flags_.metrics, metrics_);
  }

 private:
  const Flags& flags_;
  std::int64_t steps_;
  bool speaks_;
  Progress progress_;
  std::string metrics_;
  std::int64_t told_ = 0;
};

int on_rank(World& world, const Flags& flags) {
  pipeline::TrainConfig config = config_of(flags);
  const pipeline::TokenData data = pipeline::load_data(&config);
  const bool speaks = world.rank() == 0;
  const int threads = flags.ranks.threads;
  // A core of its own for each rank: or they would meet on one now and then, and a round of theirs count double.
  if (world.transport() == "shm" && threads == 1 && world.size() > 1 && world.size() <= int_size(own_cores()))
    pin_to_core(world.rank());
  if (flags.compare) return compare_on_rank(world, flags, config, data, threads);
  pipeline::TrainResult result;
  {
    Teller teller(flags, config.steps, speaks);
    result = pipeline::train(world, config, data, {.threads = threads, .resume = flags.resume},
                             [&](const pipeline::StepReport& step) { teller.tell(step); });
  }
  if (!speaks) return 0;
  if (!flags.svg.empty() && !result.steps.empty()) write_file(flags.svg, loss_picture(result));
  fmt::print("{}", flags.json ? to_json(config, result) : to_text(config, result));
  return 0;
}

int run(Flags flags) {
  pipeline::TrainConfig config = config_of(flags);
  if (!flags.paced_us.empty()) {
    if (flags.paced_us.size() != 2 || flags.paced_us[0] < 0 || flags.paced_us[1] < 0)
      bad_input("--paced-us takes two numbers, microseconds of forward and of backward, as 20000,40000");
    flags.pace = {1e-6 * flags.paced_us[0], 1e-6 * flags.paced_us[1]};
  }
  RankFlags ranks = flags.ranks;
  ranks.count = config.num_ranks();
  fill_threads(&ranks);  // of layers and of ops alike: the last product of a stage is an op's
  flags.ranks = ranks;
  const auto before = [&] {
    const pipeline::TokenData data = pipeline::load_data(&config);
    const bool speaks = !flags.json && (!launched() || launched_rank() == 0);
    if (speaks)
      fmt::print("{} parameters, {} tokens of text, {} rank{} in {} stage{}, {}\n", num_parameters(config.model),
                 data.num_tokens(), config.num_ranks(), config.num_ranks() == 1 ? "" : "s", config.num_stages(),
                 config.num_stages() == 1 ? "" : "s", to_string(config.schedule));
    if (speaks && flags.resume && !pipeline::latest_checkpoint(config.out))
      fmt::print("no checkpoint in \"{}\": begins with step 1\n", config.out);
    std::fflush(stdout);
  };
  return on_ranks(ranks, [&](World& world) { return on_rank(world, flags); }, {.before = before, .options = {}});
}

void add_flags(CLI::App* command, Flags* f) {
  command->add_option("--config", f->config, "what to train, on what, how and where: see below")
      ->type_name("FILE")
      ->required();
  add_number(*command, "--steps", &f->steps, "instead of the file's", std::int64_t{0})->type_name("N");
  command->add_option("--schedule", f->schedule, "instead of the file's: gpipe, 1f1b or eager_1f1b")->type_name("NAME");
  command->add_option("--out", f->out, "instead of the file's folder")->type_name("DIR");
  command->add_flag("--no-overlap", f->no_overlap, "stages stop for transfers instead of computing meanwhile");
  command->add_flag("--resume", f->resume, "go on from the latest checkpoint in the folder, made on any mesh");
  command->add_flag("--compare", f->compare,
                    "six ways to carry the transfers of this model, which take turns step by step");
  add_number(*command, "--rounds", &f->rounds, "of --compare (7)", 1)->type_name("N");
  command
      ->add_option("--paced-us", f->paced_us,
                   "with --compare: what forward and backward of a micro-batch take at least, for more stages than "
                   "cores")
      ->delimiter(',')
      ->type_name("F,B");
  add_threads_flag(*command, &f->ranks, "threads of each rank (the cores there are, shared)");
  add_ranks_per_host_flag(*command, &f->ranks);
  add_transport_flag(*command, &f->ranks);
  add_link_flag(*command, &f->ranks);
  add_trace_flag(*command, &f->ranks);
  add_out_file(*command, "--metrics", &f->metrics, "a line of JSON per step");
  add_out_file(*command, "--svg", &f->svg, "the loss as a picture");
  command->add_flag("--json", f->json, "one JSON object on standard output");
}

}  // namespace
}  // namespace weft::cli::train

void weft::cli::add_train(CLI::App& app, Run* chosen) {
  auto* command = app.add_subcommand("train", "train a transformer in pipeline stages whose transfers are hidden");
  auto flags = std::make_shared<train::Flags>();
  train::add_flags(command, flags.get());
  command->footer(
      "Example:\n"
      "  weft train --config examples/train.json\n"
      "  weft generate --model trained --prompt \"The\" --max-tokens 40\n"
      "  weft train --config examples/train.json --resume --steps 2000\n"
      "  weft train --config bench/train_u.json --compare --link 1gbit,50us,nic\n"
      "\n"
      "The file is JSON; only model and data must be there:\n"
      "  \"model\"      {\"kind\": \"gpt\" or \"u_transformer\", \"hidden\", \"layers\", \"heads\", \"kv_heads\", "
      "\"mlp\",\n"
      "               \"sequence\"}\n"
      "  \"data\"       {\"text\": FILE or [FILE, ..], \"tokenizer\": DIR}\n"
      "  \"training\"   {\"steps\", \"batch\", \"micro_batches\", \"lr\", \"warm_up\", \"last_lr\", \"weight_decay\",\n"
      "               \"beta1\", \"beta2\", \"clip\", \"seed\", \"dtype\": \"f32\" or \"bf16\"}\n"
      "  \"mesh\"       {\"stages\": 2, \"data\": 1, \"tensor\": 1}, or {\"stages\": [{\"layers\": 5, \"data\": 2}, "
      "..]}\n"
      "  \"schedule\"   \"gpipe\", \"1f1b\" or \"eager_1f1b\"\n"
      "  \"transfers\"  {\"strategy\": \"auto\", \"overlap\": true, \"delay_weights\": true, \"stream\": true}\n"
      "  \"out\"        the folder for checkpoints and the model; \"checkpoint_every\": steps, 0: none");
  command->callback([=] { *chosen = [flags] { return train::run(*flags); }; });
}
