// The contest of device_study.h, where the build has CUDA (no_cuda.cc where it has not).
#include <limits>

#include "weft/base/error.h"
#include "weft/base/index.h"
#include "weft/exec/cuda/pull.h"
#include "weft/exec/cuda/window/window_map.h"
#include "weft/study/device/cublaslt.h"
#include "weft/study/device/cuda_bag_study.h"
#include "weft/study/device/cuda_contest.h"
#include "weft/study/device/cuda_gemv_study.h"
#include "weft/study/device/cuda_op.h"
#include "weft/study/device/cuda_panels.h"
#include "weft/study/device/cuda_routed_study.h"
#include "weft/study/device/cuda_trace.h"
#include "weft/study/device/cuda_tracked.h"
#include "weft/study/device/device_prediction.h"

namespace weft {
namespace {

constexpr const char* kWindow = "unmodified cuBLASLt through windows";
constexpr const char* kTracked = "unmodified cuBLASLt in panels, copy engines";
constexpr const char* kKernel = "kernel of fused, with its waits";
constexpr int kPanels[] = {2, 4, 8}, kPanelClusters[] = {2, 4, 6};  // of 16 that each of four ranks has
constexpr int kTrackedPanels[] = {8, 16, 32};

class CudaStudy {
 public:
  CudaStudy(const OpSpec& spec, const DeviceStudyOptions& options);
  Measurement run();

 private:
  std::unique_ptr<CudaExecutor> fastest(const OpSpec& spec, const std::vector<CudaOperands>& in) const;
  void add_gemms();
  void add_collective();
  void add_sequential();
  void add_panels();
  void add_window();
  void add_tracked();
  void add_kernel();
  // `places`: where its result is looked at; none: nowhere. `made`: it is that of compute alone.
  void add(const std::string& name, const std::function<void()>& run, const Places& places, bool made = false);
  std::vector<CudaOperands> made_by_library() const;
  CudaOptions link_options() const { return {.link = options_.link, .pace = options_.pace}; }

