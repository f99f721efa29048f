#include "weft/study/paired.h"

#include <algorithm>
#include <cmath>

#include "weft/base/error.h"
#include "weft/base/index.h"
#include "weft/base/statistics.h"
#include "weft/study/contest.h"
#include "weft/study/rounds.h"
#include "weft/world/world.h"

namespace weft {
namespace {

constexpr std::int64_t kTerms = 200'000;

// The ops of one comparison, each run many times in a turn. All runs of a round have the same inputs, so the last one's
// result is checked for all.
class Blocks {
 public:
  Blocks(World& world, const OpSpec& spec, int runs)
      : world_(world),
        runs_(runs),
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
  double tolerance() const { return reference_.tolerance(); }

  std::vector<Contestant> contestants() {
    const auto times = [this](auto run) {
      return [this, run] {
        for (int i = 0; i < runs_; ++i) run();
      };
    };
    const auto fused = times([this] {
      fused_.run(inputs_.next());
      y_ = fused_.output();
    });
    const auto error = [this](std::uint64_t round) {
      const double off = reference_.error_of(y_, Expect::op, round, world_.rank(), kTerms);
      return static_cast<std::int64_t>(std::min(off, 1e3) / kErrorUnit);
    };
    std::vector<Contestant> out{{"fused", fused, {}, error}, {"compute", times([this] { compute(); })}};
    if (has_mpi()) out.push_back({"mpi", times([this] { mpi_->all_reduce(ones_.data(), sums_.data(), count_); })});
    out.push_back({"fused again", fused, {}, error});
    return out;
  }

 private:
  void compute() {
    Inputs in = inputs_.next();
    if (!gathered_.empty()) in.x = gathered_.data();
    producer_.run(in);
    producer_.output();
  }

  World& world_;
  int runs_;
  RankInputs inputs_;
  Op fused_, producer_;
  Reference reference_;
  baseline::Mpi* mpi_;
  std::int64_t count_;
  std::vector<float> ones_, sums_;
  std::vector<float> gathered_;  // rows of all ranks, as the producer alone finds them; empty where none are gathered
  Matrix y_;                     // of the last fused run
};

}  // namespace

Paired measure_paired(World& world, const OpSpec& spec, const PairedOptions& options) {
  const int block = std::clamp(options.block, 1, options.runs), blocks = options.runs / block;
  Blocks all(world, spec, block);
  CommonClock clock(world);
  Paired out;
  const auto judge = [&](const Contestant&, std::uint64_t, const TurnTime& time) {
    for (std::size_t rank = 0; rank < time.said.size(); ++rank) {
      const double error = static_cast<double>(time.said[rank]) * kErrorUnit;
      out.max_rel_err = std::max(out.max_rel_err, error);
      if (error > all.tolerance())
        fail(Code::internal,
             "{} run back to back gives a wrong result on rank {}: off by {:.2g}, where rounding explains {:.2g}; a "
             "wrong result has no time",
             spec.name, rank, error, all.tolerance());
    }
    return true;
  };
  Rounds rounds(clock, all.contestants(),
                {.rounds = blocks,
                 .order = TurnOrder::listed,
                 .refresh = [&](std::uint64_t round) { all.refresh(round); },
                 .judge = judge});
  rounds.run();
  std::vector<double> fused, again, extra;
  for (int b = 0; b < rounds.count(); ++b) {  // which of the two fused blocks counts as the second one alternates
    const double first = rounds.turns("fused")[at(b)].us, second = rounds.turns("fused again")[at(b)].us;
    fused.push_back((b % 2 == 0 ? second : first) / block);
    again.push_back((b % 2 == 0 ? first : second) / block);
    extra.push_back(((first + second) / 2 - rounds.turns("compute")[at(b)].us) / block);
  }
  out.fused_us = median(fused);
  out.compute_us = *rounds.median_us("compute") / block;
  out.extra_us = median(extra);
  out.aa_band = std::abs(out.fused_us / median(again) - 1);
  if (all.has_mpi()) {
    out.mpi_allreduce_us = *rounds.median_us("mpi") / block;
    out.ratio = out.extra_us / *out.mpi_allreduce_us;
  }
  out.runs = blocks * block;
  return out;
}

}  // namespace weft
