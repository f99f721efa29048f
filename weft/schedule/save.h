// A schedule as text: {"name", "stages", "micro_batches", "chunks", "items": [["f0", "f1", "b0", ..], ..]}, one list
// per stage. An item is its work (f forward, b backward, i backward_input, w backward_weight, r recompute), its
// micro-batch, and ".CHUNK" where it is not of chunk 0.
#pragma once

#include <string>
#include <string_view>

#include "weft/schedule/schedule.h"

namespace weft::pipeline {

std::string to_text(const WorkItem& item);  // "f3", "b3.1"
std::string to_json(const Schedule& schedule);
// Throws bad_input naming `where`, the stage and the item. Whether it can run is check()'s to say.
Schedule parse_schedule(std::string_view json, std::string_view where);
Schedule load_schedule(const std::string& path);

}  // namespace weft::pipeline
