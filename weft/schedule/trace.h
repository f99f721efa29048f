// A timed schedule as a timeline for Perfetto: a process per stage, with rows for its work and for what it sends.
#pragma once

#include <string>

#include "weft/schedule/schedule.h"
#include "weft/schedule/timing.h"

namespace weft::pipeline {

std::string trace(const Schedule& schedule, const Timing& timing);  // the whole file

}  // namespace weft::pipeline
