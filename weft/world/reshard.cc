// Reshards of a world: its own hosts as a network, and plans over all its ranks.
#include "weft/base/cores.h"
#include "weft/reshard/build/build.h"
#include "weft/transport/transport.h"
#include "weft/world/world_state.h"

namespace weft {

ReshardOptions World::with_costs(ReshardOptions options) const {
  options.message_s += cluster(size()).wire_message_s;
  if (options.cores == 0 && state_->transport->crowded()) options.cores = usable_cores();
  return options;
}

std::vector<int> World::hosts() const {
  std::vector<int> host_of;
  for (int rank = 0; rank < size(); ++rank)
    host_of.push_back(state_->link ? rank / state_->ranks_per_host : state_->transport->host_index(rank));
  return host_of;
}

Network World::network() const {
  const Cluster cluster = this->cluster(size());
  return one_nic_a_host(hosts(), cluster.network, cluster.local);
}

Op World::compile(const Reshard& reshard, const ReshardOptions& options) {
  return compile(reshard, network(), options);
}

Op World::compile(const Reshard& reshard, const Network& network, const ReshardOptions& options) {
  return compile(build(reshard, network, with_costs(options)));
}

Op World::compile(const Reshard& reshard, const Schedule& schedule, const Network& network,
                  const ReshardOptions& options) {
  return compile(build(reshard, schedule, network, with_costs(options)));
}

Op World::compile(const Producer& producer, const Reshard& reshard, const Network& network,
                  const ReshardOptions& options) {
  return compile(build(producer, reshard, network, with_costs(options)));
}

}  // namespace weft
