#include "weft/pipeline/trainer.h"

#include <algorithm>
#include <cmath>

#include "weft/base/clock.h"
#include "weft/base/dtype.h"
#include "weft/base/error.h"
#include "weft/pipeline/gradient_sum.h"
#include "weft/pipeline/stage.h"
#include "weft/schedule/check.h"

namespace weft::pipeline {
namespace {

// A double as two floats, so that a sum of floats over ranks keeps its digits.
void put(double value, float* out) {
  out[0] = static_cast<float>(value);
  out[1] = static_cast<float>(value - static_cast<double>(out[0]));
}
double take(const float* in) { return static_cast<double>(in[0]) + static_cast<double>(in[1]); }

std::vector<int> peaks_of(const Schedule& schedule) {
  std::vector<int> peaks;
  for (const double peak : check(schedule).peak_activations) peaks.push_back(static_cast<int>(peak));
  return peaks;
}

ExchangeOptions exchange_options(const TrainConfig& config, const Schedule& schedule) {
  return {.rows = config.sequences() * config.model.sequence,
          .cols = config.model.hidden,
          .peak_activations = peaks_of(schedule),
          .dtype = config.precision == Precision::bf16 ? Dtype::bf16 : Dtype::f32,
          .product_k = config.model.mlp,
          .transfers = config.transfers};
}

StageOptions stage_options(const TrainConfig& config, const StagePlace& place, const ComputePace& pace) {
  return {.model = config.model,
          .place = place,
          .sequences = config.sequences() / place.data,
          .scale = 1.0f / static_cast<float>(config.batch * config.model.sequence),
          .pace = pace};
}

BackwardPart part_of(Work work) {
  return work == Work::backward_input    ? BackwardPart::input
         : work == Work::backward_weight ? BackwardPart::weights
                                         : BackwardPart::whole;
}

const Places& fitting(const Places& places, const World& world, const TrainConfig& config) {
  if (places.num_ranks() != world.size())
    bad_input("{}: its mesh has {} ranks, but the world has {}; start {} ranks or change \"mesh\"", config.file,
              places.num_ranks(), world.size(), places.num_ranks());
  return places;
}

}  // namespace

Schedule schedule_of(const TrainConfig& config) {
  return build(
      {.kind = config.schedule,
       .stages = config.num_stages(),
       .micro_batches = config.micro_batches,
       .backward = config.transfers.overlap && config.transfers.delay_weights ? Backward::split : Backward::whole});
}

// Gradients that are complete at one time, and added up over data-parallel ranks together.
struct Bucket {
  std::int64_t layer;       // a block; the number of blocks: final norm and head; -1: the embedding
  std::int64_t begin, end;  // in the flat array
  std::unique_ptr<GradientSum> sum;
};

struct Trainer::State {
  World& world;
  TrainConfig config;
  const TokenData& data;
  Places places;
  RankPlace place;
  Schedule schedule;
  ParameterList list;
  ThreadPool pool;
  Pump pump;
  std::vector<float> weights, gradients, rounded;
  AdamW optimiser;
  Exchange exchange;
  RankSum rows_sum, norms_sum, totals_sum;
  std::vector<Bucket> buckets;  // in the order in which a backward pass completes them; empty: nothing to add up
  std::vector<float> norms;
  Stage stage;
  std::int64_t steps = 0, done = 0;  // of the training, and of those by this object

  double work_s[kNumWorks] = {};  // without waiting, by kind of work, from the second step on
  double first_waited_s = 0;      // of the first step

  State(World& world_in, const TrainConfig& config_in, const TokenData& data_in, const TrainerOptions& options);
  ~State() { pump.stop(); }  // before any op goes

