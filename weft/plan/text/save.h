// Plans as text: JSON that a person can read and edit. Expressions are strings ("(r - 1 - s) % N"), boxes are
// ["lo:hi", ...], buffers and counters go by name, and what equals its default is left out.
//
// Reading trusts nothing: whatever the text holds, the result is a plan or bad_input naming the file and the
// field, in time and memory bounded by the limits below. A plan that reads well may still be wrong: verify()
// decides that.
#pragma once

#include <string>
#include <string_view>

#include "weft/plan/plan.h"

namespace weft {

std::string to_json(const Plan& plan);
struct LoadOptions {
  double budget = 1;  // times the usual one (budget.h) and 64 MB of text: what takes more to read is refused
};
// `where` begins every message: a file name.
Plan parse_plan(std::string_view text, std::string_view where, const LoadOptions& options = {});

void save_plan(const Plan& plan,
               const std::string& path);  // complete or not at all: written aside, then renamed
Plan load_plan(const std::string& path, const LoadOptions& options = {});

}  // namespace weft
