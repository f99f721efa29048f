#include "weft/study/device/cuda_gemv_study.h"

#include <algorithm>
#include <limits>

#include "weft/base/error.h"
#include "weft/base/index.h"
#include "weft/exec/cuda/pull.h"
#include "weft/exec/cuda/small/gemv_executor.h"
#include "weft/study/device/cublaslt.h"
#include "weft/study/device/cuda_contest.h"
#include "weft/study/device/cuda_op.h"

namespace weft {
namespace {

constexpr double kRotatedCaches = 5;  // weights in a graph, in sizes of L2

using Launches = std::function<void(const std::vector<CudaOperands>&)>;

class GemvStudy {
 public:
  GemvStudy(const OpSpec& spec, const DeviceStudyOptions& options);
  Measurement run();

 private:
  using Gemvs = std::vector<std::unique_ptr<CudaGemv>>;
  // The same launches with kernels that begin after those before, or while they run: what is faster.
  void add(const std::string& name, const std::function<Launches(Launch)>& make, const Places& places, bool made);
  void add_kept(const std::string& name, const Launches& launches, const Places& places, bool made);
  void check(const std::string& name, const Launches& launches, const Places& places, bool made);
  std::shared_ptr<DeviceGraph> graph_of(const Launches& launches) const;
  void add_graph(const std::string& name, std::shared_ptr<DeviceGraph> graph);
  CudaGemv* keep_alive(const Plan& plan, Launch launch);
  Plan moved_plan() const;
  Places last_places() const;
  void add_ours();
  void add_sequential(const Plan& kept);
  void add_library();

