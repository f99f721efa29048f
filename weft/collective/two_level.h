// Two-level routes, for ranks that fill several hosts, `ranks_per_host` on each. Inside a host data goes through shared
// memory; across the network goes one copy for each host that needs it, or one partial sum of each host that has it.
//
// Rank r is the `place` r % L of `host` r / L. Ranks of one place on all hosts are each other's gates: what crosses
// from a host to a rank elsewhere crosses from that rank's place, so all ranks of a host share the crossing evenly.
#pragma once

#include "weft/collective/draft.h"

namespace weft {

// L ranks of a host, H hosts, g a host, p a place on it.
namespace var {
inline const Expr L = Expr::name("L"), H = Expr::name("H"), g = Expr::name("g"), p = Expr::name("p");
inline const Expr host = r / L, place = r % L;
}  // namespace var

inline Expr mate(const Expr& j) { return var::host * var::L + (var::r + 1 + j) % var::L; }  // on this host
inline Expr gate(const Expr& j) { return (var::r + (j + 1) * var::L) % var::N; }            // on the others
// Counters that mates and gates raise: by the mate's place, and behind those by the gate's host.
inline Expr of_mate(const Expr& j) { return (var::r + 1 + j) % var::L; }
inline Expr of_gate(const Expr& j) { return var::L + (var::host + 1 + j) % var::H; }

// Throws bad_input where there are not several full hosts with several ranks each.
void check_hosts(int num_ranks, int ranks_per_host);
bool fills_hosts(int num_ranks, int ranks_per_host);

// The second half of a gather: chunk c, made on its rank, is stored to its mates and its gates, and each gate copies it
// to its own mates. All of it lies in `buffer`, "y" or narrow sums, which each rank opens first.
class Spread {
 public:
  using TilesOf = Expr (*)(const Expr& chunk);  // at most `slot`
  Spread(Draft& draft, TilesOf tiles_of, int buffer);

  // Lets a rule that makes its rank's own chunk, tiles from u on, store it in `box` of everybody's buffer; where
  // `when`. `signals_itself`: its own came() is raised too.
  void store(Rule* rule, const BoxRule& box, const Expr& u, const Expr& when = 1, bool signals_itself = false) const;
  // Adds what gates do: `rule`, whose loop names a host g, another one, and lets `box` and u be, copies that gate's
  // chunk.
  void forward(Rule rule, const BoxRule& box, const Expr& u);
  // Waits for the chunks that mates bring.
  void arrive();
  // Waits, tile by tile from u on, for the chunk of host g that belongs to this place; and for all of a mate's chunk c.
  WaitRule came(const Expr& g, const Expr& u) const;
  WaitRule all_of(const Expr& c) const;

 private:
  Draft& draft_;
  TilesOf tiles_of_;
  int buffer_, open_, came_, got_;
};

Plan build_two_level_reduce_scatter(const Producer& producer, const Space& space, int ranks_per_host);
Plan build_two_level_all_reduce(const Producer& producer, const Space& space, int ranks_per_host);
Plan build_two_level_all_gather(const Producer& producer, const Space& space, int ranks_per_host);
Plan build_two_level_broadcast(const Producer& producer, const Space& space, int ranks_per_host);
Plan build_two_level_gather_gemm(const Producer& producer, const Space& space, int ranks_per_host);

}  // namespace weft
