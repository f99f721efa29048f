// Is the estimate right? Measures every route of an op beside its parts on the ranks at hand, and prints what the
// estimate says of the same plans on the world's cluster. tools/check_estimate.py starts it, on a calibrated cluster,
// for the shapes that matter, and judges.
//
// Reads ops from standard input of rank 0's process line by line, as `weft bench` takes them, and writes one JSON
// object a line: {"op": ..., "variants": [{"name", "measured_us", "estimate_us"}, ...]}. Variants: compute (the
// producer kept local), comm:ROUTE (the collective alone), sequential (compute, then the best comm), ROUTE (fused).
#include <algorithm>
#include <fstream>

#include <CLI/CLI.hpp>
#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "weft/base/index.h"
#include "weft/base/statistics.h"
#include "weft/collective/build.h"
#include "weft/plan/price/estimate.h"
#include "weft/study/clock.h"
#include "weft/study/inputs.h"
#include "weft/weft.h"

#include "cli/op_flags.h"

namespace weft::cli {
namespace {

// A sample lasts at least this long: what is shorter is run back to back, so that starting together costs nothing.
constexpr double kSampleUs = 30;
constexpr double kBudgetUs = 400'000;  // for all samples of one variant
constexpr int kMostRounds = 41, kLeastRounds = 9;

struct Variant {
  std::string name;
  double estimate_us = 0;
  std::vector<Op*> ops;  // run one after another; the second reads the first's output
  int repeats = 1;
  std::vector<double> samples;
};

class Case {
 public:
  Case(World& world, OpSpec spec, const std::string& text)
      : world_(world), spec_(std::move(spec)), text_(text), inputs_(spec_, world.rank()), clock_(world) {
    hint_ = bench_hint(spec_);
    if (!spec_.alone()) add_parts();
    for (const Route route : routes(spec_.space.kind)) add(std::string(to_string(route)), spec_, route);
  }

  nlohmann::ordered_json measure() {
    inputs_.refresh(round_);
    for (Variant& v : variants_) {
      const double once = std::max(sample(v), 0.2), again = std::max(std::min(once, sample(v)), 0.2);
      v.repeats = std::clamp(static_cast<int>(slowest(kSampleUs / again)), 1, 1000);
    }
    pick_sequential();
    double all = 0;
    for (Variant& v : variants_) all = std::max(all, sample(v) * v.repeats);
    const int rounds = std::clamp(static_cast<int>(slowest(kBudgetUs / all)), kLeastRounds, kMostRounds);
    for (int i = 0; i < rounds; ++i)
      for (Variant& v : variants_) v.samples.push_back(sample(v));
    return report();
  }

 private:
  void add(std::string name, OpSpec spec, Route route) {
    spec.space.options.route = route;
    try {
      ops_.push_back(std::make_unique<Op>(compile(world_, spec)));
    } catch (const Error&) {
      return;  // this route does not serve this shape
    }
    Variant v;
    v.name = std::move(name);
    v.ops = {ops_.back().get()};
    v.estimate_us = estimate(v.ops[0]->plan(), world_.cluster(spec.ranks), hint_).seconds * 1e6;
    variants_.push_back(std::move(v));
  }

  void add_parts() {
    OpSpec producer = spec_;
    producer.gathers = false;
    if (spec_.gathers) producer.producer.m *= spec_.ranks;
    producer.space = keep();
    ops_.push_back(std::make_unique<Op>(compile(world_, producer)));
    Variant v;
    v.name = "compute";
    v.ops = {ops_.back().get()};
    v.estimate_us = estimate(v.ops[0]->plan(), world_.cluster(spec_.ranks), hint_).seconds * 1e6;
    variants_.push_back(v);
    x_.assign(num(producer.producer.m * producer.producer.k), 0.5f);
    if (spec_.space.kind == SpaceKind::keep || spec_.ranks == 1) return;
    OpSpec alone = spec_;
    alone.gathers = false;
    alone.producer = copy({.rows = spec_.producer.m, .cols = spec_.gathers ? spec_.producer.k : spec_.producer.n});
    stand_in_.assign(num(alone.producer.m * alone.producer.n), 0.5f);
    for (const Route route : routes(alone.space.kind)) add(fmt::format("comm:{}", to_string(route)), alone, route);
  }