  OpSpec spec_;
  DeviceStudyOptions options_;
  DeviceInputs inputs_;
  std::vector<DeviceMemory> weights_;
  std::vector<std::vector<CudaOperands>> sets_;
  Gemvs gemvs_;
  CudaGemv* last_ = nullptr;  // whose output is looked at
  std::vector<std::unique_ptr<CublasLtGemm>> library_;
  std::vector<std::unique_ptr<DeviceQueue>> branches_;
  std::vector<DeviceMemory> made_;
  DeviceContest contest_;
  double worst_ = 0;
};

GemvStudy::GemvStudy(const OpSpec& spec, const DeviceStudyOptions& options)
    : spec_(spec), options_(options), inputs_(spec), contest_(options) {
  const Producer& p = spec.producer;
  sets_.push_back(inputs_.operands());
  const double bytes = static_cast<double>(p.n * p.k * 2 * spec.ranks);
  const double rotated = kRotatedCaches * static_cast<double>(device_facts()->l2_bytes);
  const int sets = std::max(2, static_cast<int>(rotated / bytes) + 1);
  for (int s = 1; s < sets; ++s) {
    auto& operands = sets_.emplace_back(inputs_.operands());
    for (CudaOperands& one : operands) {
      fill_random(weights_.emplace_back(p.n * p.k * 2), 1000 + static_cast<std::uint32_t>(weights_.size()),
                  device_queue());
      one.w = weights_.back().data();
    }
  }
  add_ours();
  if (CublasLtGemm::is_installed()) add_library();
}

CudaGemv* GemvStudy::keep_alive(const Plan& plan, Launch launch) {
  return gemvs_.emplace_back(std::make_unique<CudaGemv>(plan, CudaGemvOptions{.launch = launch})).get();
}

Plan GemvStudy::moved_plan() const {
  OpSpec moved = collective_alone(spec_);
  Producer& p = moved.producer;
  p.input = p.output = Dtype::bf16;
  p.tile = {p.m, kGemvCols};
  return fused_plan(moved, Route::one_shot);
}

// A graph of one run per set of weights.
std::shared_ptr<DeviceGraph> GemvStudy::graph_of(const Launches& launches) const {
  return std::make_shared<DeviceGraph>([&] {
    for (const auto& operands : sets_) launches(operands);
  });
}

void GemvStudy::add_graph(const std::string& name, std::shared_ptr<DeviceGraph> graph) {
  const auto launch = [graph = std::move(graph)] { graph->launch(); };
  contest_.add({name, launch, launch, int_size(sets_)});
}

void GemvStudy::check(const std::string& name, const Launches& launches, const Places& places, bool made) {
  launches(sets_[0]);
  for (const auto& one : gemvs_) one->finish();
  worst_ = require_right(spec_, name, places ? inputs_.error_of(places, made) : 0, kDeviceTolerance, worst_);
}

void GemvStudy::add_kept(const std::string& name, const Launches& launches, const Places& places, bool made) {
  check(name, launches, places, made);
  add_graph(name, graph_of(launches));
}

void GemvStudy::add(const std::string& name, const std::function<Launches(Launch)>& make, const Places& places,
                    bool made) {
  std::shared_ptr<DeviceGraph> best;
  double least = std::numeric_limits<double>::infinity();
  for (const Launch launch : {Launch::after, Launch::dependent}) {
    const Launches launches = make(launch);
    check(name, launches, places, made);
    auto graph = graph_of(launches);
    if (const double us = least_us([&] { graph->launch(); }); us < least) least = us, best = std::move(graph);
  }
  add_graph(name, std::move(best));
}

Places GemvStudy::last_places() const {
  const std::int64_t n = spec_.producer.n;
  return [this, n](int rank, std::int64_t row, std::int64_t col) { return last_->output(rank) + (row * n + col) * 2; };
}

void GemvStudy::add_ours() {
  const auto one = [&](const Plan& plan) {
    return [this, plan](Launch launch) -> Launches {
      CudaGemv* gemv = last_ = keep_alive(plan, launch);
      return [gemv](const std::vector<CudaOperands>& in) { gemv->start(in); };
    };
  };
  const Plan kept = kept_plan(spec_, spec_.producer.m);
  const bool shared = has_collective(spec_);
  const Plan fused = shared ? fused_plan(spec_, Route::one_shot) : kept;
  add("fused", one(fused), last_places(), !shared);
  add("again", one(fused), last_places(), !shared);
  add("compute", one(kept), last_places(), true);
  if (shared) add_sequential(kept);
}

void GemvStudy::add_sequential(const Plan& kept) {
  const auto outputs = [this](const CudaGemv& gemv) {
    std::vector<CudaOperands> out;
    for (int r = 0; r < spec_.ranks; ++r) out.push_back({gemv.output(r)});
    return out;
  };
  const auto both = [&](Launch launch) -> Launches {
    CudaGemv *gemv = keep_alive(kept, launch), *moved = last_ = keep_alive(moved_plan(), launch);
    return [gemv, moved, partial = outputs(*gemv)](const std::vector<CudaOperands>& in) {
      gemv->start(in);
      moved->start(partial);
    };
  };
  add("sequential", both, last_places(), false);
  const auto comm = [&](Launch launch) -> Launches {
    CudaGemv* moved = keep_alive(moved_plan(), launch);
    return [moved, partial = outputs(*gemvs_.front())](const std::vector<CudaOperands>&) { moved->start(partial); };
  };
  add("comm", comm, {}, false);
}

// All ranks at once, a queue each, as a graph shows them.
void GemvStudy::add_library() {
  const Producer& p = spec_.producer;
  for (int r = 0; r < spec_.ranks; ++r) {
    made_.emplace_back(p.m * p.n * 2);
    library_.push_back(std::make_unique<CublasLtGemm>(p.m, p.n, p.k, WeightLayout::nk));
    library_.back()->tune(sets_[0][at(r)].x, sets_[0][at(r)].w, made_.back().data());
    branches_.push_back(std::make_unique<DeviceQueue>());
  }
  const Launches multiply = [this](const std::vector<CudaOperands>& in) {
    for (int r = 0; r < spec_.ranks; ++r) {
      void* queue = r == 0 ? device_queue() : branches_[at(r)]->handle();
      if (r > 0) follow(queue, device_queue());
      library_[at(r)]->run(in[at(r)].x, in[at(r)].w, made_[at(r)].data(), queue);
    }
    for (int r = 1; r < spec_.ranks; ++r) follow(device_queue(), branches_[at(r)]->handle());
  };
  const std::int64_t n = p.n;
  const Places made = [this, n](int rank, std::int64_t row, std::int64_t col) {
    return made_[at(rank)].data() + (row * n + col) * 2;
  };
  add_kept("library", multiply, made, true);
  if (!has_collective(spec_)) return;
  CudaGemv* moved = keep_alive(moved_plan(), Launch::after);
  std::vector<CudaOperands> partial;
  for (const DeviceMemory& one : made_) partial.push_back({one.data()});
  const Places summed = [moved, n](int rank, std::int64_t row, std::int64_t col) {
    return moved->output(rank) + (row * n + col) * 2;
  };
  add_kept(
      "library sequential",
      [=](const std::vector<CudaOperands>& in) {
        multiply(in);
        moved->start(partial);
      },
      summed, false);
}

Measurement GemvStudy::run() {
  contest_.run();
  for (const auto& one : gemvs_) one->finish();
  const Plan plan = has_collective(spec_) ? fused_plan(spec_, Route::one_shot) : kept_plan(spec_, spec_.producer.m);
  Measurement out = contest_.measured(plan, worst_);
  out.weights_rotate = true;
  if (out.comm_us) out.comm_route = to_string(Route::one_shot);
  const auto ours = out.sequential_us, theirs = contest_.median_us("library sequential");
  if (ours) out.sequential_gemm = "weft", out.others_us["our gemv, then one_shot"] = *ours;
  if (theirs) out.others_us["cuBLASLt, then one_shot"] = *theirs;
  if (theirs && *theirs < *ours) out.sequential_us = theirs, out.sequential_gemm = "cublaslt";
  return out;
}

}  // namespace

Measurement measure_gemv(const OpSpec& spec, const DeviceStudyOptions& options) {
  if (options.pace || options.link != CudaLink::hbm)
    bad_input("{} on a GPU is a matter of latency; measure it with --link hbm", spec.name);
  return GemvStudy(spec, options).run();
}

}  // namespace weft
