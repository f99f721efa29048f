// The best schedule that can be found for given costs under a memory limit, beside a proved bound. It begins with every
// named schedule that fits, with families between and around them (how many forwards come before the turns, how long
// the weights' part waits), and with schedules made by dispatch; then it exchanges neighbouring items of the best ones
// as long as its budget lasts. So its result is at least as good as the best named one, and the budget decides how much
// better. Pure: a budget and a seed, no clock.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "weft/schedule/bound.h"
#include "weft/schedule/build.h"
#include "weft/schedule/costs.h"

namespace weft::pipeline {

struct SearchOptions {
  int micro_batches = 8;
  int chunks = 2;  // of each stage, of interleaved_1f1b; 1: leave it out
  int memory = 0;  // activations that a stage may hold; 0: any number
  Recompute recompute = Recompute::no;
  std::int64_t budget = 30'000'000;  // items timed, over all schedules looked at
  std::uint64_t seed = 1;
};

struct NamedTime {
  Schedule schedule;
  double seconds = 0, peak = 0;
};

struct SearchResult {
  Schedule schedule;
  double seconds = 0, peak = 0;
  std::vector<NamedTime> named;  // those that fit into memory, the fastest first
  Bound bound;                   // of all schedules with one chunk per stage, and with `chunks`
  bool optimal = false;          // proved: as short as the bound
  std::int64_t looked_at = 0;    // schedules timed
  std::string found;             // "eager_1f1b, 214 exchanges"
};

// Throws bad_input for sizes and costs that cannot be, and a budget below 1.
SearchResult search(const Costs& costs, const SearchOptions& options);

// Named schedules with whole and with split backward that fit into memory, the fastest first.
std::vector<NamedTime> named_times(const Costs& costs, const SearchOptions& options);

}  // namespace weft::pipeline
