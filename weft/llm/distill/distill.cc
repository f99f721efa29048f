#include "weft/llm/distill/distill.h"

#include <algorithm>
#include <optional>

#include "weft/base/clock.h"
#include "weft/base/error.h"
#include "weft/base/index.h"
#include "weft/llm/distill/head_groups.h"
#include "weft/llm/distill/head_groups_measure.h"
#include "weft/llm/distill/state.h"
#include "weft/llm/distill/train.h"

namespace weft {
namespace {

constexpr std::int64_t kGroupingSamples = 16;

void check(const DistillJob& job) {
  const ModelConfig& config = job.model.config;
  const DistillOptions& o = job.options;
  if (std::ssize(job.tasks) != config.blocks)
    bad_input("{} tasks for a model of {} blocks; give one per block", job.tasks.size(), config.blocks);
  if (o.batch < 1 || o.epochs < 1) bad_input("batch is {} and epochs {}; use 1 or more", o.batch, o.epochs);
  if (!(o.lr > 0)) bad_input("lr is {}; use a number above 0, such as 1e-3", o.lr);
  if (std::ssize(job.samples) < o.batch)
    bad_input("there are {} samples, fewer than the batch of {}; give more text, shorter samples or a smaller batch",
              job.samples.size(), o.batch);
  for (const auto& sample : job.samples)
    if (sample.empty() || sample.size() != job.samples[0].size() || std::ssize(sample) > config.max_positions)
      bad_input("a sample has {} tokens, the first {}; give samples of one length, 1 to {}", sample.size(),
                job.samples[0].size(), config.max_positions);
}

std::int64_t usable_samples(const DistillJob& job) {
  return std::ssize(job.samples) / job.options.batch * job.options.batch;
}

std::int64_t sample_values(const DistillJob& job) { return std::ssize(job.samples[0]) * job.model.config.hidden; }

// One rank's part of the work, block after block.
class Distiller {
 public:
  Distiller(World& world, const DistillJob& job, SharedActivations& sets,
            const std::function<void(const DistillProgress&)>& report)
      : world_(world),
        job_(job),
        config_(job.model.config),
        sets_(sets),
        report_(report),
        pool_(job.options.threads),
        block_(world, config_, std::ssize(job.samples[0]), job.options.batch, &pool_),
        whole_sum_(world, BlockLayout(block_shape(config_, shard_of(config_, 0, 1))).size()),
        flag_sum_(world, 4),
        state_(job.folder, config_, settings_of(job, world.size())),
        split_(split_samples(usable_samples(job), job.options.batch)) {}

  std::vector<DistilledBlock> run() {
    load_inputs();
    const auto last = std::find_if(job_.tasks.rbegin(), job_.tasks.rend(), [](const BlockTask& t) { return t.repair; });
    const auto num_blocks = static_cast<int>(job_.tasks.rend() - last);
    progress_.of = static_cast<int>(
        std::count_if(job_.tasks.begin(), job_.tasks.end(), [](const BlockTask& task) { return task.repair; }));
    for (int block = 0; block < num_blocks; ++block) do_block(block);
    return std::move(done_);
  }

 private:
  bool speaks() const { return world_.rank() == 0; }
  const BlockTask& task(int block) const { return job_.tasks[at(block)]; }
  bool chained() const { return job_.options.inputs == DistillInputs::chained; }
  bool follows_originals() const { return job_.options.inputs == DistillInputs::sync; }

  void load_inputs();
  void do_block(int block);
  enum class Form { synchronised, dropped };
  void pass(Form form, const std::vector<float>& weights, const Activations& from, Activations& to);
  void settle();  // all ranks have written what the next reads
  std::vector<float> repair(int block, const std::vector<float>& whole);
  std::optional<std::vector<float>> resume(int block);
  std::vector<float> grouped(int block, const std::vector<float>& whole, const TrainingData& data,
                             DistilledBlock* done);
  std::vector<float> gather(const std::vector<float>& weights);
  void tell(int epoch, double loss);
  void finish(DistilledBlock done);