  const StagePlace& here() const { return places.stage(place.stage); }
  Stage::Tokens tokens_of(int micro_batch) const;
  double run_items();
  void add_buckets();
  void layer_done(std::int64_t layer, int micro_batch);
  void add_up_norms();
  double squared_norm() const;
  void round_weights();
  std::vector<float> of_stages(std::span<const float> mine);
  const float* seen_weights() const { return rounded.empty() ? weights.data() : rounded.data(); }
};

Trainer::State::State(World& world_in, const TrainConfig& config_in, const TokenData& data_in,
                      const TrainerOptions& options)
    : world(world_in),
      config(config_in),
      data(data_in),
      places(config),
      place(fitting(places, world, config).of(world.rank())),
      schedule(schedule_of(config)),
      list(config.model, here(), place.tensor),
      pool(options.threads),
      weights(num(list.size())),
      gradients(num(list.size())),
      optimiser(list.size(), config.adamw),
      exchange(world, places, exchange_options(config, schedule), &pump),
      rows_sum(world, places.tensor_group(world.rank()),
               config.sequences() / here().data * config.model.sequence * config.model.hidden),
      norms_sum(world, places.tensor_group(world.rank()),
                2 * (here().end_layer - here().first_layer) * config.model.hidden),
      totals_sum(world, 4),
      stage(stage_options(config, here(), options.pace), &list, &exchange, &pump,
            here().tensor > 1 ? &rows_sum : nullptr, &pool) {
  add_buckets();
  list.fill_first_values(config.model, config.seed, weights);
  round_weights();
}

// Where any stage is data-parallel: a sum for each block, for final norm and head, and for the embedding. Stages have
// different numbers of them, and every rank compiles as many.
void Trainer::State::add_buckets() {
  int most = 0;
  for (const StagePlace& stage : places.stages())
    if (stage.data > 1) most = std::max(most, static_cast<int>(stage.end_layer - stage.first_layer) + 2);
  std::vector<Bucket> mine;
  if (here().data > 1) {
    if (list.final_norm() >= 0) mine.push_back({config.model.layers, list.final_norm(), list.size(), nullptr});
    for (std::int64_t layer = here().end_layer - 1; layer >= here().first_layer; --layer) {
      const std::int64_t begin = list.block(layer);
      mine.push_back({layer, begin, begin + BlockLayout(block_of(config.model, 1, here().tensor)).size(), nullptr});
    }
    if (list.embedding() >= 0) mine.push_back({-1, 0, list.block(0), nullptr});
  }
  for (int i = 0; i < most; ++i) {
    const bool real = i < int_size(mine);
    const Group alone{{world.rank()}, 0};
    auto sum = std::make_unique<GradientSum>(world, real ? places.data_group(world.rank()) : alone,
                                             real ? mine[at(i)].end - mine[at(i)].begin : 1, &pump);
    if (real) mine[at(i)].sum = std::move(sum);
  }
  buckets = std::move(mine);
}

void Trainer::State::layer_done(std::int64_t layer, int micro_batch) {
  if (micro_batch + 1 < config.micro_batches) return;
  for (Bucket& bucket : buckets) {
    bucket.sum->move_on();
    if (bucket.layer == layer) bucket.sum->start(gradients.data() + bucket.begin);
  }
}

void Trainer::State::round_weights() {
  if (config.precision == Precision::f32) return;
  rounded.resize(weights.size());
  for (std::size_t i = 0; i < weights.size(); ++i) rounded[i] = to_float(to_bf16(weights[i]));
}

// Sequences of a micro-batch are shared out in order: data-parallel rank d has the d-th part.
Stage::Tokens Trainer::State::tokens_of(int micro_batch) const {
  Stage::Tokens tokens;
  const std::int64_t mine = config.sequences() / here().data;
  const std::int64_t first = steps * config.batch + micro_batch * config.sequences() + place.data * mine;
  for (std::int64_t i = 0; i < mine; ++i) data.append(first + i, &tokens.inputs, &tokens.targets);
  return tokens;
}

double Trainer::State::run_items() {
  const std::vector<WorkItem>& items = schedule.stages[at(place.stage)];
  const auto number = [&](const WorkItem& item) { return done * config.micro_batches + item.micro_batch; };
  exchange.expect((done + 1) * config.micro_batches);
  double loss = 0;
  for (std::size_t i = 0; i < items.size(); ++i) {
    const WorkItem& item = items[i];
    exchange.gap(&item, number(item));
    const double begin = seconds_since(0) - exchange.waited_s();
    if (item.work == Work::forward)
      loss += stage.forward(number(item), seen_weights(), tokens_of(item.micro_batch));
    else
      stage.backward(number(item), seen_weights(), gradients.data(), part_of(item.work),
                     [&](std::int64_t layer) { layer_done(layer, item.micro_batch); });
    if (done > 0) work_s[static_cast<int>(item.work)] += seconds_since(0) - exchange.waited_s() - begin;
  }
  exchange.gap(nullptr, 0);
  exchange.drain();
  for (Bucket& bucket : buckets) bucket.sum->move_on();
  for (Bucket& bucket : buckets) bucket.sum->finish();
  pump.rest();
  if (done++ == 0) first_waited_s = exchange.waited_s();
  return loss;
}

// Tensor-parallel ranks have each a part of the gradients of the norms in front of their heads and columns.
void Trainer::State::add_up_norms() {
  const std::int64_t wide = 2 * config.model.hidden;
  norms.resize(num(wide * (here().end_layer - here().first_layer)));
  auto at_norms = norms.begin();
  for (std::int64_t layer = here().first_layer; layer < here().end_layer; ++layer, at_norms += wide)
    std::copy_n(gradients.begin() + list.block(layer), wide, at_norms);
  norms_sum.add_up(norms.data());
  at_norms = norms.begin();
  for (std::int64_t layer = here().first_layer; layer < here().end_layer; ++layer, at_norms += wide)
    std::copy_n(at_norms, wide, gradients.begin() + list.block(layer));
}

// Of what no other rank counts.
double Trainer::State::squared_norm() const {
  if (place.data > 0) return 0;
  double sum = 0;
  for (const HeldTensor& held : list.tensors())
    if (held.tensor.split >= 0 || place.tensor == 0)
      sum += sum_of_squares({gradients.data() + held.begin, num(held.size())});
  return sum;
}

Trainer::Trainer(World& world, const TrainConfig& config, const TokenData& data, const TrainerOptions& options)
    : state_(std::make_unique<State>(world, config, data, options)) {}
Trainer::~Trainer() = default;

StepReport Trainer::step() {
  State& s = *state_;
  const std::int64_t begin = now_ns();
  std::fill(s.gradients.begin(), s.gradients.end(), 0.0f);
  const double loss = s.run_items();
  if (s.here().tensor > 1) s.add_up_norms();
  float totals[4] = {};
  if (s.place.tensor == 0) put(loss / static_cast<double>(s.config.batch * s.config.model.sequence), totals);
  put(s.squared_norm(), totals + 2);
  s.totals_sum.add_up(totals);
  StepReport report{.step = s.steps + 1, .loss = take(totals), .gradient_norm = std::sqrt(take(totals + 2))};
  const float factor = clip_factor(take(totals + 2), s.config.clip);
  if (factor != 1.0f)
    share_out(s.pool, std::ssize(s.gradients), 4096, [&](std::int64_t from, std::int64_t to) {
      for (std::int64_t i = from; i < to; ++i) s.gradients[at(i)] *= factor;
    });
  report.lr = s.config.lr.at(s.steps);
  s.optimiser.step(s.pool, static_cast<float>(report.lr), s.gradients, s.weights);
  s.round_weights();
  ++s.steps;
  report.seconds = seconds_since(begin);
  report.tokens_per_s = static_cast<double>(s.config.batch * s.config.model.sequence) / report.seconds;
  return report;
}

// What the first rank of each stage has, stage by stage, on all ranks.
std::vector<float> Trainer::State::of_stages(std::span<const float> mine) {
  std::vector<float> all(num(places.num_stages()) * mine.size());
  if (place.data == 0 && place.tensor == 0)
    std::copy(mine.begin(), mine.end(), all.begin() + place.stage * std::ssize(mine));
  RankSum(world, std::ssize(all)).add_up(all.data());
  return all;
}

std::vector<double> Trainer::peak_activations() {
  const auto mine = static_cast<float>(state_->stage.peak_activations());
  const std::vector<float> peaks = state_->of_stages({&mine, 1});
  return {peaks.begin(), peaks.end()};
}

std::vector<double> Trainer::waited_s() {
  const State& s = *state_;
  const double steps = static_cast<double>(std::max<std::int64_t>(s.done - 1, 1));
  const auto mine = static_cast<float>((s.exchange.waited_s() - s.first_waited_s) / steps);
  const std::vector<float> waited = state_->of_stages({&mine, 1});
  return {waited.begin(), waited.end()};
}

Costs Trainer::costs() {
  State& s = *state_;
  const double count = static_cast<double>((s.done - 1) * s.config.micro_batches);
  const auto average = [&](Work work) { return s.work_s[static_cast<int>(work)] / count; };
  float mine[3] = {};
  if (s.done > 1) {
    const auto whole = static_cast<float>(average(Work::backward));
    mine[0] = static_cast<float>(average(Work::forward));
    mine[1] = static_cast<float>(average(Work::backward_input)) + whole / 2;
    mine[2] = static_cast<float>(average(Work::backward_weight)) + whole / 2;
  }
  const std::vector<float> sums = s.of_stages(mine);
  Costs costs;
  for (int i = 0; i < s.places.num_stages(); ++i) {
    const float* of = sums.data() + 3 * i;
    costs.stages.push_back({.forward_s = of[0], .backward_input_s = of[1], .backward_weight_s = of[2]});
  }
  for (const Crossing& crossing : s.places.crossings()) {
    costs.stages[at(crossing.from)].send_forward_s += s.exchange.planned_s(crossing, false);
    costs.stages[at(crossing.to)].send_backward_s += s.exchange.planned_s(crossing, true);
  }
  costs.transfers = s.config.transfers.overlap ? Transfers::overlapped : Transfers::blocking;
  return costs;
}

std::int64_t Trainer::steps() const { return state_->steps; }
const ParameterList& Trainer::parameters() const { return state_->list; }
std::span<float> Trainer::weights() { return state_->weights; }
AdamW& Trainer::optimiser() { return state_->optimiser; }

void Trainer::set_steps(std::int64_t steps) {
  state_->steps = steps;
  state_->optimiser.set_steps(steps);
  state_->round_weights();
}

}  // namespace weft::pipeline
