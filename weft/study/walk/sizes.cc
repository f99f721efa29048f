#include "weft/study/walk/sizes.h"

#include <algorithm>
#include <cmath>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "weft/base/error.h"
#include "weft/base/json_out.h"
#include "weft/base/units.h"
#include "weft/mesh/box.h"

namespace weft {
namespace {

std::int64_t parse_size(std::string_view text) {
  if (text.empty()) bad_input("--sizes has an empty size; write it as 4K:64M or 4K:64M:4");
  const std::string units = "KMG";
  const std::size_t unit = units.find(text.back());
  if (unit == std::string::npos) return parse_bytes(text);
  return parse_bytes(fmt::format("{}{}iB", text.substr(0, text.size() - 1), units[unit]));
}

std::string size_text(std::int64_t bytes) { return fmt::format("{}", bytes); }

double gb_per_s(std::int64_t bytes, double us) { return bytes / us * 1e-3; }

}  // namespace

std::vector<std::int64_t> parse_sizes(std::string_view text) {
  std::vector<std::string_view> parts;
  for (std::string_view rest = text;;) {
    const std::size_t colon = rest.find(':');
    parts.push_back(rest.substr(0, colon));
    if (colon == std::string_view::npos) break;
    rest = rest.substr(colon + 1);
  }
  if (parts.size() > 3) bad_input("--sizes is \"{}\"; write it as FROM:TO or FROM:TO:FACTOR, as 4K:64M:4", text);
  const std::int64_t from = parse_size(parts[0]), to = parts.size() > 1 ? parse_size(parts[1]) : from;
  const std::int64_t factor = parts.size() > 2 ? parse_bytes(parts[2]) : 4;
  if (from < 4 || to < from) bad_input("--sizes is \"{}\"; sizes are 4 bytes or more, the smaller first", text);
  if (factor < 2) bad_input("--sizes is \"{}\"; the factor is 2 or more", text);
  std::vector<std::int64_t> out;
  for (std::int64_t size = from; size <= to; size *= factor) {
    out.push_back(size);
    if (size > to / factor) break;
  }
  return out;
}

WireSize wire_size(const OpSpec& spec) {
  const Producer& p = spec.producer;
  const std::int64_t elements = p.m * p.n, ranks = spec.ranks;
  const double part = static_cast<double>(ranks - 1) / static_cast<double>(ranks);
  switch (spec.space.kind) {
    case SpaceKind::all_reduce:
      return {elements * 4, elements, 2 * part};
    case SpaceKind::reduce_scatter:
    case SpaceKind::all_to_all:
      return {elements * 4, elements / ranks, part};
    case SpaceKind::all_gather:
      return {elements * ranks * 4, elements, part};
    default:
      return {elements * 4, elements, 1};
  }
}

void set_size(SpaceKind kind, int ranks, std::int64_t bytes, OpRequest* flags) {
  std::int64_t elements = std::max<std::int64_t>(bytes / 4, 1);
  if (kind == SpaceKind::all_gather) elements = std::max<std::int64_t>(elements / ranks, 1);
  const bool parts =
      kind == SpaceKind::reduce_scatter || kind == SpaceKind::all_to_all || kind == SpaceKind::all_reduce;
  const std::int64_t rows_at_least = parts ? ranks : 1;
  const std::int64_t columns = std::clamp<std::int64_t>(elements / rows_at_least, 1, elements >= 65536 ? 1024 : 256);
  flags->n = columns;
  flags->m = std::max(rows_at_least, ceil_div(ceil_div(elements, columns), rows_at_least) * rows_at_least);
}

std::string sizes_text(const std::vector<SizeRow>& rows, const ReportContext& context) {
  const bool mpi = std::any_of(rows.begin(), rows.end(), [](const SizeRow& row) { return row.m.mpi_us.has_value(); });
  const OpSpec& first = rows.front().spec;
  std::string out = fmt::format(
      "# {} on {} ranks ({}), {} threads each, medians of {} rounds; columns as in nccl-tests\n"
      "# {:>12} {:>12} {:>6} {:>6} {:>9} {:>8} {:>8} {:>6}  {:>9} {:>8} {:>9}{}\n"
      "# {:>12} {:>12} {:>6} {:>6} {:>9} {:>8} {:>8} {:>6}  {:>9} {:>8} {:>9}{}\n",
      to_string(first.space.kind), context.ranks, context.link, context.threads, rows.front().m.rounds, "size", "count",
      "type", "redop", "time", "algbw", "busbw", "#wrong", "predicted", "A/A", "route",
      mpi ? "   MPI time    busbw" : "", "(B)", "(elements)", "", "", "(us)", "(GB/s)", "(GB/s)", "", "(us)", "band",
      "", mpi ? "       (us)   (GB/s)" : "");
  const bool sums = first.space.kind == SpaceKind::all_reduce || first.space.kind == SpaceKind::reduce_scatter;
  double bus = 0;
  for (const SizeRow& row : rows) {
    const WireSize size = wire_size(row.spec);
    const double alg = gb_per_s(size.bytes, row.m.fused_us);
    bus += alg * size.bus_factor / static_cast<double>(rows.size());
    out += fmt::format("  {:>12} {:>12} {:>6} {:>6} {:>9.1f} {:>8.2f} {:>8.2f} {:>6}  {:>9.1f} {:>7.1f}% {:>9}",
                       size_text(size.bytes), size.count, "float", sums ? "sum" : "none", row.m.fused_us, alg,
                       alg * size.bus_factor, 0, row.m.predicted.fused_us, row.m.aa_band * 100, row.m.route);
    if (row.m.mpi_us)
      out += fmt::format(" {:>10.1f} {:>8.2f}", *row.m.mpi_us, gb_per_s(size.bytes, *row.m.mpi_us) * size.bus_factor);
    out += "\n";
  }
  return out + fmt::format(
                   "# Avg bus bandwidth    : {:.3f}\n# Every result was compared with float64 (a sample of elements "
                   "where there are many): none wrong.\n",
                   bus);
}

std::string sizes_json(const std::vector<SizeRow>& rows, const ReportContext& context) {
  // The keys of one size at the top are those of the largest.
  auto out = nlohmann::ordered_json::parse(json_report(rows.back().spec, context, rows.back().m));
  for (const SizeRow& row : rows) {
    const WireSize size = wire_size(row.spec);
    const double alg = gb_per_s(size.bytes, row.m.fused_us);
    nlohmann::ordered_json one{{"size_bytes", size.bytes},
                               {"count", size.count},
                               {"type", "float"},
                               {"route", row.m.route},
                               {"time_us", row.m.fused_us},
                               {"algbw_gbps", alg},
                               {"busbw_gbps", alg * size.bus_factor},
                               {"wrong", 0},
                               {"predicted_us", row.m.predicted.fused_us},
                               {"aa_band", row.m.aa_band}};
    one["mpi_us"] = or_null(row.m.mpi_us);
    out["sizes"].push_back(one);
  }
  return json_line(out);
}

}  // namespace weft
