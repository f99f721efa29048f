// What a CudaOp has, and what becomes of ops that are done with. A rank may end its op while another's kernel still
// raises a counter in its memory, so nothing is freed before every rank has let go: ops retire, and at the next
// compilation, which is collective, ranks tell each other which have.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "weft/exec/cuda/device.h"
#include "weft/exec/cuda/executor.h"
#include "weft/exec/cuda/ranks/peer_memory.h"
#include "weft/exec/cuda/small/bag_executor.h"
#include "weft/exec/cuda/small/gemv_executor.h"
#include "weft/world/cuda/cuda_op.h"

namespace weft {

struct WorldState;

struct CudaOp::State {
  std::shared_ptr<WorldState> world;  // null once it has retired
  std::uint64_t id = 0;               // counted alike on all ranks of the world
  Plan plan;
  int rank = 0;  // of the plan
  int device = 0;
  // Whether another rank of the group is a thread of this process and has the same GPU. Queues of a process may share
  // one of the hardware's, where the second run of one rank would stand before the first of another: so such ranks
  // enqueue one run at a time.
  bool in_step = false;
  std::unique_ptr<DeviceQueue> queue;
  std::variant<std::unique_ptr<CudaExecutor>, std::unique_ptr<CudaGemv>, std::unique_ptr<CudaBags>> executor;
  std::vector<PeerMemory> peers;  // of every rank of the plan; empty at the own position
  std::vector<int> world_ranks;   // of the group
  std::int64_t y_bytes = 0;       // of this rank's output

  void* last_queue = nullptr;  // of the latest run that is not recorded
  bool recorded = false;       // whether some run is

  void* queue_of(void* given);  // where the next run goes
  CudaExecutor& counted();      // that takes counts
  void await();                 // until all runs have ended; throws as soon as a peer is known to have failed
};

// The ops of one rank that have retired, oldest first.
class RetiredCudaOps {
 public:
  ~RetiredCudaOps();
  void add(std::shared_ptr<CudaOp::State> op);
  bool empty() const { return ops_.empty(); }
  std::string ids() const;  // "3,5,8"
  // Lets go of the others' memory in ops that all ranks of their groups have retired; ids[r] is what rank r has. What
  // they return is this rank's own memory of them, to be freed once all ranks have done this.
  std::vector<std::shared_ptr<CudaOp::State>> release(const std::vector<std::string>& ids);

 private:
  std::vector<std::shared_ptr<CudaOp::State>> ops_;
};

}  // namespace weft
