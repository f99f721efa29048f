#include "weft/study/device/cuda_contest.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <thread>
#include <utility>

#include "weft/base/error.h"
#include "weft/base/index.h"
#include "weft/base/statistics.h"
#include "weft/exec/cuda/device.h"
#include "weft/plan/price/traffic.h"

namespace weft {
namespace {

constexpr auto kCoolingPause = std::chrono::milliseconds(3);
constexpr int kAutoTrials = 4;

}  // namespace

const DeviceContestant& DeviceContest::at_name(const std::string& name) const {
  for (const Turns& turns : turns_)
    if (turns.one.name == name) return turns.one;
  fail(Code::internal, "there is no contestant \"{}\"", name);
}

// The least of some runs, each after the same pause as in the rounds.
double DeviceContest::tried_us(const DeviceContestant& one) const {
  DeviceTimer timer;
  double least = std::numeric_limits<double>::infinity();
  for (int turn = 0; turn < kAutoTrials; ++turn) {
    std::this_thread::sleep_for(kCoolingPause);
    if (one.before) one.before();
    timer.begin();
    one.run();
    least = std::min(least, timer.end_us());
  }
  return least;
}

void DeviceContest::choose() {
  if (!has("fused") || !has("sequential")) return;
  const DeviceContestant &fused = at_name("fused"), &sequential = at_name("sequential");
  const bool fuses = tried_us(fused) <= tried_us(sequential);
  DeviceContestant one = fuses ? fused : sequential;
  chosen_ = std::exchange(one.name, "auto");
  add(std::move(one));
}

void DeviceContest::run(const std::function<void(int round)>& refresh) {
  DeviceTimer timer;
  for (int round = 0; round < options_.rounds; ++round) {
    if (refresh) refresh(round);
    if (round == 0) choose();
    for (std::size_t i = 0; i < turns_.size(); ++i) {
      auto& [one, us] = turns_[(i + num(round)) % turns_.size()];
      std::this_thread::sleep_for(kCoolingPause);
      if (one.before) one.before();
      timer.begin();
      one.run();
      const double all_us = timer.end_us();
      us.push_back((one.us ? one.us() : all_us) / one.runs);
    }
    if (options_.progress) options_.progress(round + 1, options_.rounds);
  }
}

bool DeviceContest::has(const std::string& name) const {
  return std::any_of(turns_.begin(), turns_.end(), [&](const Turns& turns) { return turns.one.name == name; });
}

std::optional<double> DeviceContest::median_us(const std::string& name) const {
  for (const Turns& turns : turns_)
    if (turns.one.name == name) return median(turns.us);
  return {};
}

Measurement DeviceContest::measured(const Plan& plan, double max_rel_err) const {
  Measurement out;
  out.transport = "cuda";
  out.route = to_string(plan.route.value_or(Route::local));
  out.rounds = options_.rounds, out.max_rel_err = max_rel_err;
  out.compute_us = median_us("compute"), out.library_us = median_us("library"), out.comm_us = median_us("comm");
  if (out.library_us) out.library = "cublaslt";
  if (out.comm_us) out.comm_cpu_us = 0;  // no CPU moves anything
  out.sequential_us = median_us("sequential"), out.panels_us = median_us("panels");
  out.fused_us = median_us("fused").value_or(out.compute_us.value_or(0));
  out.auto_us = median_us("auto"), out.auto_style = chosen_;
  out.aa_band = std::abs(median_us("again").value_or(out.fused_us) / out.fused_us - 1);
  const PlanTraffic traffic = weft::traffic(plan);
  out.bytes_sent = traffic.total.bytes_to_peers, out.signals_sent = traffic.total.signals_to_peers;
  out.predicted.fused_us = std::numeric_limits<double>::quiet_NaN();  // predict_on_device says more
  return out;
}

double require_right(const OpSpec& spec, const std::string& name, double error, double tolerance, double worst) {
  if (!(error < tolerance))
    fail(Code::internal,
         "{} of {} gives a wrong result on the GPU: off by {:.2g} of the norm; a wrong result has no time", name,
         spec.name, error);
  return std::max(worst, error);
}

}  // namespace weft
