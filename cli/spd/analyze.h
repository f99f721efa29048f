// `weft spd analyze`: what is asked and what is told.
#pragma once

#include <string>
#include <vector>

#include "weft/llm/spd/analysis.h"

namespace weft::cli::spd {

struct AnalyzeFlags {
  AnalysisOptions options;
  ModeTimesOptions times;
  Thresholds thresholds;
  std::string out, svg, link, max_loss, modes = "int8,drop,drop+int8", drop;
  int tp = 0, threads = 0;
  bool no_curve = false, quick = false, json = false;
};

// The analysis and the times around it.
struct Analyzed : Analysis {
  std::vector<ModeTime> times;                   // of every mode; empty without a bound
  double sync_s = 0, chosen_s = 0, seconds = 0;  // a forward in sync, and as chosen; the whole analysis
};

std::string analyze_json(const AnalyzeFlags& flags, const Analyzed& found);
std::string analyze_text(const AnalyzeFlags& flags, const Analyzed& found);
std::string analyze_svg(const AnalyzeFlags& flags, const Analyzed& found);

}  // namespace weft::cli::spd
