// Rows that experts make for tokens, as many as a router says at run time. Tokens of every rank choose top_k of the
// experts, each for itself; rank r holds experts [r, r + 1) * experts / ranks. What a rank makes for the tokens of
// another goes there: gemm-a2a, whose plan has room for a capacity, and whose counts hold for one run.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace weft {

struct Workload;

struct Routing {
  std::string workload;
  std::int64_t experts = 0, top_k = 0;
  std::int64_t tokens = 0;  // of each rank
  double skew = 0;          // expert e is chosen with weight 1 / (e + 1)^skew; 0: all alike
};

// That of a mixture of experts. Throws bad_input for other workloads, and where ranks cannot share its experts.
Routing routing_of(const Workload& workload, int ranks, std::int64_t tokens, double skew);

// Rows that a rank may make for the tokens of another: twice what it makes if all experts are chosen alike.
std::int64_t capacity_of(const Routing& routing, int ranks);

struct RoutedRows {
  std::vector<std::int64_t> rows;  // of experts of rank r for tokens of rank s at [r * ranks + s]
  std::int64_t dropped = 0;        // beyond the capacity

  std::int64_t of_rank(int rank, int ranks) const;
  std::int64_t busiest(int ranks) const;  // of the rank that makes most
};
RoutedRows drawn_rows(const Routing& routing, int ranks, std::uint64_t seed);

}  // namespace weft
