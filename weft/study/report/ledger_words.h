// What a ledger is of, in words: a workload's sizes and the link between ranks.
#pragma once

#include <string>

#include "weft/cluster/workload.h"
#include "weft/study/ledger/table.h"

namespace weft {

std::string size_words(const Workload& workload);  // "256 tokens, hidden 2128, ffn 8512"
std::string link_words(const AskedLink& link);     // "links of 1 Gbit/s, 10 us", or "shared memory"

}  // namespace weft
