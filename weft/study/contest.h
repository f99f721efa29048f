// The things a benchmark compares: the fused op, its producer alone, its collective alone, one after the other, in
// panels, and what oneDNN, OpenBLAS and MPI make of it. A new competitor is one more entry in the list that
// contestants() gives. Each is checked after its turns: what it says to the other ranks is its error, in units of
// kErrorUnit.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "weft/study/baseline/modules.h"
#include "weft/study/clock.h"
#include "weft/study/input/check.h"
#include "weft/study/input/inputs.h"
#include "weft/study/op_spec.h"
#include "weft/study/panels.h"
#include "weft/study/rounds.h"
#include "weft/world/op.h"

namespace weft {

class World;

inline constexpr std::string_view kRoutePrefix = "route ";  // of the names of contestants that are routes

inline constexpr double kErrorUnit = 1e-15;

struct ContestOptions {
  int threads = 1;
  bool sequential = true;  // and the collective alone
  bool panels = true;
  bool outside = true;  // libraries, and MPI where mpirun started the ranks
  bool routes = false;  // every route by name, beside the one that `auto` takes
};

class Contest {
 public:
  Contest(World& world, const OpSpec& spec, CommonClock& clock, const ContestOptions& options);  // collective

  const std::vector<Contestant>& contestants() const { return contestants_; }
  double tolerance() const { return reference_.tolerance(); }
  void refresh(std::uint64_t round);  // fresh inputs for all
  RankInputs& inputs() { return inputs_; }
  std::int64_t comm_cpu_ns();  // collective: CPU time of this rank in the collective alone, its waits slept through
  Op& fused() { return fused_; }
  const Op* producer() const { return producer_.get(); }
  const Op* collective() const { return collective_.get(); }
  const Panels* panels() const { return panels_.get(); }
  // Which gemm the sequential version takes, "weft", "onednn" or "openblas"; which is the fastest of the libraries, and
  // which call MPI takes; empty: none.
  const std::string& gemm_name() const { return gemm_name_; }
  const std::string& mpi_call() const { return mpi_call_; }
  std::string library_name() const { return library_ ? to_string(*library_) : ""; }

 private:
  void add_parts();
  void add_libraries();
  void add_sequential();
  void add_panels();
  void add_mpi();
  void add_routes();
  void choose_gemm();
  void add(std::string name, std::function<Matrix()> run, Expect expect = Expect::op);
  void add_placed(std::string name, std::function<Result()> run, Expect expect = Expect::op);
  // Moves constants: the same calls are checked within another contestant.
  void add_unchecked(std::string name, std::function<Matrix()> run);
  std::int64_t error_of(Expect expect, std::uint64_t round) const;
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
  std::optional<Library> library_;  // the fastest there is
  Make library_gemm_;
  std::unique_ptr<Panels> panels_;
  std::vector<std::unique_ptr<Op>> routes_;
  std::function<const float*(const float*)> mpi_;  // the best call for the collective: from its input to its output
  std::string mpi_call_;
  std::vector<float> stand_in_;  // what the collective alone moves
  Reference reference_;
  Result result_;  // of the last turn
  std::vector<Contestant> contestants_;
};

std::string route_of(const Plan& plan);

}  // namespace weft
