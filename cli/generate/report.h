// What `weft generate` tells: text while it is made, then where the time and the bytes went.
#pragma once

#include <string>

#include "weft/llm/engine/generate.h"

#include "cli/generate/flags.h"

namespace weft::cli {

struct GenerateFigures {
  int ranks = 1;
  std::string transport, link;
  double load_s = 0, compile_s = 0;  // reading this rank's part of the model; proving plans, allotting memory
  EngineTraffic traffic;             // bytes: of all ranks together
  std::int64_t weight_bytes = 0;     // of this rank, read for every token
  double read_bytes_per_s = 0;       // of this rank's threads, measured; 0: not asked for
};

std::string generate_text_report(const GenerateFlags& flags, const GenerateTask& task, const GenerateResult& result,
                                 const GenerateFigures& figures);
std::string generate_json_report(const GenerateFlags& flags, const GenerateTask& task, const GenerateResult& result,
                                 const GenerateFigures& figures);

// How fast this rank's threads read memory from one end to the other: the best of a few passes over a block larger than
// caches. The bound of decoding, where every token reads every weight.
double measured_read_bytes_per_s(ThreadPool& threads);

}  // namespace weft::cli
