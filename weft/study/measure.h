// One op measured: its contest in rounds, run by every rank. The contestants take turns (a, b, c, a, b, c, ...), each
// from a common start until its result is usable on the slowest rank, each checked.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>

#include "weft/exec/cuda/timeline.h"
#include "weft/study/hidden.h"
#include "weft/study/op_spec.h"

namespace weft {

class World;
struct Plan;

// Times in microseconds, medians over the rounds; none where the op has no such part.
struct Measurement {
  std::string transport, route, comm_route;
  int rounds = 0;
  std::optional<double> compute_us;     // the same producer, output kept local
  std::optional<double> comm_us;        // the collective alone: the better of ours, by its best route, and MPI's
  std::optional<double> comm_cpu_us;    // CPU time it costs a rank
  std::optional<double> sequential_us;  // the strongest gemm, then the collective
  std::optional<double> panels_us;      // in `panels` panels
  std::optional<double> mpi_us;         // the fastest library, then MPI's best call
  std::optional<double> mpi_comm_us;    // that call alone
  std::optional<double> onednn_us, openblas_us;  // keep: their gemms of the same shape
  std::optional<double> library_us;              // the product by the fastest library, output kept local
  std::map<std::string, double> others_us;       // what else was timed, by what it is
  std::string sequential_gemm, library, mpi_gemm, mpi_call;
  int panels = 0;
  std::map<std::string, double> route_us;  // of every route by name, where MeasureOptions asks for them
  double fused_us = 0;
  std::optional<double> auto_us;  // on a GPU: of the style that auto chose by trying each
  std::string auto_style;
  double start_late_us = 0;      // how long after the common start the last rank set off; all times include it
  double aa_band = 0;            // |a / b - 1| of the same fused op measured twice in the same rounds
  std::optional<double> cpu_us;  // of all ranks in a fused run; none where threads of one process share the clock
  double max_rel_err = 0;
  std::int64_t bytes_sent = 0, signals_sent = 0;  // to other ranks in a fused run, by all ranks
  bool weights_rotate = false;
  std::optional<TimelineShares> traced;  // of the run on a GPU whose timeline was written

  // From the plans' estimates on the world's cluster, in the same words.
  struct Predicted {
    double fused_us = 0;
    std::optional<double> compute_us, comm_us, sequential_us, panels_us;
  } predicted;

  std::optional<double> floor_us() const;  // the fastest compute there is: Weft's own or a library's
  std::optional<double> speedup() const;   // min(sequential, panels) / fused
  Overlap overlap() const;
  std::optional<double> ideal_us() const { return overlap().ideal_us(); }
  Hidden hidden() const { return hidden_part(overlap()); }
};

struct MeasureOptions {
  int rounds = 15;
  int threads = 1;
  bool sequential = true, panels = true, outside = true, routes = false;  // as in ContestOptions
  double budget_s = 0;  // not 0: as many rounds as fit, from Rounds::kLeastRounds to `rounds`
  std::function<void(int done, int of)> progress;  // called on every rank after each round; may be empty
  // Called on every rank after the rounds with the plans that ran; no collective: null. May be empty.
  std::function<void(const Plan& fused, const Plan* collective)> plans;
};

// Collective; all ranks get the same result. Throws internal, naming variant and rank, where a result is wrong.
Measurement measure(World& world, const OpSpec& spec, const MeasureOptions& options);

}  // namespace weft
