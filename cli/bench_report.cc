#include "cli/bench_report.h"

#include <cmath>
#include <vector>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "weft/base/units.h"

#include "cli/table.h"

namespace weft::cli {
namespace {

nlohmann::ordered_json or_null(const std::optional<double>& value) {
  return value ? nlohmann::ordered_json(*value) : nlohmann::ordered_json(nullptr);
}

nlohmann::ordered_json or_null(const std::string& text) {
  return text.empty() ? nlohmann::ordered_json(nullptr) : nlohmann::ordered_json(text);
}

std::string duration(double us) { return format_duration(us * 1e-6); }

}  // namespace

std::string json_report(const OpSpec& spec, const ReportContext& context, const Measurement& m) {
  const nlohmann::ordered_json out{
      {"op", spec.name},
      {"ranks", context.ranks},
      {"threads", context.threads},
      {"transport", m.transport},
      {"link", context.link == "shm" ? m.transport : context.link},
      {"shape", shape_json(spec)},
      {"route", m.route},
      {"comm_route", or_null(m.comm_route)},
      {"weights", m.weights_rotate ? "rotated" : "hot"},
      {"compute_us", or_null(m.compute_us)},
      {"comm_us", or_null(m.comm_us)},
      {"comm_cpu_us", or_null(m.comm_cpu_us)},
      {"sequential_us", or_null(m.sequential_us)},
      {"sequential_gemm", or_null(m.sequential_gemm)},
      {"decomposed_us", or_null(m.decomposed_us)},
      {"panels", m.panels > 0 ? nlohmann::ordered_json(m.panels) : nlohmann::ordered_json(nullptr)},
      {"mpi_us", or_null(m.mpi_us)},
      {"mpi_comm_us", or_null(m.mpi_comm_us)},
      {"mpi_call", or_null(m.mpi_call)},
      {"dnnl_us", or_null(m.onednn_us)},
      {"fused_us", m.fused_us},
      {"start_late_us", m.start_late_us},
      {"ideal_us", or_null(m.ideal_us())},
      {"aa_band", m.aa_band},
      {"cpu_us", or_null(m.cpu_us)},
      {"speedup", or_null(m.speedup())},
      {"hidden", or_null(m.hidden())},
      {"max_rel_err", m.max_rel_err},
      {"rounds", m.rounds},
      {"predicted_us", m.predicted.fused_us},
      {"predicted",
       {{"compute_us", or_null(m.predicted.compute_us)},
        {"comm_us", or_null(m.predicted.comm_us)},
        {"sequential_us", or_null(m.predicted.sequential_us)},
        {"decomposed_us", or_null(m.predicted.decomposed_us)},
        {"fused_us", m.predicted.fused_us}}},
      {"bytes_sent", m.bytes_sent},
      {"signals_sent", m.signals_sent},
      {"verified", true}};
  return out.dump() + "\n";
}

std::string time_table(const Measurement& m) {
  std::vector<std::vector<std::string>> rows;
  if (m.compute_us) rows.push_back({"compute", duration(*m.compute_us), "the producer alone, output kept local"});
  if (m.comm_us && m.compute_us)
    rows.push_back({"collective", duration(*m.comm_us), fmt::format("alone, by its fastest route ({})", m.comm_route)});
  if (m.sequential_us) rows.push_back({"sequential", duration(*m.sequential_us), "one after the other"});
  const auto speedup = m.speedup();
  rows.push_back({m.compute_us ? "fused" : "collective", duration(m.fused_us),
                  speedup ? fmt::format("one call, {}: {:.2f} times as fast as sequential", m.route, *speedup)
                          : fmt::format("one call, {}", m.route)});
  return aligned(rows);
}

std::string verdict_sentence(const Measurement& m) {
  const auto speedup = m.speedup();
  if (!speedup) return "";
  const double exposed = m.fused_us - *m.compute_us;
  const double change = *speedup - 1;
  if (std::abs(change) <= m.aa_band)
    return fmt::format("Fused and sequential differ by less than this machine's noise ({:.1f} %).\n", m.aa_band * 100);
  if (change < 0)
    return fmt::format("Fused is {:.1f} % slower than sequential here (noise {:.1f} %).\n", -change * 100,
                       m.aa_band * 100);
  return fmt::format("Fused saves {} of {}: {} remain over compute alone (noise {:.1f} %).\n",
                     duration(*m.sequential_us - m.fused_us), duration(*m.sequential_us),
                     exposed > 0 ? duration(exposed) : "0 us", m.aa_band * 100);
}

std::string text_report(const OpSpec& spec, const ReportContext& context, const Measurement& m) {
  std::string out = fmt::format("{}: {} on {} {} ({}), {} {} each, {} rounds\n\n", spec.name, shape_text(spec),
                                context.ranks, context.ranks == 1 ? "rank" : "ranks", m.transport, context.threads,
                                context.threads == 1 ? "thread" : "threads", m.rounds);
  out += time_table(m);
  out += fmt::format(
      "\nVerified against float64 (a sample of elements where there are many): largest error {:.1e}. Sent in a run: "
      "{}, {} signals.{}\n",
      m.max_rel_err, format_bytes(static_cast<double>(m.bytes_sent)), m.signals_sent,
      m.cpu_us ? fmt::format(" CPU of all ranks: {}.", duration(*m.cpu_us)) : "");
  if (m.start_late_us > 0.05 * m.fused_us)
    out += fmt::format("Ranks set off up to {} late, which all these times include: too much for an op this short.\n",
                       duration(m.start_late_us));
  return out + verdict_sentence(m);
}

}  // namespace weft::cli
