// The network's part of a symmetry: which renumberings leave it as it is, by its kind.
//
//   switch, full  any: every rank has the same links to the same switch, or to all others
//   ring, torus   adding digits, where they are the torus's own; else a shift of all ranks along its slowest dimension
//   rails         any of the hosts among themselves and of the places among themselves, where digits end with a host
//   clos          a shift of all ranks by whole leaves. It must leave every receiver its spine
//
// No renumbering but that by 0 maps a link to itself: where several ranks of a class shared a link, one of them would
// be first, and they would not do the same at the same time.
#include <algorithm>

#include "weft/sim/net/symmetry.h"

namespace weft::netsim {
namespace {

bool is_any(const Topology& t) { return t.kind == TopologyKind::one_switch || t.kind == TopologyKind::full; }

bool is_torus(const Topology& t) { return t.kind == TopologyKind::ring || t.kind == TopologyKind::torus; }

// Whether the last digits together count the ranks of a host: adding digits then moves hosts and places apart.
bool ends_with_hosts(const Digits& digits, const Topology& t) {
  if (t.kind != TopologyKind::rails) return false;
  for (int d = 0; d < digits.num(); ++d)
    if (digits.stride(d) == t.group) return true;
  return digits.count() == t.group;
}

// Shifts of all rank numbers, modulo their count, by multiples of this leave the network as it is; 0: none.
int shift_unit(const Topology& t) {
  if (is_torus(t)) return t.num_ranks / t.dims[0];
  if (t.kind == TopologyKind::rails) return t.group;
  if (t.kind != TopologyKind::clos || t.spines != Spines::balanced) return 0;
  return t.group % t.num_spines == 0 && t.num_ranks % t.num_spines == 0 ? t.group : 0;
}

// The wire as the first of its class has it: both ends moved by the same renumbering.
int moved_wire(const Topology& t, const Digits& digits, int wire, int shift) {
  const int n = t.num_ranks;
  if (is_torus(t)) {
    const int directions = 2 * int_size(t.dims);
    return digits.add(wire / directions, shift) * directions + wire % directions;
  }
  if (t.kind == TopologyKind::full) return digits.add(wire / n, shift) * n + digits.add(wire % n, shift);
  if (t.kind != TopologyKind::clos || wire < 2 * n) return wire / n * n + digits.add(wire % n, shift);
  const int leaves = n / t.group, local = wire - 2 * n, spine = local % t.num_spines;
  const int leaf = local / t.num_spines % leaves, down = local / t.num_spines / leaves;
  const int moved = (leaf + shift / t.group) % leaves;
  return 2 * n + (down * leaves + moved) * t.num_spines + spine;
}

int owner_of(const Topology& t, int wire) {
  const int n = t.num_ranks;
  if (is_torus(t)) return wire / (2 * int_size(t.dims));
  if (t.kind == TopologyKind::full) return wire / n;
  if (t.kind != TopologyKind::clos || wire < 2 * n) return wire % n;
  return (wire - 2 * n) / t.num_spines % (n / t.group) * t.group;  // its leaf's first rank
}

}  // namespace

std::vector<int> shared_steps(const Digits& digits, const Topology& t) {
  std::vector<int> steps;
  for (int d = 0; d < digits.num(); ++d) steps.push_back(digits.size(d));
  if (!t.is_even || digits.count() != t.num_ranks) return steps;
  bool same_dims = is_torus(t) && t.dims.size() == steps.size();
  if (same_dims) same_dims = std::equal(steps.begin(), steps.end(), t.dims.begin());
  if (is_any(t) || same_dims || ends_with_hosts(digits, t)) return std::vector<int>(steps.size(), 1);
  const int unit = shift_unit(t);
  if (unit == 0) return steps;
  // Adding to the slowest digit alone shifts all numbers by its stride.
  for (int step = 1; step < digits.size(0); ++step)
    if (digits.size(0) % step == 0 && step * digits.stride(0) % unit == 0) {
      steps[0] = step;
      break;
    }
  return steps;
}

Classes classes_of(const Digits& digits, const std::vector<int>& steps, const Topology& t) {
  const int n = digits.count();
  Classes out;
  for (int rank = 0; rank < n; ++rank) {
    int first = 0;
    for (int d = 0; d < digits.num(); ++d) first += digits.digit(rank, d) % steps[at(d)] * digits.stride(d);
    out.first_of.push_back(first);
    out.class_of.push_back(first == rank ? out.count++ : out.class_of[at(first)]);
  }
  if (out.count == n) return out;
  for (int wire = 0; wire < int_size(t.wires); ++wire) {
    const int owner = owner_of(t, wire), first = out.first_of[at(owner)];
    out.wire_of.push_back(moved_wire(t, digits, wire, digits.add(first, digits.negative(owner))));
  }
  return out;
}

}  // namespace weft::netsim