  void pick_sequential() {
    Variant v;
    v.name = "sequential";
    double best = 0;
    for (Variant& comm : variants_) {
      if (!comm.name.starts_with("comm:")) continue;
      const double seen = slowest(std::min({sample(comm), sample(comm), sample(comm)}));
      if (best > 0 && seen >= best) continue;
      best = seen;
      v.ops = {variants_[0].ops[0], comm.ops[0]};
      v.estimate_us = variants_[0].estimate_us + comm.estimate_us;
      v.repeats = std::min(variants_[0].repeats, comm.repeats);
    }
    if (best == 0) return;
    if (spec_.gathers) std::swap(v.ops[0], v.ops[1]);
    variants_.insert(variants_.begin() + 1, v);
  }

  double sample(const Variant& v) {
    // The rows of a table that one variant has looked up are in the cache for the next.
    if (spec_.producer.kind == ProducerKind::embedding_bag) inputs_.refresh(++round_);
    const std::int64_t start = clock_.start_together();
    for (int i = 0; i < v.repeats; ++i) run(v);
    return static_cast<double>(CommonClock::now_ns() - start) * 1e-3 / v.repeats;
  }

  void run(const Variant& v) {
    const float* from = nullptr;
    for (Op* op : v.ops) {
      Inputs in = inputs_.next();
      const Producer& p = op->plan().producers.empty() ? spec_.producer : op->plan().producers[0];
      if (from != nullptr)
        in.x = from;
      else if (p.kind == ProducerKind::copy && !spec_.alone())
        in.x = stand_in_.data();
      else if (v.name == "compute")
        in.x = x_.data();
      op->run(in);
      from = op->output().data;
    }
  }

  double slowest(double mine) { return of_all({mine})[0]; }

  // The largest of all ranks', element by element.
  std::vector<double> of_all(const std::vector<double>& mine) {
    std::vector<float> values(mine.begin(), mine.end());
    Op gather = world_.compile(copy({.rows = 1, .cols = std::ssize(values)}),
                               all_gather(world_.mesh({{"all", world_.size()}}), "all"));
    gather.run(values.data());
    const Matrix all = gather.output();
    std::vector<double> out(mine.size(), 0);
    for (int r = 0; r < world_.size(); ++r)
      for (std::size_t i = 0; i < out.size(); ++i) out[i] = std::max<double>(out[i], all.row(r)[i]);
    return out;
  }

  nlohmann::ordered_json report() {
    nlohmann::ordered_json out{{"op", text_}, {"variants", nlohmann::ordered_json::array()}};
    for (const Variant& v : variants_)
      out["variants"].push_back(
          {{"name", v.name}, {"measured_us", median(of_all(v.samples))}, {"estimate_us", v.estimate_us}});
    return out;
  }

  World& world_;
  OpSpec spec_;
  std::string text_;
  RankInputs inputs_;
  CommonClock clock_;
  EstimateHint hint_;
  std::uint64_t round_ = 1;
  std::vector<float> x_, stand_in_;
  std::vector<std::unique_ptr<Op>> ops_;
  std::vector<Variant> variants_;
};

OpSpec parse(const std::string& line, int ranks) {
  OpFlags flags;
  CLI::App app;
  app.add_option("op", flags.op);
  add_op_flags(app, &flags, ranks);
  app.parse(line, false);
  flags.ranks = ranks;
  return parse_op(flags, ranks);
}

int run(int argc, char** argv) {
  if (argc != 2) bad_input("give the file that lists the ops");
  World world = World::init(argc, argv);
  std::ifstream file(argv[1]);
  for (std::string line; std::getline(file, line);) {
    if (line.empty()) continue;
    const auto out = Case(world, parse(line, world.size()), line).measure();
    if (world.rank() == 0) fmt::print("{}\n", out.dump()), std::fflush(stdout);
  }
  return 0;
}

}  // namespace
}  // namespace weft::cli

int main(int argc, char** argv) {
  try {
    return weft::cli::run(argc, argv);
  } catch (const std::exception& error) {
    fmt::print(stderr, "check_estimate: {}\n", error.what());
    return 1;
  }
}
