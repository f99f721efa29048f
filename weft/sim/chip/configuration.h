// A sub-layer whose output is summed over the devices, under every configuration that is compared. Plans come from the
// builders, through whoever calls: this folder may not build them.
//
//   sequential     the product, its output through the cache; a ring reduce-scatter in steps, by a kernel; the gather
//   t3             the product stores into the ring: tracker, DMA, near-memory updates, round robin; then the gather
//   t3_fifo        the same, memory first come first served
//   t3_mca         the same, compute first
//   ideal_overlap  the longer of product and reduce-scatter, each as if alone; the gather
//   ideal_nmc      the same, the reduce-scatter by near-memory updates
// Beyond the paper:
//   copy_engine    what software can do today: chunk by chunk, copies by engines that are queued behind flags,
//                  additions by a kernel that takes its time from the product; reckoned from the simulated parts
//   fused_cu       workgroups add and send themselves, on fewer CUs, as the plan's executors do
//   direct         tiles go straight to their owner through a switch; t3_mca's memory; a direct gather
#pragma once

#include <array>
#include <optional>
#include <string_view>

#include "weft/plan/plan.h"
#include "weft/sim/chip/chip.h"
#include "weft/sim/chip/run.h"

namespace weft::sim {

enum class Config { sequential, t3, t3_fifo, t3_mca, ideal_overlap, ideal_nmc, copy_engine, fused_cu, direct };
inline constexpr std::array kConfigs{Config::sequential,    Config::t3,        Config::t3_fifo,     Config::t3_mca,
                                     Config::ideal_overlap, Config::ideal_nmc, Config::copy_engine, Config::fused_cu,
                                     Config::direct};
inline constexpr std::array kPaperConfigs{Config::sequential, Config::t3, Config::t3_mca, Config::ideal_overlap,
                                          Config::ideal_nmc};
std::string_view to_string(Config config);
Config parse_config(std::string_view name);  // throws bad_input listing them

struct CasePlans {
  Plan fused;            // the product, reduce-scattered round a ring; alone, the same with its tiles kept
  Plan scatter, gather;  // the collectives alone, round a ring
  Plan direct, direct_gather;
};

struct CaseTraffic {  // DRAM bytes of one device
  std::int64_t gemm_read = 0, gemm_write = 0, rs_read = 0, rs_write = 0, ag_read = 0, ag_write = 0, tracker = 0;
  std::int64_t total() const { return gemm_read + gemm_write + rs_read + rs_write + ag_read + ag_write + tracker; }
  friend bool operator==(const CaseTraffic&, const CaseTraffic&) = default;
};

struct CaseResult {
  Config config = Config::sequential;
  double seconds = 0;
  double gemm_s = 0, scatter_s = 0, gather_s = 0;  // fused: gemm_s is until the last CU is free, scatter_s what remains
  CaseTraffic traffic;
  std::int64_t spills = 0, tracker_peak = 0;
  double memory_lost_s = 0;
  std::uint64_t events = 0;
};

class Case {
 public:
  // Keeps references: plans and chip outlive it.
  Case(const CasePlans& plans, const Chip& chip, int element_bytes)
      : plans_(plans), chip_(chip), element_bytes_(element_bytes) {}

  CaseResult run(Config config);
  // The fused run alone, with everything recorded: for timelines and traffic over time.
  RunResult fused(Config config, double bin_s, bool slices) const;

 private:
  RunOptions options_of(Config config) const;
  const RunResult& part(std::optional<RunResult>* kept, const Plan& plan, const RunOptions& options);
  const RunResult& gemm();
  const RunResult& scatter();
  const RunResult& scatter_nmc();
  const RunResult& gather();
  const RunResult& direct_gather();
  CaseResult parts(Config config, const RunResult& scatter, bool overlapped);
  CaseResult one(Config config);
  CaseResult copy_engine();

  const CasePlans& plans_;
  const Chip& chip_;
  int element_bytes_;
  std::optional<RunResult> gemm_, scatter_, scatter_nmc_, gather_, direct_gather_;
};

}  // namespace weft::sim
