// One rank of each class for all. A plan is symmetric under a renumbering of its ranks where each rank's program is
// that of rank 0 with ranks and counters renumbered: the same actions in the same order, of the same sizes, waiting for
// and raising what corresponds. Where the network too looks the same from every rank of a class, all of them do the
// same at the same picosecond, and one can be simulated for all.
//
// The plan's part is proved from its rules (symbolic.h), with r unknown: no rank but 0 is expanded, and nothing is
// sampled. The network's part follows from its kind, where no link and no rank is an exception.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "weft/cluster/topology.h"
#include "weft/plan/program.h"
#include "weft/sim/net/digits.h"

namespace weft::netsim {

struct PlanSymmetry {
  Digits digits;                     // renumberings: adding any rank, digit by digit
  std::vector<std::int32_t> raised;  // for every signal of rank 0's program: the counter as its receiver names it
};

// The first of the ways to see ranks as digits that proves it: one digit, hosts x places, a torus's dimensions, the
// network's own, twos. `whole`: actions are one burst each, so what a signal raises rises at one instant. Halving and
// doubling is symmetric only then: tile by tile, one rank needs first what another needs last.
std::optional<PlanSymmetry> plan_symmetry(const Plan& plan, const Expander& expander, const Program& zero,
                                          const Topology& topology, bool whole = false);

// Which of those renumberings the network shares: ranks whose digits differ by multiples of these are of one class.
// All sizes: none but itself.
std::vector<int> shared_steps(const Digits& digits, const Topology& topology);

struct Classes {
  std::vector<std::int32_t> first_of;  // per rank: the lowest of its class
  std::vector<std::int32_t> class_of;  // per rank: which class, in the order of their first ranks
  std::vector<std::int32_t> wire_of;   // per wire: the one that stands for it; empty: each for itself
  int count = 0;
};
Classes classes_of(const Digits& digits, const std::vector<int>& steps, const Topology& topology);

}  // namespace weft::netsim
