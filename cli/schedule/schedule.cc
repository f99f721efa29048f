// `weft schedule`: pipeline schedules drawn, proved, timed, compared and searched. Flags and help.
#include <algorithm>
#include <memory>

#include <CLI/CLI.hpp>
#include <fmt/core.h>

#include "weft/base/error.h"
#include "weft/base/os/new_file.h"
#include "weft/schedule/compare.h"
#include "weft/schedule/save.h"
#include "weft/schedule/search.h"
#include "weft/schedule/trace.h"
#include "weft/study/schedule/picture.h"
#include "weft/study/schedule/preset.h"

#include "cli/command.h"
#include "cli/out_file.h"
#include "cli/schedule/report.h"

namespace weft::cli::schedule {
namespace {

using pipeline::Compared, pipeline::Costs, pipeline::Schedule;

struct Flags {
  std::string load, save, svg, trace, preset;
  std::vector<std::string> kinds;  // none: eager_1f1b; of --compare all
  int stages = 4, micro_batches = 8, chunks = 2, memory = 0;
  std::vector<double> forward_us{100}, backward_us{200}, recompute_us, transfer_us{50}, transfer_back_us;
  double weight_share = 0.5;
  bool recompute = false, split = false, no_overlap = false, compare = false, search = false, json = false;
  std::int64_t budget = pipeline::SearchOptions{}.budget;
  std::uint64_t seed = 1;
};

// One value for all, or one each.
double each(const std::vector<double>& values, int index, int count, const char* flag, const char* what) {
  if (values.size() != 1 && int_size(values) != count)
    bad_input("{} has {} values; give one, or {}, one per {}", flag, values.size(), count, what);
  const double value = values.size() == 1 ? values.front() : values[at(index)];
  if (!(value >= 0 && value <= 1e12)) bad_input("{} has {}; give 0 to 1e12 microseconds", flag, value);
  return value * 1e-6;
}

// Boundary i lies between stages i and i + 1. What goes from the last stage to the first, which only chunks do, costs
// as much as the last boundary.
Costs costs_of(const Flags& f, int n) {
  if (!(f.weight_share >= 0 && f.weight_share <= 1)) bad_input("--weight-share is {}; give 0 to 1", f.weight_share);
  const auto& again = f.recompute_us.empty() ? f.forward_us : f.recompute_us;
  const auto& back = f.transfer_back_us.empty() ? f.transfer_us : f.transfer_back_us;
  Costs costs{.transfers = f.no_overlap ? pipeline::Transfers::blocking : pipeline::Transfers::overlapped};
  const int boundaries = std::max(1, n - 1);
  for (int i = 0; i < n; ++i) {
    const double backward = each(f.backward_us, i, n, "--backward-us", "stage");
    costs.stages.push_back(
        {.forward_s = each(f.forward_us, i, n, "--forward-us", "stage"),
         .backward_input_s = backward * (1 - f.weight_share),
         .backward_weight_s = backward * f.weight_share,
         .recompute_s = each(again, i, n, "--recompute-us", "stage"),
         .send_forward_s = each(f.transfer_us, std::min(i, boundaries - 1), boundaries, "--transfer-us", "boundary"),
         .send_backward_s = each(back, i == 0 ? boundaries - 1 : i - 1, boundaries, "--transfer-back-us", "boundary")});
  }
  return costs;
}

pipeline::BuildOptions build_options(const Flags& f) {
  std::vector<pipeline::Kind> kinds{pipeline::Kind::eager_1f1b};
  if (!f.kinds.empty()) kinds.clear();
  for (const std::string& kind : f.kinds) kinds.push_back(pipeline::parse_kind(kind));
  if (kinds.size() > 1 && !f.compare) bad_input("--kind has {} kinds; give one, or --compare", kinds.size());
  return {.kind = kinds.front(),
          .stages = f.stages,
          .micro_batches = f.micro_batches,
          .chunks = f.chunks,
          .memory = f.memory,
          .backward = f.split ? pipeline::Backward::split : pipeline::Backward::whole,
          .recompute = f.recompute ? pipeline::Recompute::yes : pipeline::Recompute::no};
}

void write_files(const Flags& f, const Compared& one) {
  if (!f.save.empty()) write_file(f.save, pipeline::to_json(one.schedule));
  if (!f.svg.empty())
    write_file(f.svg, schedule_svg(one, fmt::format("{} stages, {} micro-batches", one.schedule.num_stages(),
                                                    one.schedule.num_micro_batches)));
  if (!f.trace.empty()) write_file(f.trace, pipeline::trace(one.schedule, one.timing));
}

int run_one(const Flags& f) {
  const Schedule schedule = f.load.empty() ? pipeline::build(build_options(f)) : pipeline::load_schedule(f.load);
  const pipeline::Verdict verdict = pipeline::check(schedule);
  if (!verdict.ok()) {
    fmt::print("{}", f.json ? refused_json(schedule, verdict) : refused_text(schedule, verdict));
    return 1;
  }
  const Costs costs = costs_of(f, schedule.num_stages());
  const Compared one = pipeline::compared(schedule, costs);
  const pipeline::Bound bound = pipeline::lower_bound(
      costs, {schedule.num_micro_batches, schedule.num_chunks, f.memory, verdict.peak_recomputed[0] > 0});
  write_files(f, one);
  fmt::print("{}", f.json ? one_json(one, costs, bound) : one_text(one, costs, bound));
  return 0;
}

int run_compare(const Flags& f) {
  if (!f.save.empty() || !f.trace.empty()) bad_input("--save and --trace take one schedule; leave out --compare");
  pipeline::BuildOptions options = build_options(f);
  auto rows = pipeline::compare_kinds(costs_of(f, f.stages), options);
  std::erase_if(rows, [&](const pipeline::ComparedKind& row) {
    return !f.kinds.empty() && std::none_of(f.kinds.begin(), f.kinds.end(), [&](const std::string& kind) {
      return pipeline::parse_kind(kind) == row.kind;
    });
  });
  if (!f.svg.empty()) {
    std::vector<Compared> drawn;
    for (const pipeline::ComparedKind& row : rows)
      if (const auto& one = f.memory > 0 ? row.within : row.free) drawn.push_back(*one);
    write_file(f.svg, schedules_svg(drawn, fmt::format("{} stages, {} micro-batches", f.stages, f.micro_batches)));
  }
  const int memory = pipeline::equal_memory(options);
  fmt::print("{}", f.json ? compare_json(rows, memory) : compare_text(rows, memory));
  return 0;
}

int run_search(const Flags& f) {
  const Costs costs = costs_of(f, f.stages);
  const pipeline::SearchResult found = pipeline::search(costs, {.micro_batches = f.micro_batches,
                                                                .chunks = f.chunks,
                                                                .memory = f.memory,
                                                                .recompute = build_options(f).recompute,
                                                                .budget = f.budget,
                                                                .seed = f.seed});
  const Compared one = pipeline::compared(found.schedule, costs);
  write_files(f, one);
  fmt::print("{}", f.json ? search_json(found, one, f.memory) : search_text(found, one, f.memory));
  return 0;
}

int run_preset(const Flags& f) {
  if (!f.save.empty() || !f.trace.empty() || !f.svg.empty())
    bad_input("--save, --svg and --trace take one schedule; leave out --preset");
  std::vector<std::pair<PipelinePreset, PresetTable>> all;
  for (const std::string& name : f.preset == "all" ? preset_names() : std::vector{f.preset}) {
    const PipelinePreset preset = load_preset(name);
    all.emplace_back(preset, preset_table(preset));
  }
  if (f.json) fmt::print("{}", presets_json(all));
  for (std::size_t i = 0; i < all.size() && !f.json; ++i)
    fmt::print("{}{}", i > 0 ? "\n" : "", preset_text(all[i].first, all[i].second));
  return 0;
}

int run(const Flags& f) {
  const int modes = f.compare + f.search + !f.preset.empty() + !f.load.empty();
  if (modes > 1) bad_input("--compare, --search, --preset and --load are {} modes at once; give one", modes);
  if (!f.preset.empty()) return run_preset(f);
  pipeline::check_sizes(f.stages, f.micro_batches, 1);
  if (f.compare) return run_compare(f);
  return f.search ? run_search(f) : run_one(f);
}

void add_shape(CLI::App* command, Flags* f) {
  command
      ->add_option("--kind", f->kinds,
                   "gpipe, 1f1b, eager_1f1b, interleaved_1f1b or zero_bubble (eager_1f1b); with --compare several")
      ->delimiter(',')
      ->type_name("NAME");
  add_number(*command, "--stages", &f->stages, "of the pipeline (4)")->type_name("N");
  add_number(*command, "--micro-batches", &f->micro_batches, "of one step (8)")->type_name("M");
  add_number(*command, "--chunks", &f->chunks, "per stage, of interleaved_1f1b (2)")->type_name("V");
  add_number(*command, "--memory", &f->memory, "activations that a stage may hold at most (any number)")
      ->type_name("A");
  command->add_flag("--split-backward", f->split, "gradients leave before the weights' part of backward");
  command->add_flag("--recompute", f->recompute, "keep inputs only, and run each forward again before its backward");
}

void add_costs(CLI::App* command, Flags* f) {
  const auto list = [&](const char* name, std::vector<double>* values, const char* what) {
    command->add_option(name, *values, what)->delimiter(',')->type_name("US,..");
  };
  list("--forward-us", &f->forward_us, "forward of one micro-batch, one for all stages or one per stage (100)");
  list("--backward-us", &f->backward_us, "backward, likewise (200)");
  list("--recompute-us", &f->recompute_us, "recomputation, likewise (as forward)");
  list("--transfer-us", &f->transfer_us, "activations to the next stage, one for all or one per boundary (50)");
  list("--transfer-back-us", &f->transfer_back_us, "gradients to the stage before (as --transfer-us)");
  add_number(*command, "--weight-share", &f->weight_share, "part of backward that is for the weights (0.5)")
      ->type_name("S");
  command->add_flag("--no-overlap", f->no_overlap, "stages stop for transfers instead of computing meanwhile");
}

}  // namespace
}  // namespace weft::cli::schedule

