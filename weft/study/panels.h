// The style `panels`: the product in a few panels, each followed by a collective that does not block, so that a panel
// travels while the next is made. Every figure of that style (decomposed_us in JSON) comes from here.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "weft/base/index.h"
#include "weft/plan/price/estimate.h"
#include "weft/study/input/check.h"
#include "weft/study/op_spec.h"
#include "weft/world/op.h"
#include "weft/world/split_sum.h"

namespace weft {

class World;

// Makes a producer's whole output in this rank's memory, readable until it is called again.
using Make = std::function<Matrix(const Inputs&)>;
// Gives what makes a producer; collective where it compiles an op.
using MakerOf = std::function<Make(const Producer&)>;
MakerOf own_maker(World& world);  // by an op that keeps its output

// How an output is cut.
//   rows     panel p is part p of the rows
//   owners   part p of the rows of every rank that will own some: what a rank gets from a panel is one block of its own
//   columns  gemv, which has too few rows: part p of the weights' rows
enum class PanelBy { rows, owners, columns };
struct Stretch {
  std::int64_t begin = 0, end = 0;
  std::int64_t size() const { return end - begin; }
};
PanelBy panel_by(const OpSpec& spec);
bool panels_fit(const OpSpec& spec, int panels);
// Rows (or columns) of panel p, in the order they have within it.
std::vector<Stretch> panel_stretches(const OpSpec& spec, int panels, int p);

// A route whose run() returns when this rank's stores are made; triggers do the rest.
Route unblocking_route(SpaceKind kind, std::int64_t elements);

// One op in that many panels. Collectives take routes whose run() returns once this rank's part is on its way. Rows of
// x lie in panel order already where a panel is not one stretch of them (refresh), as a careful hand would keep them.
class Panels {
 public:
  Panels(World& world, const OpSpec& spec, int panels, const MakerOf& maker);  // collective

  int count() const { return int_size(steps_); }
  void refresh(const Inputs& inputs);  // once for every new x or indices, before run; not part of what is timed
  Result run(const Inputs& inputs);    // x as in refresh; returns when the result is usable here

  // From the plans of its parts: panels are made one after another, collectives go one after another beside them where
  // a network carries them, and take turns with the panels where the rank itself does.
  double predicted_seconds(const Cluster& cluster, const EstimateHint& hint = {}) const;

 private:
  struct Step {
    Producer producer;
    Make make;
    std::unique_ptr<Op> collective;  // or, for sums that can be split, one that does not wait to add
    std::unique_ptr<SplitSum> sum;
    std::vector<Stretch> stretches;
    std::int64_t first = 0;     // of its rows within x in panel order
    std::size_t addend_at = 0;  // within the addend in panel order
    std::vector<std::vector<std::int64_t>> indices, offsets;
    std::vector<const std::int64_t*> index_pointers, offset_pointers;
  };

  void add(World& world, int p, int panels, const MakerOf& maker);
  Inputs inputs_of(const Step& step, const Inputs& inputs) const;
  void take_addend(const float* addend);
  void take_indices(Step& step, const Inputs& inputs) const;
  void poll(std::size_t begin, std::size_t end);
  Result run_gathering(const Inputs& inputs);
  void place(const Step& step, std::size_t p, const Matrix& y, Result* out) const;

  const OpSpec& spec_;
  PanelBy by_;
  int rank_;
  bool idle_;             // broadcast: only the root makes something
  std::vector<float> x_;  // in panel order; empty where x serves as it is
  std::vector<float> addend_;
  std::vector<Step> steps_;
};

}  // namespace weft
