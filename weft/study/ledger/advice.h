// From the figures of a ledger to what they mean: which side bounds, whether fusing is worth it here, what to run next.
#pragma once

#include <string>
#include <vector>

#include "weft/study/ledger/block_ledger.h"
#include "weft/study/ledger/model_ledger.h"

namespace weft {

struct Advice {
  struct Command {
    std::string words, what;
  };
  std::vector<std::string> sentences;
  std::vector<Command> commands;
};
Advice advice(const BlockLedger& ledger);
Advice advice(const ModelLedger& ledger);

// Where the table would convince less; empty where that is not known.
std::string limits_of(const ModelLedger& ledger);

// The one sentence above the table.
std::string headline(const BlockLedger& ledger);
std::string headline(const ModelLedger& ledger);

std::string duration_text(double us);  // "0 us" for what is too short or negative

}  // namespace weft
