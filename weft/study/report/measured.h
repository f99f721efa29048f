// What was measured of one op, for people and for programs: as one line of JSON, as a text, and its parts.
#pragma once

#include <string>

#include "weft/study/measure.h"
#include "weft/study/paired.h"

namespace weft {

struct ReportContext {
  int ranks = 1, threads = 1;
  std::string link = "shm";      // as asked for
  std::optional<Paired> paired;  // where it was measured back to back too
  std::string device = {};       // the GPU that all ranks share; empty: CPUs
};

std::string json_report(const OpSpec& spec, const ReportContext& context, const Measurement& m);
std::string text_report(const OpSpec& spec, const ReportContext& context, const Measurement& m);

// The times as an aligned table, and one sentence that says what they mean.
std::string time_table(const Measurement& m);
std::string verdict_sentence(const Measurement& m);

}  // namespace weft
