// What `weft ... --json` prints, as its users read it.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "tests/cli/runs.h"

namespace weft::testing {

// Expects exit code 0 and one object on one line.
nlohmann::json parsed(const Ended& ended);
void expect_keys(const nlohmann::json& object, const std::vector<std::string>& keys);

}  // namespace weft::testing
