// The things a benchmark compares: the fused op, its producer alone, its collective alone, one after the other, panels
// by hand, and what oneDNN and MPI make of it. A new competitor is one more entry in the list that variants() gives.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "weft/study/clock.h"
#include "weft/world/op.h"

#include "cli/baseline/modules.h"
#include "cli/bench/check.h"
#include "cli/bench/inputs.h"
#include "cli/bench/panels.h"
#include "cli/ops.h"

namespace weft {
class World;
}

namespace weft::cli {

struct Variant {
  std::string name;             // "fused", "compute", ...
  Expect expect = Expect::op;   // what its result is to be checked against
  std::function<Result()> run;  // one turn: returns when the result is usable here
  bool idle = false;            // this rank has nothing to do in it, and no result
  bool stand_in = false;        // moves constants: the same calls are checked within another variant
};

inline constexpr std::string_view kRoutePrefix = "route ";  // of the names of variants that are routes

struct ContestOptions {
  int threads = 1;
  bool sequential = true;  // and the collective alone
  bool decomposed = true;
  bool outside = true;  // oneDNN, and MPI where mpirun started the ranks
  bool routes = false;  // every route by name, beside the one that `auto` takes
};

class Contest {
 public:
  Contest(World& world, const OpSpec& spec, CommonClock& clock, const ContestOptions& options);  // collective

  const std::vector<Variant>& variants() const { return variants_; }
  void refresh(std::uint64_t round);  // fresh inputs for all
  RankInputs& inputs() { return inputs_; }
  std::int64_t comm_cpu_ns();  // collective: CPU time of this rank in the collective alone, its waits slept through
  Op& fused() { return fused_; }
  const Op* producer() const { return producer_.get(); }
  const Op* collective() const { return collective_.get(); }
  const Panels* panels() const { return panels_.get(); }
  // Which gemm the sequential version takes, "weft" or "onednn", and which call MPI takes; empty: none.
  const std::string& gemm_name() const { return gemm_name_; }
  const std::string& mpi_call() const { return mpi_call_; }
  bool has_onednn() const { return static_cast<bool>(onednn_); }

 private:
  void add_parts();
  void add_sequential();
  void add_decomposed();
  void add_mpi();
  void add_routes();
  void choose_gemm();
  void choose_collective();
  void choose_panels();
  void add(std::string name, Expect expect, std::function<Matrix()> run);
  Inputs whole_inputs();  // of the producer alone: gathered rows are there already
  Matrix run_collective(const float* x);

  World& world_;
  const OpSpec& spec_;
  CommonClock& clock_;
  ContestOptions options_;
  RankInputs inputs_;
  Op fused_;
  bool idle_;  // broadcast: only the root has something to make
  std::unique_ptr<Op> producer_, collective_;
  Make gemm_;  // of the sequential version
  std::string gemm_name_;
  Make onednn_;
  std::unique_ptr<Panels> panels_;
  std::vector<std::unique_ptr<Op>> routes_;
  std::function<const float*(const float*)> mpi_;  // the best call for the collective: from its input to its output
  std::string mpi_call_;
  std::vector<float> stand_in_;  // what the collective alone moves
  std::vector<Variant> variants_;
};

OpSpec producer_alone(const OpSpec& spec, int rank = 0);  // keeps its output; gathered rows are there already
OpSpec collective_alone(const OpSpec& spec);              // a copy into the same space
bool has_collective(const OpSpec& spec);                  // beside its producer

// A rank's inbox by the route one_shot, where there is one; beyond the limit that route is not tried.
inline constexpr double kMaxOneShotBytes = 256e6;
double one_shot_bytes(const OpSpec& collective);

std::string route_of(const Plan& plan);

}  // namespace weft::cli
