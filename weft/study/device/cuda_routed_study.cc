#include "weft/study/device/cuda_routed_study.h"

#include <cmath>
#include <map>
#include <random>

#include "weft/base/error.h"
#include "weft/base/index.h"
#include "weft/study/device/cublaslt.h"
#include "weft/study/device/cuda_contest.h"
#include "weft/study/device/cuda_op.h"
#include "weft/study/device/cuda_trace.h"
#include "weft/study/device/routing.h"

namespace weft {
namespace {

constexpr const char* kOursThenComm = "our gemm, then the all_to_all";

class RoutedStudy {
 public:
  RoutedStudy(const OpSpec& spec, const DeviceStudyOptions& options);
  Measurement run();

 private:
  void draw(int round);
  std::vector<Counts> peer_counts() const;  // of the rows that were drawn
  void bind_counts();
  void pack();    // rows of x for all gemms, one peer's after the other's
  void spread();  // what our gemm made of them, to where the collective takes it
  void multiply_by_library();
  void tune_library();
  std::int64_t padded_rows(int rank) const { return ceil_div(drawn_.of_rank(rank, spec_.ranks), 128) * 128; }
  double error_of_made(const Places& places) const;  // in packed rows
  double error_of_sent(const CudaExecutor& executor) const;
  void check(const std::string& name, const std::function<void()>& run, const std::function<double()>& error);
  std::int64_t first_packed(int rank, int peer) const;
  std::int64_t rows_of(int rank, int peer) const { return drawn_.rows[num(rank * spec_.ranks + peer)]; }

  OpSpec spec_;
  std::int64_t capacity_;
  DeviceInputs inputs_;
  CudaExecutor fused_, kept_, moved_;
  std::vector<DeviceMemory> packed_, spread_, made_;  // x, outputs in both orders; the last by the library
  std::vector<CudaOperands> packed_operands_, spread_operands_;
  std::map<std::int64_t, CublasLtGemm> library_;  // by rows
  RoutedRows drawn_;
  std::int64_t rows_sent_ = 0;
  bool library_is_faster_ = false;
  DeviceStudyOptions options_;
  DeviceContest contest_;
  double worst_ = 0;
};

RoutedStudy::RoutedStudy(const OpSpec& spec, const DeviceStudyOptions& options)
    : spec_(spec),
      capacity_(capacity_of(*spec.routing, spec.ranks)),
      inputs_(spec),
      fused_(fused_plan(spec, Route::direct), {.link = options.link, .pace = options.pace}),
      kept_(kept_plan(spec, spec.producer.m), {}),
      moved_(fused_plan(moved_spec(spec), Route::direct), {.link = options.link, .pace = options.pace}),
      options_(options),
      contest_(options) {
  const Producer& p = spec.producer;
  for (int r = 0; r < spec.ranks; ++r) {
    const std::int64_t rows = ceil_div(p.m, 128) * 128;
    packed_.emplace_back(rows * p.k * 2);
    spread_.emplace_back(rows * p.n * 2);
    packed_operands_.push_back({packed_.back().data(), inputs_.operands()[at(r)].w});
    spread_operands_.push_back({spread_.back().data()});
    if (CublasLtGemm::is_installed()) made_.emplace_back(rows * p.n * 2);
  }
  draw(0);
  const auto ours = [this] { kept_.start(packed_operands_); };
  const auto theirs = [this] { multiply_by_library(); };
  const auto comm = [this] { moved_.start(spread_operands_); };
  const auto fused = [this] { fused_.start(inputs_.operands()); };
  library_is_faster_ = !made_.empty() && least_us(theirs) < least_us(ours);
  const auto then = [comm](const std::function<void()>& gemm) { return [=] { gemm(), comm(); }; };
  const auto sent = [this] { return error_of_sent(moved_); };
  check("fused", fused, [this] { return error_of_sent(fused_); });
  check("compute", ours, [this] { return error_of_made(places_of(kept_)); });
  const std::int64_t n = p.n;
  if (!made_.empty())
    check("library", theirs, [this, n] {
      return error_of_made([this, n](int rank, std::int64_t row, std::int64_t col) {
        return made_[at(rank)].data() + (row * n + col) * 2;
      });
    });
  check("comm", comm, sent);
  check("sequential", library_is_faster_ ? then(theirs) : then(ours), sent);
  check(kOursThenComm, then(ours), sent);
  contest_.add({"again", fused});
}

void RoutedStudy::check(const std::string& name, const std::function<void()>& run,
                        const std::function<double()>& error) {
  run();
  for (CudaExecutor* one : {&fused_, &kept_, &moved_}) one->finish();
  worst_ = require_right(spec_, name, error(), kDeviceTolerance, worst_);
  contest_.add({name, run});
}

// Nothing of it is timed.
void RoutedStudy::draw(int round) {
  drawn_ = drawn_rows(*spec_.routing, spec_.ranks, num(round));
  bind_counts();
  pack();
  kept_.start(packed_operands_);
  spread();
  tune_library();
}

std::vector<Counts> RoutedStudy::peer_counts() const {
  std::vector<Counts> out(num(spec_.ranks));
  for (int r = 0; r < spec_.ranks; ++r)
    out[at(r)].peers = std::span(drawn_.rows).subspan(num(r * spec_.ranks), num(spec_.ranks));
  return out;
}

void RoutedStudy::bind_counts() {
  const std::vector<Counts> peers = peer_counts();
  std::vector<Counts> rows(num(spec_.ranks));
  for (int r = 0; r < spec_.ranks; ++r) {
    rows[at(r)].rows = drawn_.of_rank(r, spec_.ranks);
    for (int s = 0; s < spec_.ranks; ++s) rows_sent_ += r == s ? 0 : rows_of(r, s);
  }
  fused_.limit(peers), moved_.limit(peers), kept_.limit(rows);
}

std::int64_t RoutedStudy::first_packed(int rank, int peer) const {
  std::int64_t first = 0;
  for (int s = 0; s < peer; ++s) first += rows_of(rank, s);
  return first;
}

void RoutedStudy::pack() {
  const std::int64_t row_bytes = spec_.producer.k * 2;
  for (int r = 0; r < spec_.ranks; ++r)
    for (int s = 0; s < spec_.ranks; ++s)
      copy_on_device(packed_[at(r)].data() + first_packed(r, s) * row_bytes, inputs_.x(r) + s * capacity_ * row_bytes,
                     rows_of(r, s) * row_bytes);
}

void RoutedStudy::spread() {
  const std::int64_t row_bytes = spec_.producer.n * 2;
  for (int r = 0; r < spec_.ranks; ++r)
    for (int s = 0; s < spec_.ranks; ++s)
      copy_on_device(spread_[at(r)].data() + s * capacity_ * row_bytes,
                     kept_.output(r) + first_packed(r, s) * row_bytes, rows_of(r, s) * row_bytes);
}

void RoutedStudy::tune_library() {
  const Producer& p = spec_.producer;
  for (int r = 0; r < spec_.ranks && !made_.empty(); ++r) {
    const std::int64_t rows = padded_rows(r);
    if (rows == 0 || library_.contains(rows)) continue;
    const auto [found, added] = library_.try_emplace(rows, rows, p.n, p.k, WeightLayout::nk);
    found->second.tune(packed_[at(r)].data(), packed_operands_[at(r)].w, made_[at(r)].data());
  }
}

void RoutedStudy::multiply_by_library() {
  for (int r = 0; r < spec_.ranks; ++r)
    if (const auto found = library_.find(padded_rows(r)); found != library_.end())
      found->second.run(packed_[at(r)].data(), packed_operands_[at(r)].w, made_[at(r)].data());
}

// ||found - expected|| / ||expected|| at random places, against float64: of what each rank made for each.
class RandomPlaces {
 public:
  std::int64_t below(std::int64_t limit) { return static_cast<std::int64_t>(random_() % num(limit)); }
  void add(const std::byte* place, double expected) {
    bf16 found;
    download(place, &found, 2);
    const double difference = to_float(found) - expected;
    wrong_ += std::isnan(difference) ? INFINITY : difference * difference;
    all_ += expected * expected;
  }
  double error() const { return std::sqrt(wrong_ / std::max(all_, 1e-30)); }

