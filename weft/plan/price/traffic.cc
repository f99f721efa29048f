#include "weft/plan/price/traffic.h"

#include "weft/base/index.h"

namespace weft {

Traffic& Traffic::operator+=(const Traffic& other) {
  bytes_to_peers += other.bytes_to_peers;
  bytes_kept += other.bytes_kept;
  signals_to_peers += other.signals_to_peers;
  local_signals += other.local_signals;
  return *this;
}

std::int64_t bytes_of(const Box& box, Dtype dtype) {
  const std::int64_t cols = box.dims > 0 ? box.size(box.dims - 1) : 0;
  return cols == 0 ? 0 : box.volume() / cols * row_bytes(dtype, cols);
}

std::int64_t travel_bytes(const Plan& plan, const Program& program, const Action& action, const Piece& target) {
  const Dtype dtype = plan.buffers[target.buffer].dtype;
  const bool copies = action.kind == ActionKind::trigger && !action.finish && action.sources.size() == 1;
  return bytes_of(target.box,
                  copies ? travels_as(plan.buffers[program.sources(action)[0].buffer].dtype, dtype) : dtype);
}

Traffic traffic(const Plan& plan, const Program& program) {
  Traffic out;
  for (const Action& action : program.actions) {
    if (action.lanes == 0) continue;
    for (const Piece& target : program.targets(action)) {
      if (target.rank == program.rank)
        out.bytes_kept += bytes_of(target.box, plan.buffers[target.buffer].dtype);
      else
        out.bytes_to_peers += travel_bytes(plan, program, action, target);
    }
    for (const Signal& signal : program.signals_of(action))
      (signal.rank == program.rank ? out.local_signals : out.signals_to_peers) += action.lanes;
  }
  return out;
}

PlanTraffic traffic(const Plan& plan) {
  const Expander expander(plan);
  PlanTraffic out;
  Program program;
  for (int rank = 0; rank < plan.num_ranks; ++rank) {
    expander.program(rank, &program);
    out.ranks.push_back(traffic(plan, program));
    out.total += out.ranks.back();
  }
  return out;
}

std::vector<HostTraffic> host_traffic(const Plan& plan, int ranks_per_host) {
  const Expander expander(plan);
  std::vector<HostTraffic> out(num(ceil_div(plan.num_ranks, ranks_per_host)));
  Program program;
  for (int rank = 0; rank < plan.num_ranks; ++rank) {
    expander.program(rank, &program);
    for (const Action& action : program.actions)
      for (const Piece& target : program.targets(action)) {
        const int from = rank / ranks_per_host, to = target.rank / ranks_per_host;
        if (from == to || action.lanes == 0) continue;
        const std::int64_t bytes = travel_bytes(plan, program, action, target);
        out[from].bytes_out += bytes;
        out[to].bytes_in += bytes;
      }
  }
  return out;
}

}  // namespace weft
