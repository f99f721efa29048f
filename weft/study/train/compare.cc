#include "weft/study/train/compare.h"

#include <algorithm>
#include <memory>

#include "weft/base/error.h"
#include "weft/base/index.h"
#include "weft/schedule/timing.h"
#include "weft/study/rounds.h"

namespace weft {
namespace {

using pipeline::Costs;
using pipeline::Kind;
using pipeline::Trainer;

constexpr const char *kBaseline = "send_recv", *kFull = "broadcast + overlap + eager_1f1b", *kBound = "one element";

double slowest_stage(const Costs& costs) {
  double most = 0;
  for (const pipeline::StageCost& stage : costs.stages)
    most = std::max(most, stage.forward_s + stage.backward_input_s + stage.backward_weight_s);
  return most;
}

double longest_transfer(const Costs& costs) {
  double most = 0;
  for (const pipeline::StageCost& stage : costs.stages)
    most = std::max({most, stage.send_forward_s, stage.send_backward_s});
  return most;
}

// Work as it was measured without transfers to speak of, transfers as a style plans them.
Costs joined(const Costs& work, const Costs& transfers) {
  Costs costs = work;
  for (std::size_t i = 0; i < costs.stages.size(); ++i) {
    costs.stages[i].send_forward_s = transfers.stages[i].send_forward_s;
    costs.stages[i].send_backward_s = transfers.stages[i].send_backward_s;
  }
  costs.transfers = transfers.transfers;
  return costs;
}

std::vector<double> times_us(std::vector<double> seconds) {
  for (double& one : seconds) one *= 1e6;
  return seconds;
}

std::vector<double> work_us(const Costs& costs, int micro_batches) {
  std::vector<double> work;
  for (const pipeline::StageCost& stage : costs.stages)
    work.push_back((stage.forward_s + stage.backward_input_s + stage.backward_weight_s) * micro_batches);
  return times_us(work);
}

pipeline::TrainConfig with_style(pipeline::TrainConfig config, const TrainStyle& style) {
  config.schedule = style.schedule;
  const bool delay_weights = config.transfers.delay_weights, stream = config.transfers.stream;
  config.transfers = style.transfers;
  config.transfers.delay_weights = delay_weights;
  config.transfers.stream = stream;
  return config;
}

}  // namespace

std::vector<TrainStyle> train_styles() {
  using pipeline::Messages;
  return {{kBaseline, Kind::one_f_one_b, {.strategy = Strategy::send_recv, .overlap = false}},
          {"local_allgather", Kind::one_f_one_b, {.strategy = Strategy::local_allgather, .overlap = false}},
          {"broadcast", Kind::one_f_one_b, {.strategy = Strategy::broadcast, .overlap = false}},
          {"broadcast + overlap", Kind::one_f_one_b, {.strategy = Strategy::broadcast}},
          {kFull, Kind::eager_1f1b, {.strategy = Strategy::broadcast}},
          {kBound, Kind::eager_1f1b, {.strategy = Strategy::broadcast, .messages = Messages::one_element}}};
}

const TrainStyleResult& TrainContest::style(const std::string& name) const {
  for (const TrainStyleResult& style : styles)
    if (style.name == name) return style;
  bad_input("no style \"{}\" was measured; see train_styles()", name);
}

double TrainContest::gain() const { return style(kBaseline).step_us / style(kFull).step_us; }
double TrainContest::over_bound() const { return style(kFull).step_us / style(kBound).step_us - 1; }

TrainContest compare_training(World& world, const pipeline::TrainConfig& config, const pipeline::TokenData& data,
                              const TrainContestOptions& options) {
  CommonClock clock(world);
  std::vector<std::unique_ptr<Trainer>> trainers;
  std::vector<Contestant> contestants;
  std::vector<TrainStyle> styles = train_styles();
  if (!options.styles.empty())
    std::erase_if(styles, [&](const TrainStyle& style) {
      return std::find(options.styles.begin(), options.styles.end(), style.name) == options.styles.end();
    });
  for (const TrainStyle& style : styles) {
    trainers.push_back(std::make_unique<Trainer>(world, with_style(config, style), data, options.trainer));
    contestants.push_back({style.name, [trainer = trainers.back().get()] { trainer->step(); }});
  }
  RoundsOptions how;
  how.rounds = options.rounds;
  how.twice = kFull;
  how.progress = options.progress;
  Rounds rounds(clock, std::move(contestants), std::move(how));
  rounds.run();
  TrainContest contest;
  contest.rounds = rounds.count();
  contest.aa_band = rounds.aa_band();
  std::vector<Costs> costs;
  for (auto& trainer : trainers) costs.push_back(trainer->costs());
  contest.costs = joined(costs.back(), costs[costs.size() - 2]);
  contest.transfer_ratio = longest_transfer(contest.costs) / slowest_stage(contest.costs);
  const auto predicted = [&](std::size_t i) {
    return 1e6 * timing(schedule_of(with_style(config, styles[i])), joined(costs.back(), costs[i])).makespan_s;
  };
  for (std::size_t i = 0; i < styles.size(); ++i)
    contest.styles.push_back({styles[i].name, std::string(to_string(styles[i].schedule)),
                              rounds.median_us(styles[i].name).value_or(0), predicted(i),
                              rounds.median_of(styles[i].name, &TurnTime::cpu_us), trainers[i]->peak_activations(),
                              work_us(costs[i], config.micro_batches), times_us(trainers[i]->waited_s())});
  contest.outside_us = contest.styles.back().step_us - contest.styles.back().predicted_us;
  return contest;
}

}  // namespace weft
