#include "weft/study/device/cuda_bag_study.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <list>
#include <map>
#include <random>

#include "weft/base/error.h"
#include "weft/base/index.h"
#include "weft/base/units.h"
#include "weft/collective/draft.h"
#include "weft/exec/cuda/device.h"
#include "weft/exec/cuda/pull.h"
#include "weft/exec/cuda/small/bag_executor.h"
#include "weft/study/device/cuda_contest.h"
#include "weft/study/device/cuda_op.h"

namespace weft {
namespace {

constexpr int kBagSets = 4;  // of indices, in turn: L2 keeps nothing of one until it comes again
constexpr double kBagTolerance = 1e-5;
constexpr std::int64_t kBagCopyBytes[] = {std::int64_t{2} << 20, std::int64_t{4} << 20,
                                          std::int64_t{8} << 20};  // small ones begin early, large ones start seldom
constexpr const char* kBesideLookups = "collective, beside lookups whose results stay";
constexpr int kBagLaneRows[] = {8, 16, kBagRows};  // a crossing waits for the last of its lanes

// All tables, and several sets of bags for them.
class BagsThere {
 public:
  explicit BagsThere(const OpSpec& spec) : spec_(spec), sets_(kBagSets) {
    for (int r = 0; r < spec.ranks; ++r) add_tables(r);
    for (int s = 0; s < kBagSets; ++s)
      for (int r = 0; r < spec.ranks; ++r) add_bags(s, r);
  }

  const std::vector<BagOperands>& operands(int set) const { return sets_[at(set)]; }

  // ||found - expected|| / ||expected|| at random places of the first set: (sample, column) of what rank `rank` made.
  using BagPlaces = std::function<const std::byte*(int rank, std::int64_t sample, std::int64_t col)>;
  double error_of(const BagPlaces& places) const {
    std::mt19937_64 random(7);
    double wrong = 0, all = 0;
    for (int i = 0; i < 200; ++i) {
      const int rank = static_cast<int>(random() % num(spec_.ranks));
      const std::int64_t dim = spec_.producer.dim, sample = static_cast<std::int64_t>(random() % num(spec_.producer.m));
      const std::int64_t col = static_cast<std::int64_t>(random() % num(spec_.producer.columns(rank)));
      const BagTable& bag = spec_.bags[at(rank)][at(col / dim)];
      double expected = 0;
      for (std::int64_t j = 0; j < bag.pooling; ++j) {
        float value = 0;
        const std::int64_t row = indices_[at(rank)][at(col / dim)][at(sample * bag.pooling + j)];
        download(tables_[at(rank)][at(col / dim)].data() + (row * dim + col % dim) * 4, &value, 4);
        expected += value;
      }
      if (spec_.producer.pooling == Pooling::mean) expected /= static_cast<double>(bag.pooling);
      float found = 0;
      download(places(rank, sample, col), &found, 4);
      const double difference = found - expected;
      wrong += std::isnan(difference) ? INFINITY : difference * difference;
      all += expected * expected;
    }
    return std::sqrt(wrong / std::max(all, 1e-30));
  }

 private:
  void add_tables(int rank) {
    auto& tables = tables_.emplace_back();
    for (const BagTable& bag : spec_.bags[at(rank)]) {
      tables.emplace_back(bag.rows * spec_.producer.dim * 4);
      fill_random_f32(tables.back().data(), bag.rows * spec_.producer.dim,
                      static_cast<std::uint32_t>(rank * 1000 + int_size(tables)), device_queue());
    }
  }

  void add_bags(int set, int rank) {
    std::mt19937_64 random(num(set * 100 + rank));
    auto& given = given_.emplace_back();
    if (set == 0) indices_.emplace_back();
    for (const BagTable& bag : spec_.bags[at(rank)]) {
      std::vector<std::int64_t> indices(num(spec_.producer.m * bag.pooling)), offsets;
      for (std::int64_t& index : indices) index = static_cast<std::int64_t>(random() % num(bag.rows));
      for (std::int64_t b = 0; b <= spec_.producer.m; ++b) offsets.push_back(b * bag.pooling);
      const auto there = [&](const std::vector<std::int64_t>& values) {
        return reinterpret_cast<const std::int64_t*>(kept_.emplace_back(on_device(values)).data());
      };
      given.push_back(
          {reinterpret_cast<const float*>(tables_[at(rank)][given.size()].data()), there(indices), there(offsets)});
      if (set == 0) indices_.back().push_back(std::move(indices));
    }
    sets_[at(set)].push_back({given});
  }

