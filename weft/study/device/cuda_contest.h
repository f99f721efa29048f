// The one loop of rounds on a GPU: contestants take turns, each after a pause of some milliseconds, so that each finds
// a cool GPU (device_study.h); and what every study of a GPU reports of them.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "weft/plan/plan.h"
#include "weft/study/device/device_study.h"

namespace weft {

struct DeviceContestant {
  std::string name;
  std::function<void()> run;          // what is timed: enqueues
  std::function<void()> before = {};  // enqueues, and is not timed: while it runs, the host enqueues the rest
  int runs = 1;                       // of the op, in `run`
  std::function<double()> us = {};    // asked when `run` has ended; none: all of it counts
};

class DeviceContest {
 public:
  explicit DeviceContest(const DeviceStudyOptions& options) : options_(options) {}

  void add(DeviceContestant one) { turns_.push_back({std::move(one), {}}); }
  const DeviceContestant& at_name(const std::string& name) const;

  // Who begins changes from round to round. `refresh` is called before each. Where there is "fused" and "sequential",
  // each is tried some times first, and "auto" is the faster of them: what a program that asks for neither would run.
  void run(const std::function<void(int round)>& refresh = {});

  const std::string& chosen() const { return chosen_; }  // by auto; empty: there was no choice

  std::optional<double> median_us(const std::string& name) const;  // none where there is no such contestant
  // By the names fused, again, compute, library, comm, sequential and panels; of what `plan` moves. Without "fused",
  // compute is what was measured.
  Measurement measured(const Plan& plan, double max_rel_err) const;

 private:
  double tried_us(const DeviceContestant& one) const;
  void choose();
  bool has(const std::string& name) const;

  struct Turns {
    DeviceContestant one;
    std::vector<double> us;
  };
  DeviceStudyOptions options_;
  std::vector<Turns> turns_;
  std::string chosen_;
};

// Throws internal where a contestant's error is above the tolerance. Returns the larger of it and `worst`.
double require_right(const OpSpec& spec, const std::string& name, double error, double tolerance, double worst);

}  // namespace weft
