// A sub-layer and the collective beside it, ready to run in every style that the ledger compares. The sub-layers of a
// block are made of these; what lies between them (norms, attention, routing) is the same in every style.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "weft/study/clock.h"
#include "weft/study/fastest.h"
#include "weft/study/input/check.h"
#include "weft/study/op_spec.h"
#include "weft/study/panels.h"
#include "weft/world/op.h"
#include "weft/world/style.h"

namespace weft {

class World;
struct Cluster;

// What a rank did when, for the timeline and the times of sub-layers. Nanoseconds of the common clock.
enum class Doing { make, exchange, both };  // both: a call that computes and communicates at once
struct StageSpan {
  int stage = 0;
  Doing doing = Doing::make;
  std::int64_t begin_ns = 0, end_ns = 0;
};
class StageLog {
 public:
  void start() { spans_.clear(), last_ = CommonClock::now_ns(); }
  void enter(int stage) { stage_ = stage; }
  void did(Doing doing);  // from the last mark until now
  const std::vector<StageSpan>& spans() const { return spans_; }

 private:
  int stage_ = 0;
  std::int64_t last_ = 0;
  std::vector<StageSpan> spans_;
};

struct PlanFacts {  // of the fused op
  std::string name, route;
  std::int64_t tiles = 0, actions = 0;
  double verify_ms = 0;
};

class MeasuredPart {
 public:
  MeasuredPart(World& world, CommonClock& clock, std::string name, OpSpec spec);  // collective

  const std::string& name() const { return name_; }
  const OpSpec& spec() const { return spec_; }
  bool communicates() const { return has_collective_; }

  // Collective, once before anything is measured: picks the collective's route and the number of panels by trying them
  // on these inputs, and what the floor is made by (try_libraries).
  void settle(const Inputs& inputs);
  // Returns when the result is usable here; it stays so until the next run.
  const Result& run(Style style, const Inputs& inputs, StageLog& log);

  // The pieces of a run, for those who keep several parts under way: experts.
  Matrix make(const Inputs& inputs);  // output kept here
  void send(const float* x);          // the collective alone, started
  Matrix take();                      // and its result
  void start_fused(const Inputs& inputs);
  const Result& finish_fused();
  const Result& keep(const Inputs& inputs, Matrix result);  // remembers what check() looks at

  // Whose weights are the same in every run: the style `compute` takes the fastest product there is, whoever makes it.
  void try_libraries() { tries_libraries_ = true; }
  bool tries_libraries() const { return tries_libraries_; }
  void without_panels() { tries_panels_ = false; }  // who runs several parts beside each other needs none
  void refresh_panels(const Inputs& inputs);        // new indices; not part of what is timed

  const Inputs& last_inputs() const { return inputs_; }
  const Result& last_result() const { return result_; }
  const float* made() const { return result_[0].values.data; }  // where nothing is exchanged: one matrix

  double comm_us() const { return comm_us_; }  // the collective alone, as settle() saw it
  std::string comm_route() const;
  int panels() const { return panels_ ? panels_->count() : 0; }
  const std::string& floor_gemm() const { return floor_.name; }  // in the style `compute`: "weft", or a library
  std::optional<PlanFacts> plan_facts() const;
  // Of a run on that cluster. `compute_s`, where known better than from the plan, is what the product takes.
  double predicted_s(Style style, const Cluster& cluster, std::optional<double> compute_s = {}) const;

 private:
  Inputs inputs_of_floor(const Inputs& inputs) const;
  void settle_floor(const Inputs& inputs);

  World& world_;
  CommonClock& clock_;
  std::string name_;
  OpSpec spec_;
  bool has_collective_, tries_panels_ = true, tries_libraries_ = false;
  std::unique_ptr<Op> local_, collective_, fused_;
  std::unique_ptr<Panels> panels_;
  FasterProduct floor_{{}, "weft"};
  std::vector<float> stand_in_;  // what a gather would have brought
  double comm_us_ = 0;
  Inputs inputs_;
  Result result_;
};

}  // namespace weft
