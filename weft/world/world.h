// The world: all ranks, and the one place where they agree on anything. Compiling an op is the only collective call.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "weft/cluster/cluster.h"
#include "weft/cluster/network.h"
#include "weft/mesh/mesh.h"
#include "weft/plan/plan.h"
#include "weft/plan/producer.h"
#include "weft/plan/space.h"
#include "weft/reshard/build/build.h"
#include "weft/transport/wire/wire_kind.h"
#include "weft/world/op.h"
#include "weft/world/window.h"

namespace weft {

class CudaOp;
struct CudaOpOptions;
struct CudaWay;
class Hooks;
struct Directory;
class ThreadPool;
struct WorldState;

struct WorldOptions {
  int threads = 0;  // of each rank; 0: WEFT_THREADS, or 1
  // What lies between ranks: a rate and a latency to pace local transports to (transport/pace.h); none: WEFT_LINK, or
  // the speed of memory. Its fabric says what shares the rate: a pair of hosts, or all that a host sends or receives.
  // Paced ranks fill hosts in blocks of ranks_per_host; ranks of one host are not paced.
  std::optional<Link> link;
  int ranks_per_host = 1;
  // The wire between hosts (transport/wire/wire_kind.h); none: WEFT_LINK, or what the hosts have. Local ranks of
  // different hosts then use it over the loopback device and no memory of each other (transport/wire/wired.h), as they
  // would between machines.
  std::optional<WireKind> wire;
  // What `auto` prices routes on; none: that of find_cluster() (weft/cluster/find_cluster.h). A link replaces its
  // network.
  std::optional<Cluster> cluster;
  // Where to write a timeline of all ranks when they end, for Perfetto (world/trace.h); empty: WEFT_TRACE, or none.
  std::string trace;
  double proof_budget = 1;  // what proving a plan may cost, times the usual (plan/budget.h)
  // Tests only: who decides on timing (exec/cpu/hooks.h), whether plans are proved before they run, and the number of
  // every op's first run.
  Hooks* hooks = nullptr;
  bool prove = true;
  std::uint64_t first_run = 0;
};

class World {
 public:
  // Joins the ranks that `weft run -n N` or mpirun started, or is a world of one rank. Call once.
  static World init(int argc = 0, char** argv = nullptr, const WorldOptions& options = {});
  // Joins the ranks that meet in a directory (transport/join/directory.h): those of a launcher that is neither. A
  // process may join several worlds: ops of one do not move while it waits in an op of another, so finish each with
  // output() before going on.
  static World join(const Directory& directory, const WorldOptions& options = {});
  // Runs `body` as num_ranks ranks, each a thread of this process; rethrows the first error.
  static void local(int num_ranks, const std::function<void(World&)>& body, const WorldOptions& options = {});

  int rank() const;
  int size() const;
  std::string_view transport() const;  // "threads", "shm", "tls" or "ucx"
  bool has_wire() const;               // which some ranks are reached through
  // This rank's threads, for what a program computes between its ops: idle while no op runs.
  ThreadPool& threads() const;
  // What `auto` prices routes on, for that many ranks: calibrated or default, with the link between hosts.
  Cluster cluster(int num_ranks) const;

  // Named axes over all ranks, in rank order. Throws bad_input unless they multiply to size().
  Mesh mesh(std::vector<Axis> axes) const;

  // Collective. Plans, proves, allocates. Every rank gives the same arguments.
  Op compile(const Producer& producer, const Space& space);
  // The consumer's side: rows of x gathered along the axis, then the gemm.
  Op compile(const Space& gather, const Producer& producer);
  // A plan made elsewhere, over the ranks along `axis` of `mesh`.
  Op compile(const Plan& plan, const Mesh& mesh, std::string_view axis);

  // A plan made elsewhere, over the ranks of a group that has this rank at its position. Groups are disjoint, and their
  // plans may differ; every rank of the world makes as many such calls, in a group of itself where it has no part.
  Op compile(const Plan& plan, const Group& group);
  // A plan made elsewhere, over all ranks.
  Op compile(const Plan& plan);
  // Moves sharded tensors (weft/reshard/build/build.h): inputs "src<t>.<p>", outputs "dst<t>". The network is this
  // world's own where none is given.
  Op compile(const Reshard& reshard, const ReshardOptions& options = {});
  Op compile(const Reshard& reshard, const Network& network, const ReshardOptions& options = {});
  // The same from a schedule made before, as choose() makes it from with_costs(options).
  Op compile(const Reshard& reshard, const Schedule& schedule, const Network& network,
             const ReshardOptions& options = {});
  // The same from a producer: ranks of the source mesh run it with its inputs, the others with none.
  Op compile(const Producer& producer, const Reshard& reshard, const Network& network,
             const ReshardOptions& options = {});

  // Collective. The same for GPUs (world/cuda/cuda_op.h): this thread's current one for this rank. Producer and space
  // are taken as GPUs make them (world/cuda/cuda_form.h): operands of products in bf16, sums as options say.
  CudaOp compile_cuda(const Producer& producer, const Space& space, const CudaOpOptions& options);
  CudaOp compile_cuda(const Space& gather, const Producer& producer, const CudaOpOptions& options);
  CudaOp compile_cuda(const Plan& plan, const Group& group, const CudaOpOptions& options);

  // The options with what messages cost here: a wire's, and cores that ranks share.
  ReshardOptions with_costs(ReshardOptions options) const;
  std::vector<int> hosts() const;  // of every rank: those of a paced link, or the machines they are on
  // This world's hosts, one NIC each: the paced link or the cluster's network between them.
  Network network() const;

  // The pages behind the output of a producer `window`: one window per op, made when first asked for. Throws bad_input
  // where the op's rows cannot be pages, saying which sizes can.
  Window window(Op& op);

  void barrier();

 private:
  explicit World(std::shared_ptr<WorldState> state);
  Op allot(const Plan& plan, const Group& group);
  void prove(const Plan& plan, const std::string& text);
  CudaOp compile_way(const Plan& plan, const Group& group, const CudaOpOptions& options);
  CudaOp keep_fastest(const std::vector<CudaWay>& ways, const CudaOpOptions& options,
                      const std::function<Plan(const CudaWay&)>& build, const Group& group);
  std::shared_ptr<WorldState> state_;
};

}  // namespace weft
