// The report of `weft bench`, made of figures that are known: what is said of them, and what is left out.
#include "weft/study/report/measured.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace weft {
namespace {

OpSpec op() {
  const Mesh mesh({{"tp", 2}});
  return {.name = "gemm-rs",
          .producer = validated(gemm({.m = 64, .n = 32, .k = 16}), 2),
          .space = reduce_scatter(mesh, "tp"),
          .ranks = 2};
}

// Compute 100 us, collective 50, sequential 150, panels 140, fused 110.
Measurement figures() {
  Measurement m;
  m.transport = "shm", m.route = "ring", m.comm_route = "direct", m.rounds = 15;
  m.compute_us = 100, m.comm_us = 50, m.comm_cpu_us = 5, m.sequential_us = 150, m.sequential_gemm = "weft";
  m.panels_us = 140, m.panels = 4, m.fused_us = 110, m.aa_band = 0.01, m.cpu_us = 220;
  m.bytes_sent = 4096, m.signals_sent = 12;
  m.predicted.fused_us = 105, m.predicted.compute_us = 99;
  return m;
}

nlohmann::json parsed_report(const Measurement& m, const ReportContext& context = {.ranks = 2}) {
  const std::string text = json_report(op(), context, m);
  EXPECT_EQ(text.find('\n'), text.size() - 1) << "one line";
  return nlohmann::json::parse(text);
}

TEST(MeasuredReport, JsonHasTheFiguresAndNullForTheRest) {
  const auto report = parsed_report(figures());
  EXPECT_EQ(report["op"], "gemm-rs");
  EXPECT_EQ(report["shape"], nlohmann::json({{"m", 64}, {"n", 32}, {"k", 16}}));
  EXPECT_EQ(report["decomposed_us"], 140) << "the key that panels had at first";
  EXPECT_EQ(report["panels"], 4);
  EXPECT_DOUBLE_EQ(report["speedup"], 140.0 / 110);
  EXPECT_EQ(report["link"], "shm");
  EXPECT_EQ(report["predicted"]["compute_us"], 99);
  for (const char* key : {"mpi_us", "mpi_call", "dnnl_us", "openblas_us", "library"})
    EXPECT_TRUE(report[key].is_null()) << key;
  EXPECT_FALSE(report.contains("paired"));
  EXPECT_EQ(parsed_report(figures(), {.ranks = 2, .link = "1gbit"})["link"], "1gbit");
}

TEST(MeasuredReport, ATracedRunTellsWhereItsTimeWent) {
  Measurement m = figures();
  EXPECT_FALSE(parsed_report(m).contains("traced"));
  m.traced = TimelineShares{.run_us = 112, .waited = 0.25, .before = 0.015, .after = 0.02};
  EXPECT_EQ(parsed_report(m)["traced"],
            nlohmann::json({{"run_us", 112.0}, {"waited", 0.25}, {"before", 0.015}, {"after", 0.02}}));
  const std::string text = text_report(op(), {.ranks = 2}, m);
  EXPECT_NE(text.find("1.5 % lay before their first tile and 2.0 % after their last; in 25.0 %"), std::string::npos)
      << text;
}

TEST(MeasuredReport, BackToBackIsAPartOfItsOwn) {
  ReportContext context{.ranks = 2};
  context.paired =
      Paired{.fused_us = 2, .compute_us = 1.5, .extra_us = 0.5, .mpi_allreduce_us = 4, .ratio = 0.125, .runs = 200};
  const auto report = parsed_report(figures(), context);
  EXPECT_EQ(report["paired"]["runs"], 200);
  EXPECT_EQ(report["paired"]["ratio"], 0.125);
  const std::string text = text_report(op(), context, figures());
  EXPECT_NE(text.find("Back to back, 200 runs"), std::string::npos) << text;
  EXPECT_NE(text.find("0.12 of that"), std::string::npos) << text;
}

TEST(MeasuredReport, TheTableHasARowForWhatWasMeasured) {
  Measurement m = figures();
  const std::string plain = time_table(m);
  for (const char* row : {"compute", "collective", "sequential", "panels", "fused"})
    EXPECT_NE(plain.find(row), std::string::npos) << row;
  EXPECT_EQ(plain.find("MPI"), std::string::npos);
  EXPECT_NE(plain.find("1.10"), std::string::npos) << "fused over compute\n" << plain;
  m.mpi_us = 170, m.mpi_gemm = "onednn", m.mpi_call = "MPI_Allreduce";
  EXPECT_NE(time_table(m).find("oneDNN's gemm, then MPI_Allreduce"), std::string::npos);
  Measurement alone;
  alone.fused_us = 30, alone.route = "ring";
  EXPECT_EQ(time_table(alone), "  collective  30.0 us  one call, ring\n");
}

TEST(MeasuredReport, SaysWhatAutoChoseOnAGpu) {
  Measurement m = figures();
  EXPECT_EQ(time_table(m).find("auto"), std::string::npos);
  EXPECT_TRUE(parsed_report(m)["auto_us"].is_null());
  m.auto_us = 111, m.auto_style = "fused";
  EXPECT_NE(time_table(m).find("fused, the fastest when each was tried"), std::string::npos) << time_table(m);
  EXPECT_EQ(parsed_report(m)["auto_us"], 111);
  EXPECT_EQ(parsed_report(m)["auto_style"], "fused");
}

TEST(MeasuredReport, TheVerdictNamesTheStrongestRival) {
  Measurement m = figures();
  EXPECT_NE(verdict_sentence(m).find("1.27 times as fast as panels"), std::string::npos) << verdict_sentence(m);
  m.panels_us = 160;
  EXPECT_NE(verdict_sentence(m).find("1.36 times as fast as sequential"), std::string::npos) << verdict_sentence(m);
  m.fused_us = 149.5;
  EXPECT_NE(verdict_sentence(m).find("differ by less than this machine's noise (1.0 %)"), std::string::npos);
  m.fused_us = 165;
  EXPECT_NE(verdict_sentence(m).find("9.1 % slower than sequential"), std::string::npos) << verdict_sentence(m);
  m.sequential_us.reset(), m.panels_us.reset();
  EXPECT_EQ(verdict_sentence(m), "");
}

TEST(MeasuredReport, ALateStartIsSaid) {
  Measurement m = figures();
  EXPECT_EQ(text_report(op(), {.ranks = 2}, m).find("late"), std::string::npos);
  m.start_late_us = 20;
  EXPECT_NE(text_report(op(), {.ranks = 2}, m).find("Ranks set off up to 20.0 us late"), std::string::npos);
}

}  // namespace
}  // namespace weft
