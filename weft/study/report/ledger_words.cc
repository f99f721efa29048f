#include "weft/study/report/ledger_words.h"

#include <algorithm>

#include <fmt/core.h>

#include "weft/base/units.h"
#include "weft/transport/local/shm.h"

namespace weft {

std::string size_words(const Workload& w) {
  if (w.kind == WorkloadKind::dlrm)
    return fmt::format("{} samples, {} tables of at most {} rows of {}", w.batch, w.rows.size(),
                       *std::max_element(w.rows.begin(), w.rows.end()), w.dim);
  std::string out = fmt::format("{} tokens, hidden {}, ffn {}", w.tokens(), w.hidden, w.ffn);
  if (w.kind == WorkloadKind::moe) out += fmt::format(", {} of {} experts", w.top_k, w.experts);
  return out;
}

std::string link_words(const AskedLink& link) {
  if (!link.paced) return launched_on_several_hosts() ? "the network between their hosts" : "shared memory";
  return fmt::format("{} of {}{}", link.paced->fabric == Fabric::nic ? "a NIC per rank" : "links",
                     format_bit_rate(link.paced->bytes_per_s),
                     link.paced->latency_s > 0 ? ", " + format_duration(link.paced->latency_s) : "");
}

}  // namespace weft