  World& world_;
  const DistillJob& job_;
  const ModelConfig& config_;
  SharedActivations& sets_;
  const std::function<void(const DistillProgress&)>& report_;
  ThreadPool pool_;
  RankBlock block_;
  RankSum whole_sum_, flag_sum_;
  DistillState state_;
  SampleSplit split_;
  DistillProgress progress_;
  std::vector<DistilledBlock> done_;
  std::int64_t steps_ = 0;  // taken in this run, of all blocks
  double training_seconds_ = 0;
  std::int64_t block_start_ = 0;
};

void Distiller::settle() { world_.barrier(); }

void Distiller::load_inputs() {
  std::vector<float> rows(num(sample_values(job_)));
  for (std::int64_t s = 0; s < usable_samples(job_); ++s) {
    embed(config_, *job_.model.tensors, job_.samples[at(s)], rows.data());
    sets_.inputs().write(s, 1, rows.data(), world_.rank());
    if (chained()) sets_.originals().write(s, 1, rows.data(), world_.rank());
  }
  settle();
}

void Distiller::pass(Form form, const std::vector<float>& weights, const Activations& from, Activations& to) {
  std::vector<float> out(num(block_.values()));
  for (std::int64_t first = 0; first < usable_samples(job_); first += job_.options.batch) {
    if (form == Form::dropped) {
      block_.dropped(weights.data(), from.sample(first), out.data());
    } else {
      block_.synchronised(weights.data(), from.sample(first), out.data());
    }
    if (&from == &to && sets_.writers() > 1) settle();  // every rank has read the rows before any stores its part
    to.write(first, job_.options.batch, out.data(), world_.rank());
  }
  settle();
}

// The targets of a block that is trained, its training, and what enters the next block.
void Distiller::do_block(int block) {
  const std::vector<float> whole = read_block(config_, *job_.model.tensors, block);
  const std::vector<float> original = take_shard(config_, block_.shard(), whole);
  if (chained()) pass(Form::synchronised, original, sets_.originals(), sets_.originals());
  std::vector<float> weights = original;
  if (task(block).repair) {
    if (!chained()) pass(Form::synchronised, original, sets_.inputs(), sets_.targets());
    weights = take_shard(config_, block_.shard(), repair(block, whole));
    settle();
  }
  if (follows_originals() && task(block).repair) {
    settle();
    if (sets_.writers() == 1 || speaks()) sets_.swap_inputs_and_targets();
    settle();
  } else {
    const bool drops = task(block).drop && !follows_originals();
    pass(drops ? Form::dropped : Form::synchronised, drops ? weights : original, sets_.inputs(), sets_.inputs());
  }
}

std::vector<float> Distiller::gather(const std::vector<float>& weights) {
  std::vector<float> whole(num(BlockLayout(block_shape(config_, shard_of(config_, 0, 1))).size()));
  put_shard(config_, block_.shard(), weights, &whole);
  whole_sum_.add_up(whole.data());
  return whole;
}

// Rank 0 looks whether the block is done already; the others hear of it, and get its weights, by a sum.
std::optional<std::vector<float>> Distiller::resume(int block) {
  std::optional<DistilledBlock> found;
  float flags[4] = {};
  if (speaks() && (found = state_.find(block))) flags[0] = 1;
  flag_sum_.add_up(flags);
  if (flags[0] == 0) return std::nullopt;
  std::vector<float> whole(num(BlockLayout(block_shape(config_, shard_of(config_, 0, 1))).size()));
  if (speaks()) whole = found->weights;
  whole_sum_.add_up(whole.data());
  finish(speaks() ? std::move(*found) : DistilledBlock{.block = block, .resumed = true});
  return whole;
}

std::vector<float> Distiller::grouped(int block, const std::vector<float>& whole, const TrainingData& data,
                                      DistilledBlock* done) {
  const HeadGrouping how = task(block).grouping;
  const auto loss = [&](const std::vector<float>& of) {
    return check_loss(block_, data, job_.options, take_shard(config_, block_.shard(), of).data());
  };
  done->loss_before = loss(whole);
  if (how == HeadGrouping::no || world_.size() == 1) return whole;
  const std::int64_t samples =
      std::min(usable_samples(job_), std::max<std::int64_t>(kGroupingSamples, job_.options.batch));
  const MeasuredGroups groups =
      measure_groups(world_, block_, config_, whole, data.inputs, samples, job_.options.batch);
  if (groups.order.empty()) return whole;  // ranks do not hold whole units
  std::vector<float> moved = whole;
  permute_heads(config_, groups.order, &moved);
  const double after = loss(moved);  // the same bits on all ranks, so all decide alike
  if (how == HeadGrouping::where_better && !(after < done->loss_before)) return whole;
  done->grouped = !std::is_sorted(groups.order.begin(), groups.order.end());
  return moved;
}

std::vector<float> Distiller::repair(int block, const std::vector<float>& whole) {
  block_start_ = now_ns();
  progress_.block = block;
  if (auto found = resume(block)) return *found;
  const TrainingData data{sets_.inputs(), chained() ? sets_.originals() : sets_.targets(), split_};
  DistilledBlock done{.block = block};
  std::vector<float> start = grouped(block, whole, data, &done);
  std::vector<float> weights = take_shard(config_, block_.shard(), start);
  progress_.loss_before = done.loss_before;
  const std::uint64_t seed = job_.options.seed * 1000003 + static_cast<std::uint64_t>(block);
  const std::int64_t training = now_ns();
  train_block(block_, data, job_.options, seed, &weights, [&](int epoch, double loss) {
    ++steps_;
    if (speaks()) tell(epoch, loss);
  });
  training_seconds_ += seconds_since(training);
  done.loss_after = check_loss(block_, data, job_.options, weights.data());
  std::vector<float> trained = gather(weights);
  if (!(done.loss_after < done.loss_before)) {  // training made it worse, or no number at all: nothing is changed
    trained = whole;
    done.loss_after = done.loss_before, done.grouped = false;
  }
  done.seconds = seconds_since(block_start_);
  done.weights = trained;
  if (speaks()) state_.save(done);
  finish(std::move(done));
  return trained;
}

void Distiller::tell(int epoch, double loss) {
  const std::int64_t all = (progress_.of - progress_.done) * training_steps(split_, job_.options);
  const std::int64_t here = steps_ % training_steps(split_, job_.options);
  const double a_step = (training_seconds_ + seconds_since(block_start_)) / steps_;
  progress_.epoch = epoch + 1, progress_.epochs = job_.options.epochs;
  progress_.loss = loss;
  progress_.seconds_left = a_step * (all - here);
  progress_.finished = nullptr;
  report_(progress_);
}

void Distiller::finish(DistilledBlock done) {
  ++progress_.done;
  if (!speaks()) done.weights.clear();
  done_.push_back(std::move(done));
  if (!speaks()) return;
  progress_.finished = &done_.back();
  report_(progress_);
}

}  // namespace

std::string_view to_string(DistillInputs inputs) {
  switch (inputs) {
    case DistillInputs::sync:
      return "sync";
    case DistillInputs::dropped:
      return "dropped";
    case DistillInputs::chained:
      return "chained";
  }
  return "";
}

DistillInputs parse_distill_inputs(std::string_view name) {
  for (const DistillInputs inputs : {DistillInputs::sync, DistillInputs::dropped, DistillInputs::chained})
    if (name == to_string(inputs)) return inputs;
  bad_input("inputs are \"{}\"; use sync, dropped or chained", name);
}

SharedActivations::SharedActivations(const DistillJob& job, int writers) : writers_(writers) {
  check(job);
  const int sets = job.options.inputs == DistillInputs::chained ? 3 : 2;
  for (int i = 0; i < sets; ++i)
    if (sets == 2 || i != 1) sets_[i] = std::make_unique<Activations>(usable_samples(job), sample_values(job), writers);
}

std::vector<DistilledBlock> distill(World& world, const DistillJob& job, SharedActivations* shared,
                                    const std::function<void(const DistillProgress&)>& report) {
  check(job);
  std::unique_ptr<SharedActivations> own;
  if (shared == nullptr) own = std::make_unique<SharedActivations>(job, 1);
  return Distiller(world, job, shared != nullptr ? *shared : *own, report).run();
}

}  // namespace weft
