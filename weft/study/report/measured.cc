#include "weft/study/report/measured.h"

#include <cmath>
#include <vector>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "weft/base/json_out.h"
#include "weft/base/units.h"
#include "weft/draw/text_table.h"

namespace weft {
namespace {

nlohmann::ordered_json paired_json(const Paired& p) {
  return {{"fused_us", p.fused_us},       {"compute_us", p.compute_us},
          {"extra_us", p.extra_us},       {"mpi_allreduce_us", or_null(p.mpi_allreduce_us)},
          {"ratio", or_null(p.ratio)},    {"aa_band", p.aa_band},
          {"max_rel_err", p.max_rel_err}, {"runs", p.runs}};
}

std::string duration(double us) { return format_duration(us * 1e-6); }

}  // namespace

std::string json_report(const OpSpec& spec, const ReportContext& context, const Measurement& m) {
  nlohmann::ordered_json out{
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
      {"decomposed_us", or_null(m.panels_us)},
      {"panels", m.panels > 0 ? nlohmann::ordered_json(m.panels) : nlohmann::ordered_json(nullptr)},
      {"mpi_us", or_null(m.mpi_us)},
      {"mpi_comm_us", or_null(m.mpi_comm_us)},
      {"mpi_call", or_null(m.mpi_call)},
      {"dnnl_us", or_null(m.onednn_us)},
      {"openblas_us", or_null(m.openblas_us)},
      {"library", or_null(m.library)},
      {"library_us", or_null(m.library_us)},
      {"floor_us", or_null(m.floor_us())},
      {"fused_us", m.fused_us},
      {"auto_us", or_null(m.auto_us)},
      {"auto_style", or_null(m.auto_style)},
      {"start_late_us", m.start_late_us},
      {"ideal_us", or_null(m.ideal_us())},
      {"aa_band", m.aa_band},
      {"cpu_us", or_null(m.cpu_us)},
      {"speedup", or_null(m.speedup())},
      {"hidden", or_null(m.hidden().part)},
      {"hidden_note", or_null(m.hidden().note)},
      {"max_rel_err", m.max_rel_err},
      {"rounds", m.rounds},
      {"predicted_us", m.predicted.fused_us},
      {"predicted",
       {{"compute_us", or_null(m.predicted.compute_us)},
        {"comm_us", or_null(m.predicted.comm_us)},
        {"sequential_us", or_null(m.predicted.sequential_us)},
        {"decomposed_us", or_null(m.predicted.panels_us)},
        {"fused_us", m.predicted.fused_us}}},
      {"bytes_sent", m.bytes_sent},
      {"signals_sent", m.signals_sent},
      {"verified", true},
      {"device", or_null(context.device)}};
  if (!m.others_us.empty()) out["others_us"] = m.others_us;
  if (m.traced)
    out["traced"] = {{"run_us", m.traced->run_us},
                     {"waited", m.traced->waited},
                     {"before", m.traced->before},
                     {"after", m.traced->after}};
  if (context.paired) out["paired"] = paired_json(*context.paired);
  return json_line(out);
}

namespace {

// One line of the table: a time, how it stands to compute alone and to sequential, what the plan's estimate said.
struct Line {
  std::string name;
  std::optional<double> us, predicted_us;
  std::string note;
};

void add_line(const Line& line, const Measurement& m, std::vector<std::vector<std::string>>* rows) {
  if (!line.us) return;
  const auto times = [&](const std::optional<double>& by) { return by ? fmt::format("{:.2f}", *line.us / *by) : "–"; };
  rows->push_back({line.name, duration(*line.us), times(m.compute_us), times(m.sequential_us),
                   line.predicted_us ? duration(*line.predicted_us) : "–", line.note});
}

std::string library_word(const std::string& library) {
  return library == "onednn" ? "oneDNN" : library == "cublaslt" ? "cuBLASLt" : "OpenBLAS";
}
std::string gemm_word(const std::string& gemm) { return gemm == "weft" ? "compute" : library_word(gemm) + "'s gemm"; }

}  // namespace

std::string time_table(const Measurement& m) {
  if (!m.compute_us) return draw::aligned({{"collective", duration(m.fused_us), fmt::format("one call, {}", m.route)}});
  std::vector<std::vector<std::string>> rows{{"", "time", "/ compute", "/ sequential", "predicted", ""}};
  const auto& p = m.predicted;
  add_line({"compute", m.compute_us, p.compute_us, "the producer alone, output kept local"}, m, &rows);
  add_line({"oneDNN", m.onednn_us, {}, "its whole gemm of the same shape"}, m, &rows);
  add_line({"OpenBLAS", m.openblas_us, {}, "its whole gemm of the same shape"}, m, &rows);
  add_line({library_word(m.library), m.library_us, {}, "the fastest library's product, output kept local"}, m, &rows);
  add_line(
      {"collective", m.comm_us, p.comm_us,
       m.mpi_comm_us && m.mpi_comm_us == m.comm_us ? "alone, by MPI"
                                                   : fmt::format("alone, by its fastest route ({})", m.comm_route)},
      m, &rows);
  add_line({"sequential", m.sequential_us, p.sequential_us, gemm_word(m.sequential_gemm) + ", then the collective"}, m,
           &rows);
  for (const auto& [what, us] : m.others_us) add_line({"", us, {}, what}, m, &rows);
  add_line(
      {"panels", m.panels_us, p.panels_us, fmt::format("in {} panels, each sent while the next is made", m.panels)}, m,
      &rows);
  add_line({"MPI", m.mpi_us, {}, gemm_word(m.mpi_gemm) + ", then " + m.mpi_call}, m, &rows);
  const std::optional<double> predicted = std::isnan(p.fused_us) ? std::optional<double>() : p.fused_us;
  add_line({"fused", m.fused_us, predicted, fmt::format("one call, {}; A/A band {:.1f} %", m.route, m.aa_band * 100)},
           m, &rows);
  add_line({"auto", m.auto_us, {}, m.auto_style + ", the fastest when each was tried"}, m, &rows);
  return draw::aligned(rows);
}

std::string verdict_sentence(const Measurement& m) {
  const auto speedup = m.speedup();
  if (!speedup) return "";
  const bool panels = m.panels_us && *m.panels_us < *m.sequential_us;
  const char* rival = panels ? "panels" : "sequential";
  const double best = panels ? *m.panels_us : *m.sequential_us;
  const double exposed = m.fused_us - *m.compute_us, change = *speedup - 1;
  if (std::abs(change) <= m.aa_band)
    return fmt::format("Fused and {} differ by less than this machine's noise ({:.1f} %).\n", rival, m.aa_band * 100);
  if (change < 0)
    return fmt::format("Fused is {:.1f} % slower than {} here (noise {:.1f} %).\n", -change * 100, rival,
                       m.aa_band * 100);
  return fmt::format("Fused is {:.2f} times as fast as {} and saves {} of {}: {} remain over compute alone.\n",
                     *speedup, rival, duration(best - m.fused_us), duration(best),
                     exposed > 0 ? duration(exposed) : "0 us");
}

std::string paired_text(const Paired& p) {
  std::string out = fmt::format(
      "\nBack to back, {} runs without a barrier: fused {}, compute {} a run; the collective adds {} (A/A band {:.1f} "
      "%).\n",
      p.runs, duration(p.fused_us), duration(p.compute_us), p.extra_us > 0 ? duration(p.extra_us) : "nothing",
      p.aa_band * 100);
  if (p.mpi_allreduce_us)
    out += fmt::format("MPI_Allreduce alone in the same loop: {}; what fusion adds is {:.2f} of that.\n",
                       duration(*p.mpi_allreduce_us), *p.ratio);
  return out;
}

std::string text_report(const OpSpec& spec, const ReportContext& context, const Measurement& m) {
  std::string out =
      fmt::format("{}: {} on {} {} ({}), {} {} each, {} rounds\n\n", spec.name, shape_text(spec), context.ranks,
                  context.ranks == 1 ? "rank" : "ranks", context.link == "shm" ? m.transport : "link " + context.link,
                  context.threads, context.threads == 1 ? "thread" : "threads", m.rounds);
  out += time_table(m);
  out += fmt::format(
      "\nVerified against float64 (a sample of elements where there are many): largest error {:.1e}. Sent in a run: "
      "{}, {} signals.{}\n",
      m.max_rel_err, format_bytes(m.bytes_sent), m.signals_sent,
      m.cpu_us ? fmt::format(" CPU of all ranks: {}.", duration(*m.cpu_us)) : "");
  if (m.start_late_us > 0.05 * m.fused_us)
    out += fmt::format("Ranks set off up to {} late, which all these times include: too much for an op this short.\n",
                       duration(m.start_late_us));
  out += verdict_sentence(m);
  if (const Hidden hidden = m.hidden(); hidden.part)
    out += fmt::format("Of what could be hidden of the collective, {:.2f} is.\n", *hidden.part);
  else if (!hidden.note.empty())
    out += fmt::format("How much of the collective is hidden: {}.\n", hidden.note);
  if (m.traced)
    out += fmt::format(
        "The traced run took {}. Of its CTAs' time {:.1f} % lay before their first tile and {:.1f} % after their last; "
        "in {:.1f} % a warp waited for a counter, beside products or not.\n",
        duration(m.traced->run_us), m.traced->before * 100, m.traced->after * 100, m.traced->waited * 100);
  if (context.paired) out += paired_text(*context.paired);
  return out;
}

}  // namespace weft