void weft::cli::add_schedule(CLI::App& app, Run* chosen) {
  auto* command = app.add_subcommand("schedule", "pipeline schedules: drawn, proved, timed, compared and searched");
  auto flags = std::make_shared<schedule::Flags>();
  schedule::add_shape(command, flags.get());
  schedule::add_costs(command, flags.get());
  command->add_flag("--compare", flags->compare, "all kinds, as they are and within --memory (that of 1f1b)");
  command->add_flag("--search", flags->search, "the best that can be found within --memory, beside a proved bound");
  add_number(*command, "--budget", &flags->budget, "of the search: items timed (30000000)")->type_name("N");
  add_number(*command, "--seed", &flags->seed, "of the search (1)")->type_name("N");
  command
      ->add_option("--preset", flags->preset,
                   "predict a known pipeline: gpt-1.3b, gpt-2.6b, u-transformer-1b, u-transformer-2b, a file, or all")
      ->type_name("NAME|FILE");
  add_out_file(*command, "--save", &flags->save, "write the schedule as JSON");
  command->add_option("--load", flags->load, "read a schedule instead of building one")->type_name("FILE");
  add_out_file(*command, "--svg", &flags->svg, "draw it into this file; with --compare all kinds");
  add_out_file(*command, "--trace", &flags->trace, "a timeline for ui.perfetto.dev");
  command->add_flag("--json", flags->json, "one JSON object on standard output");
  command->footer(
      "Example:\n  weft schedule --kind eager_1f1b --stages 4 --micro-batches 8 --forward-us 100 --backward-us 200 "
      "--transfer-us 50\n"
      "  weft schedule --compare --transfer-us 100 --micro-batches 16 --svg kinds.svg\n"
      "  weft schedule --search --stages 8 --micro-batches 32 --memory 10 --save found.json\n"
      "  weft schedule --preset all");
  command->callback([=] { *chosen = [flags] { return schedule::run(*flags); }; });
}
