// The ledger for people and for programs.
#pragma once

#include <string>
#include <vector>

#include "cli/ledger/measure.h"

namespace weft::cli {

// "t-nlg, one block forward, 4 ranks, links of 1 Gbit/s": what is measured, before anything is.
std::string ledger_title(const Workload& workload, bool scaled, int ranks, const std::optional<Link>& link);
std::string sizes_text(const Workload& workload);  // "256 tokens, hidden 2128, ffn 8512"
std::string link_text(const std::optional<Link>& link);

// Cells of the tables of both ledgers. What is below the floor is noise, and said so by its sign.
std::string duration_cell(double us);
std::string difference_cell(double us);
// Compute, then what is exposed, on one scale for all rows: `longest` is as wide as `width`.
std::string ledger_bar(double floor, double measured, double longest, int width);

std::string ledger_text(const Ledger& ledger, const std::string& svg_path);
std::string ledger_json(const Ledger& ledger, const std::string& svg_path);
// Sequential above, fused below, rank by rank.
std::string ledger_svg(const Ledger& ledger);

// What the figures say, and what to do about them: sentences, then commands with a word on each.
struct Advice {
  std::vector<std::string> sentences;
  std::vector<std::pair<std::string, std::string>> commands;
};
Advice advice(const Ledger& ledger);
std::string headline(const Ledger& ledger);

}  // namespace weft::cli
