// What builders and readers of graphs share: names and plans that are kept once, and a program under way.
//
// Plans move words of four bytes: two bf16 travel as one. A collective alone has a chunk per rank and a tile per chunk;
// what a producer is fused with has its chunks in `pieces`, which leave when they are made.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "weft/cluster/workload.h"
#include "weft/plan/space.h"
#include "weft/sim/step/graph.h"

namespace weft::netsim {

// How a producer and its collective go together.
enum class Overlap {
  bulk,    // one after the other
  panels,  // both in parts: a part travels while the next is made
  fused,   // one plan: tiles leave as they are made
};
std::string_view to_string(Overlap overlap);
Overlap parse_overlap(std::string_view name);

SpaceKind space_of(Collective collective);  // throws for none

struct PlanOptions {
  Route route = Route::automatic;  // of all_reduce; auto: ring
  int pieces = 8;
  bool prove = true;
};

// What a shape is made of.
struct CollectiveShape {
  SpaceKind kind = SpaceKind::keep;
  int ranks = 0;
  std::int64_t bytes = 0;      // of what one rank gives (all_gather: of what it has in the end)
  double seconds = 0;          // fused: of the producer; 0: alone
  bool gathers_first = false;  // fused: the collective brings the producer its input
};

class GraphWriter {
 public:
  GraphWriter(std::string name, const PlanOptions& options);

  std::int32_t name(std::string_view text);
  // The plan, built and proved once. Throws bad_input where there is none.
  std::int32_t shape(const CollectiveShape& shape);
  StepGraph take() { return std::move(graph_); }
  StepGraph& graph() { return graph_; }

 private:
  Plan build_alone(const CollectiveShape& shape) const;
  Plan build_fused(const CollectiveShape& shape) const;

  PlanOptions options_;
  StepGraph graph_;
  std::map<std::string, std::int32_t, std::less<>> names_;
  std::map<std::string, std::int32_t> shapes_;
};

// Nodes in the order in which they are added; each gets its own number as tag unless told otherwise.
class ProgramWriter {
 public:
  using Nodes = std::vector<std::int32_t>;

  std::int32_t compute(std::int32_t name, double seconds, const Nodes& needs);
  std::int32_t collective(std::int32_t name, std::int32_t shape, std::int32_t communicator, const Nodes& needs);
  std::int32_t transfer(const StepNode& node, const Nodes& needs);
  StepProgram take() { return std::move(program_); }
  std::int32_t size() const { return int_size(program_.nodes); }

 private:
  std::int32_t add(StepNode node, const Nodes& needs);
  StepProgram program_;
};

}  // namespace weft::netsim
