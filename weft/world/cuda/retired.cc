#include <algorithm>
#include <utility>

#include <fmt/ranges.h>

#include "weft/base/index.h"
#include "weft/world/cuda/cuda_state.h"

namespace weft {
namespace {

bool names(const std::string& ids, std::uint64_t id) {
  return ("," + ids + ",").find("," + std::to_string(id) + ",") != std::string::npos;
}

}  // namespace

RetiredCudaOps::~RetiredCudaOps() {
  for (auto& op : ops_) op->peers.clear();  // others' memory first
}

void RetiredCudaOps::add(std::shared_ptr<CudaOp::State> op) { ops_.push_back(std::move(op)); }

std::string RetiredCudaOps::ids() const {
  std::vector<std::uint64_t> out;
  for (const auto& op : ops_) out.push_back(op->id);
  return fmt::format("{}", fmt::join(out, ","));
}

std::vector<std::shared_ptr<CudaOp::State>> RetiredCudaOps::release(const std::vector<std::string>& ids) {
  const auto still_used = [&](const std::shared_ptr<CudaOp::State>& op) {
    return !std::all_of(op->world_ranks.begin(), op->world_ranks.end(),
                        [&](int rank) { return names(ids[at(rank)], op->id); });
  };
  const auto first = std::stable_partition(ops_.begin(), ops_.end(), still_used);
  std::vector<std::shared_ptr<CudaOp::State>> out(std::make_move_iterator(first), std::make_move_iterator(ops_.end()));
  ops_.erase(first, ops_.end());
  for (auto& op : out) op->peers.clear();
  return out;
}

}  // namespace weft
