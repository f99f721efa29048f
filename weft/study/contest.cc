#include "weft/study/contest.h"

#include <time.h>

#include <algorithm>

#include <fmt/core.h>

#include "weft/base/index.h"
#include "weft/base/statistics.h"
#include "weft/collective/build.h"
#include "weft/study/fastest.h"
#include "weft/study/outside.h"
#include "weft/study/soaker.h"
#include "weft/study/trial.h"
#include "weft/world/world.h"

namespace weft {
namespace {

// Products that checking may take on each rank: in the round that warms up, and in each that counts.
constexpr std::int64_t kFirstTerms = 20'000'000;
constexpr std::int64_t kLaterTerms = 200'000;

}  // namespace

std::string route_of(const Plan& plan) { return plan.route ? std::string(to_string(*plan.route)) : ""; }

Contest::Contest(World& world, const OpSpec& spec, CommonClock& clock, const ContestOptions& options)
    : world_(world),
      spec_(spec),
      clock_(clock),
      options_(options),
      inputs_(spec, world.rank()),
      fused_(compile(world, spec)),
      idle_(spec.space.kind == SpaceKind::broadcast && world.rank() != spec.space.options.root),
      reference_(spec) {
  inputs_.refresh(0);
  add("fused", [this] {
    fused_.run(inputs_.next());
    return fused_.output();
  });
  if (!spec.alone()) add_parts();
  if (options.routes) add_routes();
  add_mpi();
}

void Contest::add_placed(std::string name, std::function<Result()> run, Expect expect) {
  contestants_.push_back({std::move(name),
                          [this, run = std::move(run)] { result_ = run(); },
                          {},
                          [this, expect](std::uint64_t round) { return error_of(expect, round); }});
}

void Contest::add(std::string name, std::function<Matrix()> run, Expect expect) {
  add_placed(
      std::move(name), [run = std::move(run)] { return Result{{run()}}; }, expect);
}

void Contest::add_unchecked(std::string name, std::function<Matrix()> run) {
  contestants_.push_back({std::move(name), [run = std::move(run)] { run(); }});
}

std::int64_t Contest::error_of(Expect expect, std::uint64_t round) const {
  const std::int64_t terms = round == 0 ? kFirstTerms : kLaterTerms;
  return static_cast<std::int64_t>(std::min(reference_.error_of(result_, expect, round, world_.rank(), terms), 1e3) /
                                   kErrorUnit);
}

void Contest::refresh(std::uint64_t round) {
  inputs_.refresh(round);
  const Inputs in = inputs_.next();
  if (spec_.gathers && collective_) run_collective(in.x);
  if (panels_) panels_->refresh(in);
}

Inputs Contest::whole_inputs() {
  Inputs in = inputs_.next();
  if (spec_.gathers && collective_) in.x = collective_->output().data;
  return in;
}

Matrix Contest::run_collective(const float* x) {
  collective_->run(x);
  return collective_->output();
}

void Contest::add_parts() {
  producer_ = std::make_unique<Op>(compile(world_, producer_alone(spec_, world_.rank())));
  if (has_collective(spec_)) {
    const Producer alone = collective_alone(spec_).producer;
    stand_in_.assign(num(alone.m * alone.columns(world_.rank())), 0.5f);
    collective_ = fastest_collective(world_, clock_, spec_, stand_in_.data()).op;
  }
  const auto compute = [this] {
    producer_->run(whole_inputs());
    return producer_->output();
  };
  if (idle_)
    contestants_.push_back({"compute", [] {}});  // takes part in the turns, and has nothing to make
  else
    add("compute", compute, spec_.gathers ? Expect::op : Expect::producer);
  choose_gemm();
  if (collective_ && options_.sequential) add_sequential();
  if (collective_ && options_.panels) add_panels();
  add_libraries();
}

void Contest::add_routes() {
  const Cluster cluster = world_.cluster(spec_.ranks);
  const auto known = spec_.gathers ? gather_routes(spec_.space, cluster) : routes(spec_.space, cluster);
  if (known.size() < 2) return;  // `auto` is the only one
  for (const Route route : known) {
    OpSpec spec = spec_;
    spec.space.options.route = route;
    if (route == Route::one_shot && one_shot_bytes(collective_alone(spec_)) > kMaxOneShotBytes) continue;
    Op* op = routes_.emplace_back(std::make_unique<Op>(compile(world_, spec))).get();
    add(fmt::format("{}{}", kRoutePrefix, to_string(route)), [this, op] {
      op->run(inputs_.next());
      return op->output();
    });
  }
}

void Contest::add_sequential() {
  add("sequential", [this] {
    if (!spec_.gathers) return run_collective(idle_ ? stand_in_.data() : gemm_(inputs_.next()).data);
    Inputs in = inputs_.next();
    in.x = run_collective(in.x).data;
    return gemm_(in);
  });
  // Rows that are gathered stay right for the producer alone.
  add_unchecked("comm", [this] { return run_collective(spec_.gathers ? inputs_.next().x : stand_in_.data()); });
}

void Contest::add_panels() {
  const MakerOf maker =
      gemm_name_ == "weft" ? own_maker(world_) : library_maker(*library_, inputs_.weight_copies(), options_.threads);
  panels_ = fastest_panels(world_, clock_, spec_, maker, [this] { return inputs_.next(); });
  if (panels_) add_placed("panels", [this] { return panels_->run(inputs_.next()); });
}

// A product alone has every library beside it; with a collective, the fastest of them tells what computing costs at
// least.
void Contest::add_libraries() {
  if (!library_gemm_) return;
  if (collective_ && idle_) {
    contestants_.push_back({"library", [] {}});
    return;
  }
  if (collective_) {
    add(
        "library", [this] { return library_gemm_(whole_inputs()); }, spec_.gathers ? Expect::op : Expect::producer);
    return;
  }
  for (const Library library : kLibraries)
    if (const Make make = library_maker(library, inputs_.weight_copies(), options_.threads)(spec_.producer))
      add(to_string(library), [this, make] { return make(inputs_.next()); });
}

// The strongest product that is here: Weft's own tiles, or a library's whole gemm.
void Contest::choose_gemm() {
  gemm_ = [this](const Inputs& in) {
    producer_->run(in);
    return producer_->output();
  };
  gemm_name_ = "weft";
  if (!options_.outside) return;
  const Producer producer = producer_alone(spec_, world_.rank()).producer;
  std::vector<Library> libraries;
  std::vector<Make> makes;
  for (const Library library : kLibraries)
    if (const Make make = library_maker(library, inputs_.weight_copies(), options_.threads)(producer))
      libraries.push_back(library), makes.push_back(make);
  if (makes.empty()) return;
  const auto fastest = [this](const std::vector<Make>& all) {
    std::vector<std::function<void()>> turns;
    for (const Make& make : all)
      turns.emplace_back([this, &make] {
        if (!idle_) make(whole_inputs());
      });
    return pick_fastest(clock_, turns).index;
  };
  const std::size_t best = fastest(makes);
  library_ = libraries[best], library_gemm_ = makes[best];
  if (fastest({gemm_, library_gemm_}) == 0) return;
  gemm_ = library_gemm_;
  gemm_name_ = library_name();
}

// On a paced link a rank that waits spins first, which is no cost of the collective. So its route does not block, and
// between looks at what has come the rank sleeps. Over a wire the kernel's part, much of it done in interrupts while
// the rank sleeps, is charged to nobody: there the cost is what it leaves of the core to somebody who wants all of
// it.
std::int64_t Contest::comm_cpu_ns() {
  constexpr timespec kNap{0, 200'000};
  constexpr int kTurns = 5;
  OpSpec spec = collective_alone(spec_);
  const bool sums = spec.space.kind == SpaceKind::reduce_scatter || spec.space.kind == SpaceKind::all_reduce;
  if (sums) spec.space = all_to_all(spec.space.mesh, spec.space.axis);
  spec.space.options.route = unblocking_route(spec.space.kind, spec.producer.m * spec.producer.n);
  Op op = compile(world_, spec);
  std::unique_ptr<Soaker> soaker;
  if (world_.has_wire() && Soaker::possible()) soaker = std::make_unique<Soaker>();
  std::vector<double> seen;
  for (int turn = 0; turn <= kTurns; ++turn) {
    const std::int64_t begin = clock_.start_together(), start = clock_.cpu_ns();
    if (soaker) soaker->start();
    op.run(stand_in_.data());
    while (!op.ready()) nanosleep(&kNap, nullptr);
    op.output();
    const double cost = soaker ? static_cast<double>(CommonClock::now_ns() - begin) - soaker->stop()
                               : static_cast<double>(clock_.cpu_ns() - start);
    if (turn > 0) seen.push_back(cost);
  }
  // An all_reduce moves all rows twice: to be summed, and as sums.
  const int times = spec_.space.kind == SpaceKind::all_reduce ? 2 : 1;
  return static_cast<std::int64_t>(times * median(seen));
}

void Contest::add_mpi() {
  baseline::Mpi* mpi = options_.outside && spec_.space.kind != SpaceKind::keep ? load_mpi() : nullptr;
  if (mpi == nullptr) return;
  const OpSpec collective = spec_.alone() ? spec_ : collective_alone(spec_);
  const std::vector<MpiCall> calls = mpi_calls(*mpi, collective);
  if (calls.empty()) return;
  if (spec_.alone()) stand_in_.assign(num(spec_.producer.m * spec_.producer.n), 0.5f);
  std::vector<std::function<void()>> turns;
  for (const MpiCall& call : calls) turns.push_back([this, &call] { call.run(stand_in_.data()); });
  const MpiCall& best = calls[pick_fastest(clock_, turns).index];
  mpi_ = best.run;
  mpi_call_ = best.name;
  const Make make = library_gemm_ ? library_gemm_ : gemm_;
  const auto size = reference_.size(Expect::op, world_.rank());
  add("mpi", [this, make, size]() -> Matrix {
    Inputs in = inputs_.next();
    if (spec_.alone()) return {mpi_(in.x), size.rows, size.cols};
    if (!spec_.gathers) return {mpi_(idle_ ? stand_in_.data() : make(in).data), size.rows, size.cols};
    in.x = mpi_(in.x);
    return make(in);
  });
  if (spec_.alone()) return;
  add_unchecked("mpi_comm", [this, size] { return Matrix{mpi_(stand_in_.data()), size.rows, size.cols}; });
}

}  // namespace weft
