#include "weft/nn/rank_sum.h"

#include <algorithm>

#include "weft/base/index.h"
#include "weft/collective/build.h"

namespace weft {
namespace {

constexpr std::int64_t kSumCols = 256;  // of an array laid out as rows for the copy

std::int64_t padded(std::int64_t count) { return (count + kSumCols - 1) / kSumCols * kSumCols; }

Op sum_op(World& world, const Group& group, std::int64_t count) {
  const Producer rows = copy({.rows = padded(count) / kSumCols, .cols = kSumCols});
  const Mesh mesh({{"sum", group.size()}});
  return world.compile(build(rows, all_reduce(mesh, "sum"), world.cluster(group.size())), group);
}

}  // namespace

Group everyone(const World& world) {
  Group all;
  for (int rank = 0; rank < world.size(); ++rank) all.ranks.push_back(rank);
  all.position = world.rank();
  return all;
}

RankSum::RankSum(World& world, std::int64_t count) : RankSum(world, everyone(world), count) {}

RankSum::RankSum(World& world, const Group& group, std::int64_t count)
    : count_(count), padded_(padded(count)), op_(sum_op(world, group, count)) {
  if (padded_ != count_) in_.resize(num(padded_));
}

const float* RankSum::sum_of(const float* values) {
  if (padded_ != count_) {
    std::copy_n(values, count_, in_.data());
    values = in_.data();
  }
  op_.run(values);
  return op_.output().data;
}

void RankSum::add_up(float* values) { std::copy_n(sum_of(values), count_, values); }

}  // namespace weft
