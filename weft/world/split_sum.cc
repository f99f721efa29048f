#include "weft/world/split_sum.h"

#include "weft/base/index.h"
#include "weft/mesh/box.h"
#include "weft/plan/price/estimate.h"
#include "weft/plan/producer.h"
#include "weft/world/world.h"

namespace weft {

bool SplitSum::possible(SpaceKind kind, std::int64_t rows, int ranks) {
  if (rows < ranks) return false;
  return kind == SpaceKind::reduce_scatter || (kind == SpaceKind::all_reduce && rows % ranks == 0);
}

SplitSum::SplitSum(World& world, const Space& space, std::int64_t rows, std::int64_t cols)
    : ranks_(space.mesh.axis(space.axis).size), cols_(cols) {
  const int position = space.mesh.group(space.axis, world.rank()).position;
  const std::int64_t part = cut(rows, ranks_, position + 1) - cut(rows, ranks_, position);
  sums_.resize(num(part * cols));
  const SpaceOptions direct{.route = Route::direct};  // its run() returns when this rank's stores are made
  exchange_ = std::make_unique<Op>(
      world.compile(copy({.rows = rows, .cols = cols}), all_to_all(space.mesh, space.axis, direct)));
  if (space.kind == SpaceKind::all_reduce)
    gather_ = std::make_unique<Op>(
        world.compile(copy({.rows = part, .cols = cols}), all_gather(space.mesh, space.axis, direct)));
}

void SplitSum::start(const float* made) {
  added_ = false;
  exchange_->run(made);
}

void SplitSum::add_up() {
  const std::size_t count = sums_.size();
  const float* parts = exchange_->output().data;
  const float* second = ranks_ > 1 ? parts + count : nullptr;
  for (std::size_t i = 0; i < count; ++i) sums_[i] = second == nullptr ? parts[i] : parts[i] + second[i];
  for (int from = 2; from < ranks_; ++from) {
    const float* more = parts + num(from) * count;
    for (std::size_t i = 0; i < count; ++i) sums_[i] += more[i];
  }
  added_ = true;
  if (gather_) gather_->run(sums_.data());
}

void SplitSum::poll() {
  if (added_ && gather_)
    gather_->ready();
  else if (!added_ && exchange_->ready() && !gather_)
    add_up();
}

Matrix SplitSum::output() {
  if (gather_) return gather_->output();
  return {sums_.data(), std::ssize(sums_) / cols_, cols_};
}

std::int64_t SplitSum::bytes_sent() const { return exchange_->sent().bytes + (gather_ ? gather_->sent().bytes : 0); }

double SplitSum::seconds(const Cluster& cluster) const {
  return estimate(exchange_->plan(), cluster).seconds + (gather_ ? estimate(gather_->plan(), cluster).seconds : 0);
}

}  // namespace weft
