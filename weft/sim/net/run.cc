// Sets a run up, folds it where that is proved, and checks what came out.
#include "weft/sim/net/run.h"

#include <algorithm>
#include <cassert>
#include <numeric>
#include <optional>

#include "weft/base/error.h"
#include "weft/plan/assumptions.h"
#include "weft/plan/program.h"
#include "weft/sim/net/machine.h"
#include "weft/sim/net/symmetry.h"

namespace weft::netsim {
namespace {

constexpr int kMaxSeats = 1 << 16;  // as many classes as a key tells apart

void check_fit(const Job& job, const Topology& topology) {
  const int ranks = job.plan->num_ranks;
  if (job.ranks.empty() && ranks > topology.num_ranks)
    bad_input("plan \"{}\" is for {} ranks, but network \"{}\" has {}; use a larger network or a plan for fewer ranks",
              job.plan->name, ranks, topology.name, topology.num_ranks);
  if (!job.ranks.empty() && int_size(job.ranks) != ranks)
    bad_input("plan \"{}\" has {} ranks, of which {} are placed; place each", job.plan->name, ranks, job.ranks.size());
  for (const int node : job.ranks)
    if (node < 0 || node >= topology.num_ranks)
      bad_input("plan \"{}\" is placed on rank {} of network \"{}\", which has {}; number them from 0", job.plan->name,
                node, topology.name, topology.num_ranks);
  if (!(job.begin_s >= 0 && job.begin_s < 1e6))
    bad_input("plan \"{}\" begins after {} s; use 0 to 1e6", job.plan->name, job.begin_s);
}

struct Stage {
  std::vector<Cast> casts;
  std::vector<std::int32_t> canonical;
  int group = 1;  // ranks that one stands for
  std::int64_t burst = 0;
};

// A single job that fills the network may be folded; classes are found even where all ranks are simulated, for ties are
// broken by class.
void set_one(const Job& job, bool is_only, const Topology& topology, const NetOptions& options, Stage* stage) {
  Cast& cast = stage->casts.emplace_back();
  const Plan& plan = *job.plan;
  cast.plan = &plan;
  cast.begin = sim::picoseconds(job.begin_s);
  cast.node_of = job.ranks;
  if (cast.node_of.empty()) {
    cast.node_of.resize(num(plan.num_ranks));
    std::iota(cast.node_of.begin(), cast.node_of.end(), 0);
  }
  for (const Cast& before : stage->casts) cast.first_seat += before.num_seats;
  const Expander expander(plan);
  const Program zero = expander.program(0);
  assert(assumptions_hold(plan, expander, zero));  // verify() has proved it
  const bool whole = sends_whole_actions(plan, zero, options.script);
  const auto symmetry = plan_symmetry(plan, expander, zero, topology, whole);
  const bool alone = is_only && job.ranks.empty() && plan.num_ranks == topology.num_ranks;
  Digits digits(std::vector<int>{plan.num_ranks});
  std::vector<int> steps{plan.num_ranks};
  if (symmetry) {
    cast.digits = digits = symmetry->digits;
    steps = shared_steps(digits, topology);
    if (!alone)
      for (int d = 0; d < digits.num(); ++d) steps[at(d)] = digits.size(d);
    cast.scripts = one_script(plan, expander, zero, symmetry->raised, options.script);
  } else {
    cast.scripts = every_script(plan, expander, options.script);
  }
  stage->burst = std::max(stage->burst, cast.scripts.burst);
  Classes classes = classes_of(digits, steps, topology);
  cast.class_of = classes.class_of;
  if (options.ranks == Ranks::folded && classes.count < plan.num_ranks) {
    stage->group = plan.num_ranks / classes.count;
    stage->canonical = std::move(classes.wire_of);
    cast.num_seats = classes.count;
    cast.seat_of = classes.class_of;
  } else {
    cast.num_seats = plan.num_ranks;
    cast.seat_of.resize(num(plan.num_ranks));
    std::iota(cast.seat_of.begin(), cast.seat_of.end(), cast.first_seat);
    for (std::int32_t& one : cast.class_of) one += cast.first_seat;
  }
}

}  // namespace

void check_bounds(const Wires& wires, const Topology& topology, NetResult* out) {
  for (int w = 0; w < int_size(topology.wires); ++w) {
    const double seconds = wires.bound_seconds(w);
    if (seconds * 1e12 > static_cast<double>(out->bound) || out->hottest < 0)
      out->bound = static_cast<Time>(seconds * 1e12), out->hottest = w;
  }
  if (out->bound > out->end)
    fail(Code::internal, "the run took {} ps, but link {} needs {} for its bytes", out->end,
         topology.wire_name(out->hottest), out->bound);
  if (out->chain > out->end) fail(Code::internal, "the run took {} ps, but its longest chain {}", out->end, out->chain);
}

NetResult simulate(const std::vector<Job>& jobs, const Topology& topology, const NetOptions& options) {
  if (jobs.empty()) bad_input("no plan to run; give at least one");
  Stage stage;
  stage.casts.reserve(jobs.size());
  for (const Job& job : jobs) {
    check_fit(job, topology);
    set_one(job, jobs.size() == 1, topology, options, &stage);
  }
  NetResult out;
  for (const Cast& cast : stage.casts) {
    out.ranks += cast.plan->num_ranks;
    out.simulated += cast.num_seats;
    for (const Script& script : cast.scripts.of) {
      const int times = cast.scripts.shared ? cast.plan->num_ranks : 1;
      out.lanes += script.lanes * times;
      out.signals += script.signals * times;
    }
  }
  if (out.simulated > kMaxSeats)
    bad_input("{} ranks are to be simulated at once; use at most {}", out.simulated, kMaxSeats);
  Machine machine(stage.casts, topology, stage.canonical, options.keep_slices);
  machine.run();
  for (std::size_t job = 0; job < jobs.size(); ++job) {
    out.ends.push_back(machine.end(job));
    out.end = std::max(out.end, machine.end(job));
  }
  out.compute = machine.busiest(), out.chain = machine.chain();
  out.bytes = machine.bytes() * stage.group, out.messages = machine.messages() * stage.group;
  out.hops = machine.wires().hops(), out.events = machine.events();
  out.burst = stage.burst;
  check_bounds(machine.wires(), topology, &out);
  out.wires = machine.wires().uses();
  out.canonical = std::move(stage.canonical);
  out.steps = machine.steps();
  out.crossings = machine.wires().crossings();
  return out;
}

NetResult simulate(const Plan& plan, const Topology& topology, const NetOptions& options) {
  return simulate({Job{&plan, {}, 0}}, topology, options);
}

}  // namespace weft::netsim
