// Collectives alone over a range of sizes, in the format and with the definitions of nccl-tests, so that the columns
// can be laid beside those of another library.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "weft/study/measure.h"
#include "weft/study/op_request.h"
#include "weft/study/report/measured.h"

namespace weft {

// "4K:64M", "4K:64M:4" or "1M": from, to, factor (4). K, M and G are powers of 1024, as nccl-tests has them; other
// units as in base/units.h.
std::vector<std::int64_t> parse_sizes(std::string_view text);

// What nccl-tests calls the size of a collective: the whole buffer that is reduced or sent to all, what a rank gathers,
// what a rank sends in an all_to_all. `count` is what one call is given: a rank's part where there are parts.
struct WireSize {
  std::int64_t bytes = 0, count = 0;
  double bus_factor = 1;  // busbw = algbw * bus_factor: what a link carries for each byte of the size
};
WireSize wire_size(const OpSpec& spec);
// m and n of one rank for about that many bytes: at least a row for every rank, and parts of equal size.
void set_size(SpaceKind kind, int ranks, std::int64_t bytes, OpRequest* flags);

struct SizeRow {
  OpSpec spec;
  Measurement m;
};
std::string sizes_text(const std::vector<SizeRow>& rows, const ReportContext& context);
std::string sizes_json(const std::vector<SizeRow>& rows, const ReportContext& context);

}  // namespace weft
