#include "weft/study/device/cuda_op.h"

#include <algorithm>
#include <cmath>
#include <random>

#include "weft/base/error.h"
#include "weft/base/index.h"
#include "weft/collective/build.h"
#include "weft/collective/draft.h"
#include "weft/exec/cuda/pull.h"
#include "weft/study/device/device_study.h"

namespace weft {

DeviceInputs::DeviceInputs(const OpSpec& spec) : spec_(spec), plan_(fused_plan(spec, device_ways(spec)[0].route)) {
  const Producer& p = spec.producer;
  for (int r = 0; r < spec.ranks; ++r) {
    x_.emplace_back(p.m * (p.has_w() ? p.k : p.n) * 2);
    w_.emplace_back(std::max<std::int64_t>(p.n * p.k * 2, 16));
    fill_random(x_.back(), 100 + static_cast<std::uint32_t>(r), device_queue());
    fill_random(w_.back(), 200 + static_cast<std::uint32_t>(r), device_queue());
    operands_.push_back({x_.back().data(), w_.back().data()});
  }
}

double DeviceInputs::leaf_at(int rank, std::int64_t row, std::int64_t col) const {
  const Producer& p = spec_.producer;
  if (!p.has_w()) {
    bf16 found;
    download(x_[at(rank)].data() + (row * p.n + col) * 2, &found, 2);
    return to_float(found);
  }
  const std::byte* from =
      spec_.gathers ? x_[at(row / p.m)].data() + row % p.m * p.k * 2 : x_[at(rank)].data() + row * p.k * 2;
  const auto x = from_device<bf16>(from, num(p.k));
  const auto w = from_device<bf16>(w_[at(rank)].data() + col * p.k * 2, num(p.k));
  double sum = 0;
  for (std::int64_t i = 0; i < p.k; ++i) sum += double{to_float(x[at(i)])} * to_float(w[at(i)]);
  return sum;
}

double DeviceInputs::error_of(const Places& places, bool made) const {
  constexpr int kPlaces = 24;  // of each rank
  const Expander expander(plan_);
  std::mt19937_64 random(7);
  const auto below = [&](std::int64_t limit) { return static_cast<std::int64_t>(random() % num(limit)); };
  double wrong = 0, all = 0;
  for (int r = 0; r < spec_.ranks; ++r) {
    std::vector<Expander::Due> owed;
    for (const auto& due : expander.owed(r))
      if (due.piece.buffer == plan_.buffer("y") && !due.piece.box.empty()) owed.push_back(due);
    for (int i = 0; i < kPlaces && (made || !owed.empty()); ++i) {
      double expected = 0;
      std::int64_t row = below(spec_.producer.m * (spec_.gathers ? spec_.ranks : 1)), col = below(spec_.producer.n);
      if (made) {
        expected = leaf_at(r, row, col);
      } else {
        const auto& due = owed[at(below(std::ssize(owed)))];
        const Box& box = due.piece.box;
        row = below(box.size(0)), col = below(box.size(1));
        for (int c = 0; c < due.contributors; ++c)
          expected += leaf_at((due.first + c) % spec_.ranks, due.origin[0] + row, due.origin[1] + col);
        row += box.lo[0], col += box.lo[1];
      }
      bf16 found;
      download(places(r, row, col), &found, 2);
      const double difference = to_float(found) - expected;
      wrong += std::isnan(difference) ? INFINITY : difference * difference;
      all += expected * expected;
    }
  }
  return std::sqrt(wrong / std::max(all, 1e-30));
}

Plan fused_plan(const OpSpec& spec, Route route) {
  Space space = spec.space;
  space.options.route = route;
  if (space.kind == SpaceKind::keep) return build_keep(validated(spec.producer, spec.ranks), spec.ranks);
  return spec.gathers ? build(space, spec.producer) : build(spec.producer, space);
}

Plan kept_plan(const OpSpec& spec, std::int64_t rows) {
  Producer p = spec.producer;
  p.m = rows;
  return build_keep(validated(p, spec.ranks), spec.ranks);
}

OpSpec moved_spec(const OpSpec& spec) { return spec.alone() ? spec : device_spec(collective_alone(spec)); }

std::vector<CudaWay> device_ways(const OpSpec& spec) {
  return spec.gathers ? cuda_gather_ways(spec.space) : cuda_ways(spec.producer, spec.space);
}

Places places_of(const CudaExecutor& executor) {
  const DevicePlan& device = executor.tables();
  return [&executor, &device](int rank, std::int64_t row, std::int64_t col) {
    return executor.output(rank) + (row * device.layout[at(rank)].matrices[at(device.output)].cols + col) * 2;
  };
}

double least_us(const std::function<void()>& run) {
  DeviceTimer timer;
  double least = INFINITY;
  run();
  for (int turn = 0; turn < 5; ++turn) {
    timer.begin();
    run();
    least = std::min(least, timer.end_us());
  }
  return least;
}

}  // namespace weft
