#include "weft/study/paired.h"

#include <algorithm>
#include <cmath>

#include "weft/base/error.h"
#include "weft/base/index.h"
#include "weft/base/statistics.h"
#include "weft/study/contest.h"
#include "weft/study/trial.h"
#include "weft/world/world.h"

namespace weft {
namespace {

constexpr std::int64_t kTerms = 200'000;

class Blocks {
 public:
  Blocks(World& world, const OpSpec& spec, int block)
      : world_(world),
        spec_(spec),
        block_(block),
        clock_(world),
        inputs_(spec, world.rank()),
        fused_(compile(world, spec)),
        producer_(compile(world, producer_alone(spec, world.rank()))),
        reference_(spec),
        mpi_(load_mpi()),
        count_(spec.producer.m * spec.producer.n),
        ones_(num(count_), 1.0f),
        sums_(num(count_)),
        gathered_(num(spec.gathers ? spec.producer.m * spec.producer.k * spec.ranks : 0), 0.5f) {}

  void refresh(std::uint64_t round) { inputs_.refresh(round); }
  bool has_mpi() const { return mpi_ != nullptr; }

  double fused_us(std::uint64_t round) {
    Matrix y;
    const double us = timed([&] {
      fused_.run(inputs_.next());
      y = fused_.output();
    });
    check(y, round);
    return us;
  }
  double compute_us() {
    return timed([&] {
      Inputs in = inputs_.next();
      if (!gathered_.empty()) in.x = gathered_.data();
      producer_.run(in);
      producer_.output();
    });
  }
  double mpi_us() {
    return timed([&] { mpi_->all_reduce(ones_.data(), sums_.data(), count_); });
  }
  double max_error() const { return max_error_; }

 private:
  template <typename Run>
  double timed(const Run& run) {
    const std::int64_t ns = time_together_ns(clock_, [&] {
      for (int i = 0; i < block_; ++i) run();
    });
    return static_cast<double>(ns) * 1e-3 / block_;
  }

  // Of the block's last run: all of them had the same inputs.
  void check(const Matrix& y, std::uint64_t round) {
    const double error = reference_.error_of(y, Expect::op, round, world_.rank(), kTerms);
    max_error_ = std::max(max_error_, error);
    if (error > reference_.tolerance())
      throw Error(Code::internal,
                  fmt::format("{} run back to back gives a wrong result on rank {}: off by {:.2g}, where "
                              "rounding explains {:.2g}; a wrong result has no time",
                              spec_.name, world_.rank(), error, reference_.tolerance()));
  }

  World& world_;
  const OpSpec& spec_;
  int block_;
  CommonClock clock_;
  RankInputs inputs_;
  Op fused_, producer_;
  Reference reference_;
  baseline::Mpi* mpi_;
  std::int64_t count_;
  std::vector<float> ones_, sums_;
  std::vector<float> gathered_;  // rows of all ranks, as the producer alone finds them; empty where none are gathered
  double max_error_ = 0;
};

}  // namespace

Paired measure_paired(World& world, const OpSpec& spec, const PairedOptions& options) {
  const int block = std::clamp(options.block, 1, options.runs), blocks = options.runs / block;
  Blocks all(world, spec, block);
  std::vector<double> fused, again, compute, extra, mpi;
  for (int b = 0; b <= blocks; ++b) {
    const auto round = static_cast<std::uint64_t>(b);
    all.refresh(round);
    const double first = all.fused_us(round), made = all.compute_us();
    const double reduced = all.has_mpi() ? all.mpi_us() : 0;
    const double second = all.fused_us(round);
    if (b == 0) continue;  // touches new memory
    fused.push_back(b % 2 == 0 ? first : second);
    again.push_back(b % 2 == 0 ? second : first);
    compute.push_back(made);
    extra.push_back((first + second) / 2 - made);
    mpi.push_back(reduced);
  }
  Paired out;
  out.fused_us = median(fused);
  out.compute_us = median(compute);
  out.extra_us = median(extra);
  out.aa_band = std::abs(out.fused_us / median(again) - 1);
  if (all.has_mpi()) {
    out.mpi_allreduce_us = median(mpi);
    out.ratio = out.extra_us / *out.mpi_allreduce_us;
  }
  out.max_rel_err = all.max_error();
  out.runs = blocks * block;
  return out;
}

}  // namespace weft