  OpSpec spec_;
  DeviceStudyOptions options_;
  DeviceInputs inputs_;
  std::unique_ptr<CudaExecutor> fused_, kept_, moved_;
  std::unique_ptr<CublasLtGemm> library_;
  std::vector<DeviceMemory> made_;               // by the library
  std::unique_ptr<DeviceReduceScatter> pulled_;  // instead of moved_, where that is faster
  std::unique_ptr<CudaPanels> panels_;
  std::unique_ptr<MappedWindows> windows_;
  std::unique_ptr<CudaTracked> tracked_;
  bool library_is_faster_ = false;
  DeviceContest contest_;
  Places library_places_;
  double worst_ = 0;
};

CudaStudy::CudaStudy(const OpSpec& spec, const DeviceStudyOptions& options)
    : spec_(spec), options_(options), inputs_(spec), fused_(fastest(spec, inputs_.operands())), contest_(options) {
  const auto fused = [this] { fused_->start(inputs_.operands()); };
  add("fused", fused, places_of(*fused_), spec.space.kind == SpaceKind::keep);
  if (!spec.alone()) add_gemms();
  if (has_collective(spec)) add_collective(), add_sequential(), add_panels(), add_window(), add_tracked(), add_kernel();
  add("again", fused, {});
}

// Every way, each a few times.
std::unique_ptr<CudaExecutor> CudaStudy::fastest(const OpSpec& spec, const std::vector<CudaOperands>& in) const {
  std::unique_ptr<CudaExecutor> best;
  double least = std::numeric_limits<double>::infinity();
  for (const CudaWay& way : device_ways(spec)) {
    CudaOptions options = link_options();
    options.order = way.order;
    auto tried = std::make_unique<CudaExecutor>(fused_plan(spec, way.route), options);
    const double us = least_us([&] { tried->start(in); });
    tried->finish();
    if (us < least) least = us, best = std::move(tried);
  }
  return best;
}

std::vector<CudaOperands> CudaStudy::made_by_library() const {
  std::vector<CudaOperands> out;
  for (int r = 0; r < spec_.ranks; ++r) out.push_back({library_is_faster_ ? made_[at(r)].data() : kept_->output(r)});
  return out;
}

// Rows that are gathered stand in moved_'s output, so that is made first.
void CudaStudy::add_gemms() {
  const Producer& p = spec_.producer;
  const std::int64_t rows = p.m * (spec_.gathers ? spec_.ranks : 1);
  if (spec_.gathers) moved_ = fastest(moved_spec(spec_), inputs_.operands()), moved_->start(inputs_.operands());
  const auto operands = [this] {
    std::vector<CudaOperands> in = inputs_.operands();
    for (int r = 0; spec_.gathers && r < spec_.ranks; ++r) in[at(r)].x = moved_->output(r);
    return in;
  };
  kept_ = std::make_unique<CudaExecutor>(kept_plan(spec_, rows), CudaOptions{});
  const auto compute = [this, operands] { kept_->start(operands()); };
  add("compute", compute, places_of(*kept_), true);
  if (!CublasLtGemm::is_installed()) return;
  library_ = std::make_unique<CublasLtGemm>(rows, p.n, p.k, WeightLayout::nk);
  for (int r = 0; r < spec_.ranks; ++r) made_.emplace_back(rows * p.n * 2);
  library_->tune(operands()[0].x, operands()[0].w, made_[0].data());
  const auto library = [this, operands] {
    const auto in = operands();
    for (std::size_t r = 0; r < made_.size(); ++r) library_->run(in[r].x, in[r].w, made_[r].data());
  };
  const std::int64_t n = p.n;
  library_places_ = [this, n](int rank, std::int64_t row, std::int64_t col) {
    return made_[at(rank)].data() + (row * n + col) * 2;
  };
  add("library", library, library_places_, true);
  library_is_faster_ = least_us(library) < least_us(compute);
}

void CudaStudy::add_collective() {
  if (spec_.gathers) {
    add("comm", [this] { moved_->start(inputs_.operands()); }, {});
    return;
  }
  moved_ = fastest(moved_spec(spec_), made_by_library());
  const SpaceKind kind = spec_.space.kind;
  const Producer& p = spec_.producer;
  if (!options_.pace && options_.link == CudaLink::hbm &&
      (kind == SpaceKind::reduce_scatter || kind == SpaceKind::all_reduce) && p.m % spec_.ranks == 0) {
    std::vector<const void*> partial;
    for (const CudaOperands& one : made_by_library()) partial.push_back(one.x);
    const SumTo to = kind == SpaceKind::all_reduce ? SumTo::everybody : SumTo::owners;
    pulled_ = std::make_unique<DeviceReduceScatter>(partial, p.m, p.n, to);
    if (least_us([&] { pulled_->direct(); }) >= least_us([&] { moved_->start(made_by_library()); })) pulled_.reset();
  }
  add("comm", [this] { pulled_ ? pulled_->direct() : moved_->start(made_by_library()); }, {});
}

void CudaStudy::add_sequential() {
  const auto gemm = contest_.at_name(library_is_faster_ ? "library" : "compute").run;
  const auto comm = contest_.at_name("comm").run;
  const std::int64_t n = spec_.producer.n;
  const Places pulled = [this, n](int rank, std::int64_t row, std::int64_t col) {
    return static_cast<const std::byte*>(pulled_->output(rank)) + (row * n + col) * 2;
  };
  if (spec_.gathers)
    add(
        "sequential", [=] { comm(), gemm(); }, library_is_faster_ ? library_places_ : places_of(*kept_), true);
  else
    add(
        "sequential", [=] { gemm(), comm(); }, pulled_ ? pulled : places_of(*moved_));
}

void CudaStudy::add_panels() {
  double least = std::numeric_limits<double>::infinity();
  for (const int panels : kPanels) {
    if (!CudaPanels::fit(spec_, panels)) continue;
    for (const int clusters : kPanelClusters) {
      auto tried = std::make_unique<CudaPanels>(spec_, inputs_, link_options(), panels, clusters);
      const double us = least_us([&] { tried->run(); });
      if (us < least) least = us, panels_ = std::move(tried);
    }
  }
  if (panels_)
    add(
        "panels", [this] { panels_->run(); }, panels_->places());
}

// Whether a contestant can be made: some take plans of some shapes alone.
bool can(const std::function<void()>& make) {
  try {
    make();
    return true;
  } catch (const Error& error) {
    if (error.code() != Code::bad_input) throw;
    return false;
  }
}

// Unmodified cuBLASLt, whose output's pages are its receivers': where the plan is stores alone, and in whole pages.
void CudaStudy::add_window() {
  if (!library_ || options_.pace || options_.link != CudaLink::hbm || spec_.space.kind != SpaceKind::all_to_all) return;
  if (!can([&] { windows_ = std::make_unique<MappedWindows>(fused_plan(spec_, Route::direct)); })) return;
  const auto run = [this] {
    const auto& in = inputs_.operands();
    for (int r = 0; r < spec_.ranks; ++r) library_->run(in[at(r)].x, in[at(r)].w, windows_->window(r));
  };
  const std::int64_t n = spec_.producer.n;
  add(kWindow, run,
      [this, n](int rank, std::int64_t row, std::int64_t col) { return windows_->output(rank) + (row * n + col) * 2; });
}

// The same over pcie, where its rows go by copy engines.
void CudaStudy::add_tracked() {
  if (!library_ || options_.link != CudaLink::pcie || spec_.space.kind != SpaceKind::all_to_all) return;
  double least = std::numeric_limits<double>::infinity();
  for (const int panels : kTrackedPanels) {
    std::unique_ptr<CudaTracked> tried;
    if (!can([&] { tried = std::make_unique<CudaTracked>(spec_, inputs_, panels); })) return;
    const double us = least_us([&] { tried->run(); });
    if (us < least) least = us, tracked_ = std::move(tried);
  }
  add(
      kTracked, [this] { tracked_->run(); }, tracked_->places());
}

// The fused kernel from its beginning to its end, which is when all that its rank is owed has come: so no measure of
// how much copies slow its products. A timeline shows when those end.
void CudaStudy::add_kernel() {
  if (options_.link != CudaLink::pcie) return;
  contest_.add({.name = kKernel,
                .run = [this] { fused_->start(inputs_.operands()); },
                .us = [this] { return fused_->kernel_us(); }});
}

void CudaStudy::add(const std::string& name, const std::function<void()>& run, const Places& places, bool made) {
  contest_.add({name, run});
  if (!places) return;
  run();
  fused_->finish();
  worst_ = require_right(spec_, name, inputs_.error_of(places, made), kDeviceTolerance, worst_);
}

Measurement CudaStudy::run() {
  contest_.run();
  for (CudaExecutor* one : {fused_.get(), kept_.get(), moved_.get()})
    if (one != nullptr) one->finish();
  Measurement out = contest_.measured(fused_->plan(), worst_);
  if (has_collective(spec_)) out.comm_route = pulled_ ? "pull" : to_string(*moved_->plan().route);
  out.sequential_gemm = library_is_faster_ ? "cublaslt" : "weft";
  out.predicted = predict_on_device(
      {&fused_->plan(), kept_ ? &kept_->plan() : nullptr, moved_ ? &moved_->plan() : nullptr}, options_);
  for (const char* other : {kWindow, kTracked, kKernel})
    if (const auto us = contest_.median_us(other)) out.others_us[other] = *us;
  out.panels = panels_ ? panels_->count() : 0;
  if (!options_.trace.empty()) out.traced = trace_run(*fused_, link_options(), inputs_.operands(), {}, options_.trace);
  if (spec_.alone() && spec_.ranks > 1) out.comm_us = out.fused_us, out.comm_cpu_us = 0;
  return out;
}

}  // namespace

std::string device_name() {
  const auto facts = device_facts();
  return facts ? facts->name : "";
}

std::string why_no_device() { return device_facts() ? "" : "there is no NVIDIA GPU here, or no driver for it"; }

Measurement measure_on_device(const OpSpec& spec, const DeviceStudyOptions& options) {
  if (!options.trace.empty()) check_device_trace(spec);
  if (!device_facts()) bad_input("--device cuda: {}; leave it out to measure on CPUs", why_no_device());
  if (spec.routing) return measure_routed(spec, options);
  if (is_device_gemv(spec)) return measure_gemv(spec, options);
  if (spec.producer.kind == ProducerKind::embedding_bag) return measure_bags(spec, options);
  return CudaStudy(spec, options).run();
}

}  // namespace weft
