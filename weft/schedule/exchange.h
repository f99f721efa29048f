// Improves a schedule by exchanging neighbouring items of a stage, at random: an exchange stays where the schedule is
// not longer than before. Among schedules of one makespan, those whose stages end earlier are better beginnings.
#pragma once

#include <cstdint>
#include <random>

#include "weft/schedule/schedule.h"
#include "weft/schedule/timing.h"

namespace weft::pipeline {

struct ExchangeLimits {
  int memory = 0;           // forwards of chunks that a stage may hold; 0: any number
  std::int64_t budget = 0;  // items timed
  double enough = 0;        // stops at this makespan
};

struct Exchanged {
  Schedule schedule;
  double seconds = 0;
  int exchanges = 0;  // that made it shorter
  std::int64_t looked_at = 0, spent = 0;
};

// `schedule` passes check() and keeps to the memory; so does the result.
Exchanged exchange(const Schedule& schedule, Timer* timer, const ExchangeLimits& limits, std::mt19937_64& random);

}  // namespace weft::pipeline
