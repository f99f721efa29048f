// The things a benchmark compares: the fused op, its producer alone, its collective alone, and one after the other.
// A new competitor (panels by hand, MPI) is one more entry in the list that variants() gives.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "weft/world/op.h"

#include "cli/bench_check.h"
#include "cli/bench_clock.h"
#include "cli/bench_inputs.h"
#include "cli/ops.h"

namespace weft {
class World;
}

namespace weft::cli {

struct Variant {
  std::string name;             // "fused", "compute", ...
  Expect expect = Expect::op;   // what its result is to be checked against
  std::function<Matrix()> run;  // one turn: returns when the result is usable here
  bool idle = false;            // this rank has nothing to do in it, and no result
};

class Contest {
 public:
  Contest(World& world, const OpSpec& spec, CommonClock& clock);  // collective

  const std::vector<Variant>& variants() const { return variants_; }
  RankInputs& inputs() { return inputs_; }
  const Op& fused() const { return fused_; }
  const std::string& comm_route() const { return comm_route_; }

 private:
  void add_fused();
  void add_parts();
  Matrix run_producer();
  Matrix run_collective(const float* x);
  void choose_collective();

  World& world_;
  const OpSpec& spec_;
  CommonClock& clock_;
  RankInputs inputs_;
  Op fused_;
  std::unique_ptr<Op> producer_, collective_;
  std::string comm_route_;
  std::vector<float> stand_in_;  // what the collective alone moves
  std::vector<Variant> variants_;
};

OpSpec producer_alone(const OpSpec& spec);    // keeps its output; gathered rows are there already
OpSpec collective_alone(const OpSpec& spec);  // a copy into the same space
bool has_collective(const OpSpec& spec);      // beside its producer

// A rank's inbox by the route one_shot, where there is one; beyond the limit that route is not tried.
inline constexpr double kMaxOneShotBytes = 256e6;
double one_shot_bytes(const OpSpec& collective);

std::string route_of(const Plan& plan);

}  // namespace weft::cli