  OpSpec spec_;
  std::vector<std::vector<DeviceMemory>> tables_;
  std::vector<DeviceMemory> kept_;
  std::list<std::vector<CudaTable>> given_;                      // which operands point to
  std::vector<std::vector<std::vector<std::int64_t>>> indices_;  // of the first set, on the host
  std::vector<std::vector<BagOperands>> sets_;
};

class BagStudy {
 public:
  BagStudy(const OpSpec& spec, const DeviceStudyOptions& options);
  Measurement run();

 private:
  void add(const std::string& name, const std::function<void(int)>& run, const BagsThere::BagPlaces& places);
  void add_pull();
  void add_copies();
  std::unique_ptr<CudaBags> fastest(Sends sends);
  BagsThere::BagPlaces exchanged(std::function<const std::byte*(int)> outputs) const;
  bool crosses() const { return options_.link == CudaLink::pcie; }

  OpSpec spec_;
  DeviceStudyOptions options_;
  BagsThere there_;
  Plan plan_, kept_plan_;
  std::unique_ptr<CudaBags> fused_, kept_, after_;
  std::vector<DeviceMemory> pulled_;
  DeviceQueue beside_;
  DeviceTimer copies_;  // beside lookups
  DeviceContest contest_;
  std::map<std::string, double> sizes_us_;  // of fused, by what its copies carry
  double worst_ = 0;
};

BagStudy::BagStudy(const OpSpec& spec, const DeviceStudyOptions& options)
    : spec_(spec),
      options_(options),
      there_(spec),
      plan_(fused_plan(spec, Route::direct)),
      kept_plan_(build_keep(validated(spec.producer, spec.ranks), spec.ranks)),
      contest_(options) {
  kept_ = std::make_unique<CudaBags>(kept_plan_, CudaBagOptions{});
  const auto made = [this](int rank, std::int64_t sample, std::int64_t col) {
    return kept_->output(rank) + (sample * spec_.producer.columns(rank) + col) * 4;
  };
  add(
      "compute", [this](int set) { kept_->start(there_.operands(set)); }, made);
  if (!has_collective(spec)) return;
  fused_ = crosses() ? fastest(Sends::with_lanes) : std::make_unique<CudaBags>(plan_, CudaBagOptions{});
  const auto fused = [this](int set) { fused_->start(there_.operands(set)); };
  const auto places = exchanged([this](int rank) { return fused_->output(rank); });
  add("fused", fused, places);
  add("again", fused, places);
  crosses() ? add_copies() : add_pull();
}

std::vector<std::pair<int, std::int64_t>> copy_shapes() {
  std::vector<std::pair<int, std::int64_t>> out;
  for (const int rows : kBagLaneRows)
    for (const std::int64_t bytes : kBagCopyBytes) out.emplace_back(rows, bytes);
  return out;
}

// Each side with lanes and copies of the size that suits it.
std::unique_ptr<CudaBags> BagStudy::fastest(Sends sends) {
  std::unique_ptr<CudaBags> best;
  double least = std::numeric_limits<double>::infinity();
  for (const auto& [rows, bytes] : copy_shapes()) {
    OpSpec spec = spec_;
    spec.producer.tile[0] = rows;
    auto tried =
        std::make_unique<CudaBags>(fused_plan(spec, Route::direct),
                                   CudaBagOptions{.link = CudaLink::pcie, .sends = sends, .crossing_bytes = bytes});
    const double us = least_us([&] {
                        for (int set = 0; set < kBagSets; ++set) tried->start(there_.operands(set));
                      }) /
                      kBagSets;
    tried->finish();
    if (sends == Sends::with_lanes)
      sizes_us_[fmt::format("fused, {} samples a lane, in copies of {}", rows,
                            format_bytes(static_cast<double>(bytes)))] = us;
    if (us < least) least = us, best = std::move(tried);
  }
  return best;
}

void BagStudy::add_copies() {
  after_ = fastest(Sends::after_kernel);
  add(
      "sequential", [this](int set) { after_->start(there_.operands(set)); },
      exchanged([this](int rank) { return after_->output(rank); }));
  add("comm", [this](int) { after_->start_copies(); }, {});
  // The copies alone are timed, and lookups that end behind them are not left to whoever comes next.
  const auto both = [this](int set) {
    follow(beside_.handle(), device_queue());
    kept_->start(there_.operands(set), beside_.handle());
    after_->start_copies();
  };
  const auto lookups_end = [this] { follow(device_queue(), beside_.handle()); };
  contest_.add({.name = kBesideLookups,
                .run =
                    [=, this] {
                      copies_.begin();
                      for (int set = 1; set < kBagSets; ++set) both(set);
                      copies_.end();
                      lookups_end();
                    },
                .before = [=] { both(0), lookups_end(); },
                .runs = kBagSets - 1,
                .us = [this] { return copies_.us(); }});
}

// Where rank `rank`'s (sample, col) has gone: to the owner of the sample, beside what other ranks made.
BagsThere::BagPlaces BagStudy::exchanged(std::function<const std::byte*(int)> outputs) const {
  return [this, outputs](int rank, std::int64_t sample, std::int64_t col) {
    std::int64_t first = 0, width = 0;
    for (int r = 0; r < spec_.ranks; ++r) {
      first += r < rank ? spec_.producer.columns(r) : 0;
      width += spec_.producer.columns(r);
    }
    const std::int64_t mine = spec_.producer.m / spec_.ranks;
    return outputs(static_cast<int>(sample / mine)) + (sample % mine * width + first + col) * 4;
  };
}

void BagStudy::add_pull() {
  PullArguments pull{};
  pull.num_ranks = spec_.ranks, pull.samples = static_cast<std::int32_t>(spec_.producer.m / spec_.ranks);
  for (int r = 0; r < spec_.ranks; ++r)
    pull.first_col[r + 1] = pull.first_col[r] + static_cast<std::int32_t>(spec_.producer.columns(r));
  for (int r = 0; r < spec_.ranks; ++r) {
    pulled_.emplace_back(std::int64_t{pull.samples} * pull.first_col[spec_.ranks] * 4);
    pull.kept[r] = reinterpret_cast<const float*>(kept_->output(r));
    pull.outputs[r] = reinterpret_cast<float*>(pulled_.back().data());
  }
  const auto exchange = [pull] { pull_bags(pull, device_queue()); };
  const auto both = [this, exchange](int set) {
    kept_->start(there_.operands(set));
    exchange();
  };
  add("sequential", both, exchanged([this](int rank) { return pulled_[at(rank)].data(); }));
  add("comm", [exchange](int) { exchange(); }, {});
}

void BagStudy::add(const std::string& name, const std::function<void(int)>& run, const BagsThere::BagPlaces& places) {
  run(0);
  for (CudaBags* one : {kept_.get(), fused_.get(), after_.get()})
    if (one != nullptr) one->finish();
  worst_ = require_right(spec_, name, places ? there_.error_of(places) : 0, kBagTolerance, worst_);
  const auto some = [run] {
    for (int set = 1; set < kBagSets; ++set) run(set);
  };
  contest_.add({name, some, [run] { run(0); }, kBagSets - 1});
}

Measurement BagStudy::run() {
  contest_.run();
  for (CudaBags* one : {kept_.get(), fused_.get(), after_.get()})
    if (one != nullptr) one->finish();
  Measurement out = contest_.measured(has_collective(spec_) ? plan_ : kept_plan_, worst_);
  out.sequential_gemm = "weft";
  out.others_us = sizes_us_;
  if (const auto slowed = contest_.median_us(kBesideLookups)) out.others_us[kBesideLookups] = *slowed;
  if (out.comm_us) out.comm_route = crosses() ? "copy engines" : "pull";
  return out;
}

}  // namespace

Measurement measure_bags(const OpSpec& spec, const DeviceStudyOptions& options) {
  if (options.pace) bad_input("{} on a GPU has no paced links yet; use --link hbm or pcie", spec.name);
  if (spec.producer.m % spec.ranks != 0)
    bad_input("--batch is {}, which {} ranks cannot share; give a multiple of {}", spec.producer.m, spec.ranks,
              spec.ranks);
  return BagStudy(spec, options).run();
}

}  // namespace weft
