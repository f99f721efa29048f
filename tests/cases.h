// The table of what every executor and transport must agree on: producers x spaces x routes x shapes. Inputs are made
// from a seed, so that every process makes the same.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "weft/exec/bindings.h"
#include "weft/plan/plan.h"
#include "weft/plan/space.h"
#include "weft/world/world.h"

namespace weft::testing {

struct Case {
  std::string name;
  Producer producer;
  Space space;
  bool gathers = false;  // the space is on the consumer's side
};

// Every producer with every space and route for that many ranks, over ragged, prime and tiny shapes.
std::vector<Case> all_cases(int num_ranks);
// Every space and route once, in one or two lanes per rank's part: for thousands of runs.
std::vector<Case> route_cases(int num_ranks);

Plan plan_of(const Case& c);
Op compile(World& world, const Case& c);

// One rank's inputs and the memory behind them.
struct Data {
  std::vector<float> x, w, addend, bias, residual;
  std::vector<std::uint16_t> w_bf16;
  std::vector<std::vector<float>> tables;
  std::vector<std::vector<std::int64_t>> indices, offsets;
  std::vector<const float*> table_pointers;
  std::vector<const std::int64_t*> index_pointers, offset_pointers;

  Inputs inputs(const Producer& producer) const;
};
Data make_data(const Producer& producer, int rank, std::uint64_t seed);

// What the reference executor gives on every rank.
std::vector<std::vector<float>> reference(const Plan& plan, const std::vector<Data>& data,
                                          const std::vector<Counts>& counts = {});

// Largest |a - b| / (1 + |b|).
double error(const float* a, const std::vector<float>& b);
double bound_of(const Case& c);  // of that error: values that cross as bf16 are rounded on the way

}  // namespace weft::testing
