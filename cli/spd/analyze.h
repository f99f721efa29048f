// `weft spd analyze`: what is asked and what is told.
#pragma once

#include <string>
#include <vector>

#include "weft/llm/spd/timed_analysis.h"

namespace weft::cli::spd {

struct AnalyzeFlags {
  AnalysisOptions options;
  ModeTimesOptions times;
  Thresholds thresholds;
  std::string out, svg, link, max_loss, modes = "int8,drop,drop+int8", drop;
  int tp = 0, threads = 0;
  bool no_curve = false, quick = false, json = false;
};

struct Analyzed : TimedAnalysis {
  double seconds = 0;  // the whole analysis
};

std::string analyze_json(const AnalyzeFlags& flags, const Analyzed& found);
std::string analyze_text(const AnalyzeFlags& flags, const Analyzed& found);

}  // namespace weft::cli::spd
