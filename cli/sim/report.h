// `weft sim` for people and for programs.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "weft/study/sim/beyond.h"
#include "weft/study/sim/study.h"
#include "weft/study/sim/summary.h"

namespace weft::cli::sim {

using namespace weft::sim;  // what is reported

// Speedups of every case, and, where the cases are those of the paper, its figures beside ours.
std::string cases_text(Simulator& simulator, const std::vector<SimCase>& cases, const std::vector<Config>& configs);
std::string paper_text(Simulator& simulator);
std::string band_text(const T3Band& band);
std::string scatter_text(const std::vector<ScatterAlone>& rows);
std::string sensitivity_text(Simulator& simulator, const std::vector<Sensitivity>& rows);
std::string sweep_text(const Sweep& sweep);
std::string one_case_text(Simulator& simulator, const SimCase& one, Config config);

nlohmann::ordered_json cases_json(Simulator& simulator, const std::vector<SimCase>& cases,
                                  const std::vector<Config>& configs);
nlohmann::ordered_json paper_json(Simulator& simulator);
nlohmann::ordered_json band_json(const T3Band& band);
nlohmann::ordered_json scatter_json(const std::vector<ScatterAlone>& rows);
nlohmann::ordered_json sensitivity_json(Simulator& simulator, const std::vector<Sensitivity>& rows);
nlohmann::ordered_json beyond_json(Simulator& simulator);
nlohmann::ordered_json sweep_json(const Sweep& sweep);

}  // namespace weft::cli::sim
