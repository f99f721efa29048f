// `weft train --compare`: six ways to carry the same transfers, as a table and as JSON.
#include "weft/study/train/compare.h"

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "weft/base/json_out.h"
#include "weft/base/units.h"
#include "weft/draw/text_table.h"

#include "cli/progress.h"
#include "cli/train/train.h"

namespace weft::cli::train {
namespace {

double ms(double us) { return us / 1000; }

nlohmann::ordered_json costs_json(const pipeline::Costs& costs) {
  nlohmann::ordered_json stages = nlohmann::ordered_json::array();
  for (const pipeline::StageCost& stage : costs.stages)
    stages.push_back({{"forward_us", 1e6 * stage.forward_s},
                      {"backward_input_us", 1e6 * stage.backward_input_s},
                      {"backward_weight_us", 1e6 * stage.backward_weight_s},
                      {"send_forward_us", 1e6 * stage.send_forward_s},
                      {"send_backward_us", 1e6 * stage.send_backward_s}});
  return stages;
}

std::string contest_json(const pipeline::TrainConfig& config, const TrainContest& contest) {
  nlohmann::ordered_json json{{"ranks", config.num_ranks()},
                              {"stages", config.num_stages()},
                              {"micro_batches", config.micro_batches},
                              {"transfer_ratio", contest.transfer_ratio},
                              {"gain", contest.gain()},
                              {"over_bound", contest.over_bound()},
                              {"aa_band", contest.aa_band},
                              {"outside_us", contest.outside_us},
                              {"rounds", contest.rounds},
                              {"costs", costs_json(contest.costs)}};
  for (const TrainStyleResult& style : contest.styles)
    json["styles"].push_back({{"name", style.name},
                              {"schedule", style.schedule},
                              {"step_us", style.step_us},
                              {"predicted_us", style.predicted_us},
                              {"cpu_us", style.cpu_us},
                              {"peak_activations", style.peak_activations},
                              {"work_us", style.work_us},
                              {"waited_us", style.waited_us}});
  return json_line(json);
}

std::string contest_text(const pipeline::TrainConfig& config, const TrainContest& contest) {
  const double base = contest.styles.front().step_us, bound = contest.styles.back().step_us;
  std::vector<std::vector<std::string>> rows{{"", "step", "predicted", "gain", "over bound", "activations held"}};
  for (const TrainStyleResult& style : contest.styles) {
    std::string peaks;
    for (const double peak : style.peak_activations) peaks += fmt::format("{}{}", peaks.empty() ? "" : " ", peak);
    rows.push_back({style.name, fmt::format("{:.1f} ms", ms(style.step_us)),
                    fmt::format("{:.1f} ms", ms(style.predicted_us + contest.outside_us)),
                    fmt::format("{:.2f} x", base / style.step_us),
                    fmt::format("{:.1f} %", 100 * (style.step_us / bound - 1)), peaks});
  }
  std::string out = draw::aligned(rows);
  out += fmt::format(
      "{} micro-batches; a transfer takes {:.2f} x forward + backward; {} rounds, the same twice differs by {:.1f} %\n",
      config.micro_batches, contest.transfer_ratio, contest.rounds, 100 * contest.aa_band);
  return out;
}

}  // namespace

int compare_on_rank(World& world, const Flags& flags, const pipeline::TrainConfig& config,
                    const pipeline::TokenData& data, int threads) {
  const bool speaks = world.rank() == 0;
  TrainContest contest;
  {
    Progress progress(speaks ? Progress::Who::speaks : Progress::Who::is_silent);
    TrainContestOptions options;
    options.rounds = flags.rounds;
    options.trainer = {.threads = threads, .pace = flags.pace};
    options.progress = [&](int done, int of) { progress.show("rounds", done, of); };
    contest = compare_training(world, config, data, options);
  }
  if (speaks) fmt::print("{}", flags.json ? contest_json(config, contest) : contest_text(config, contest));
  return 0;
}

}  // namespace weft::cli::train
