// `weft eval`: what is asked, and what is told.
#pragma once

#include <optional>
#include <string>

#include "weft/llm/eval/evaluate.h"

#include "cli/rank_flags.h"

namespace weft::cli::eval {

struct Flags {
  std::string model, spd, against, save;
  EvalOptions options;
  RankFlags ranks{.threads = 0};  // 0 threads: the cores there are, shared
  bool json = false;
};

struct Report {
  const Flags& flags;
  const EvalInputs& inputs;
  const Evaluation& found;
  std::string modes;  // summary
  std::optional<Evaluation> against;
};
std::string json_report(const Report& report);
std::string text_report(const Report& report);

}  // namespace weft::cli::eval