 private:
  std::mt19937_64 random_{7};
  double wrong_ = 0, all_ = 0;
};

double RoutedStudy::error_of_made(const Places& places) const {
  RandomPlaces tried;
  for (int r = 0; r < spec_.ranks; ++r)
    for (int s = 0; s < spec_.ranks; ++s)
      for (int i = 0; i < 4 && rows_of(r, s) > 0; ++i) {
        const std::int64_t row = tried.below(rows_of(r, s)), col = tried.below(spec_.producer.n);
        tried.add(places(r, first_packed(r, s) + row, col), inputs_.leaf_at(r, s * capacity_ + row, col));
      }
  return tried.error();
}

double RoutedStudy::error_of_sent(const CudaExecutor& executor) const {
  RandomPlaces tried;
  const Places places = places_of(executor);
  for (int r = 0; r < spec_.ranks; ++r)
    for (int s = 0; s < spec_.ranks; ++s)
      for (int i = 0; i < 4 && rows_of(r, s) > 0; ++i) {
        // The last row is one of them: it lies in the tile that the count cuts.
        const std::int64_t row = i == 0 ? rows_of(r, s) - 1 : tried.below(rows_of(r, s));
        const std::int64_t col = tried.below(spec_.producer.n);
        tried.add(places(s, r * capacity_ + row, col), inputs_.leaf_at(r, s * capacity_ + row, col));
      }
  return tried.error();
}

Measurement RoutedStudy::run() {
  rows_sent_ = 0;
  contest_.run([this](int round) { draw(round + 1); });
  fused_.start(inputs_.operands());
  for (CudaExecutor* one : {&fused_, &kept_, &moved_}) one->finish();
  worst_ = require_right(spec_, "fused", error_of_sent(fused_), kDeviceTolerance, worst_);
  Measurement out = contest_.measured(fused_.plan(), worst_);
  out.comm_route = to_string(Route::direct);
  out.sequential_gemm = library_is_faster_ ? "cublaslt" : "weft";
  out.others_us[kOursThenComm] = *contest_.median_us(kOursThenComm);
  out.bytes_sent = rows_sent_ / out.rounds * spec_.producer.n * 2;
  if (!options_.trace.empty())
    out.traced = trace_run(fused_, {.link = options_.link, .pace = options_.pace}, inputs_.operands(), peer_counts(),
                           options_.trace);
  return out;
}

}  // namespace

Measurement measure_routed(const OpSpec& spec, const DeviceStudyOptions& options) {
  return RoutedStudy(spec, options).run();
}

}  // namespace weft
