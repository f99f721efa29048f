#include "weft/pipeline/gradient_sum.h"

#include <algorithm>
#include <map>

#include <fmt/core.h>

#include "weft/base/index.h"
#include "weft/reshard/build/build.h"

namespace weft::pipeline {
namespace {

Network network_of(const World& world, const Group& group) {
  const std::vector<int> hosts = world.hosts();
  std::map<int, int> numbers;
  std::vector<int> host_of;
  for (const int rank : group.ranks)
    host_of.push_back(numbers.try_emplace(hosts[at(rank)], int_size(numbers)).first->second);
  const Cluster cluster = world.cluster(world.size());
  return one_nic_a_host(host_of, cluster.network, cluster.local);
}

std::int64_t part_size(std::int64_t count, int parts, int part) {
  return cut(count, parts, part + 1) - cut(count, parts, part);
}

Reshard among(int ranks) {
  Reshard reshard;
  reshard.num_ranks = ranks;
  for (int rank = 0; rank < ranks; ++rank)
    reshard.placements.push_back({fmt::format("rank{}", rank), Mesh({{"one", 1}}), {rank}});
  return reshard;
}

ShardedTensor on(int placement, const Shape& shape) {
  return {"gradients", shape, Dtype::f32, placement, {std::vector<Split>(shape.size()), {}}};
}

// Destination d is on rank d: a row from every rank.
Reshard scattered(int ranks, std::int64_t count) {
  Reshard reshard = among(ranks);
  for (int to = 0; to < ranks; ++to) {
    const std::int64_t size = part_size(count, ranks, to);
    Transfer transfer{{}, on(to, {ranks, size})};
    for (int from = 0; from < ranks; ++from) transfer.parts.push_back({on(from, {1, size}), {from, 0}});
    reshard.transfers.push_back(std::move(transfer));
  }
  return reshard;
}

// One destination, on all ranks: every rank's part, one after the other.
Reshard gathered(int ranks, std::int64_t count) {
  Reshard reshard = among(ranks);
  Placement all{"all", Mesh({{"all", ranks}}), {}};
  for (int rank = 0; rank < ranks; ++rank) all.ranks.push_back(rank);
  reshard.placements.push_back(std::move(all));
  Transfer transfer{{}, on(ranks, {count})};
  for (int from = 0; from < ranks; ++from)
    transfer.parts.push_back({on(from, {part_size(count, ranks, from)}), {cut(count, ranks, from)}});
  reshard.transfers.push_back(std::move(transfer));
  return reshard;
}

std::unique_ptr<Op> compile(World& world, const Group& group, const Reshard& reshard) {
  return std::make_unique<Op>(world.compile(build(reshard, network_of(world, group), world.with_costs({})), group));
}

}  // namespace

GradientSum::GradientSum(World& world, const Group& group, std::int64_t count, Pump* pump)
    : group_(group), count_(count), pump_(pump) {
  const int ranks = group.size();
  scatter_ = compile(world, group, scattered(ranks, std::max<std::int64_t>(count, ranks)));
  gather_ = compile(world, group, gathered(ranks, std::max<std::int64_t>(count, ranks)));
  sums_.resize(num(part_size(count, ranks, group.position)));
}

void GradientSum::start(float* gradients) {
  gradients_ = gradients;
  added_ = false;
  const int ranks = group_.size();
  if (ranks == 1) return;
  std::vector<const void*> inputs;  // by destination, then by source: only those of this rank are here
  for (int to = 0; to < ranks; ++to)
    for (int from = 0; from < ranks; ++from)
      inputs.push_back(from == group_.position ? gradients + cut(count_, ranks, to) : nullptr);
  const auto lock = pump_->lock();
  scatter_->post(inputs);
  pump_->watch(scatter_.get());
}

void GradientSum::add_up() {
  const int ranks = group_.size();
  const auto* rows = static_cast<const float*>(scatter_->view(fmt::format("dst{}", group_.position)).data);
  for (std::size_t i = 0; i < sums_.size(); ++i) {
    float sum = rows[i];
    for (int from = 1; from < ranks; ++from) sum += rows[num(from) * sums_.size() + i];
    sums_[i] = sum;
  }
  std::vector<const void*> inputs(num(ranks));
  inputs[at(group_.position)] = sums_.data();
  gather_->post(inputs);
  pump_->watch(gather_.get());
  added_ = true;
}

void GradientSum::move_on() {
  if (gradients_ == nullptr || group_.size() == 1 || added_) return;
  const auto lock = pump_->lock();
  if (scatter_->ready()) add_up();
}

void GradientSum::finish() {
  if (group_.size() > 1) {
    const auto lock = pump_->lock();
    if (!added_) add_up();
    std::copy_n(static_cast<const float*>(gather_->view("dst0").data), count_, gradients_);
  }
  gradients_ = nullptr;
}

}  // namespace weft::pipeline
