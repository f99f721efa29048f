// What `weft schedule` prints: one schedule, the named ones side by side, what a search found, the paper's pipelines.
#pragma once

#include <string>
#include <vector>

#include "weft/schedule/compare.h"
#include "weft/schedule/search.h"
#include "weft/study/schedule/preset.h"

namespace weft::cli::schedule {

std::string one_text(const pipeline::Compared& one, const pipeline::Costs& costs, const pipeline::Bound& bound);
std::string one_json(const pipeline::Compared& one, const pipeline::Costs& costs, const pipeline::Bound& bound);

std::string compare_text(const std::vector<pipeline::ComparedKind>& rows, int memory);
std::string compare_json(const std::vector<pipeline::ComparedKind>& rows, int memory);

std::string search_text(const pipeline::SearchResult& found, const pipeline::Compared& one, int memory);
std::string search_json(const pipeline::SearchResult& found, const pipeline::Compared& one, int memory);

std::string preset_text(const PipelinePreset& preset, const PresetTable& table);
std::string presets_json(const std::vector<std::pair<PipelinePreset, PresetTable>>& all);

// A schedule that the checker refuses.
std::string refused_text(const pipeline::Schedule& schedule, const pipeline::Verdict& verdict);
std::string refused_json(const pipeline::Schedule& schedule, const pipeline::Verdict& verdict);

}  // namespace weft::cli::schedule
