// An op on GPUs: a plan compiled for ranks that each have a GPU, or share one, ready to run again and again. A run is a
// kernel of each rank, which stores straight into the memory of the others' GPUs and waits for what they store: no
// library and no host stands between them. Ranks are threads or processes of one host (ranks/peer_memory.h); those of
// several processes that share a GPU need NVIDIA's MPS, without which their kernels would take turns and wait for ever.
//
// No CUDA header is needed here. In a build without CUDA compiling refuses, and says so.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "weft/exec/bindings.h"
#include "weft/exec/cuda/lane_order.h"
#include "weft/exec/cuda/ranks/operands.h"

namespace weft {

struct Plan;

struct CudaOpOptions {
  std::chrono::nanoseconds deadline{0};  // of every wait on the GPU; 0: as long as the world waits (WEFT_WAIT_S)
  int device = -1;                       // this rank's, as CUDA counts; -1: the thread's
  Dtype sums = Dtype::bf16;              // of outputs and of sums between ranks, and of rows as they are: bf16 or f32
  // How often each route, or of one that the space names each order that suits it, is tried on the ranks' GPUs before
  // the fastest is kept: by the slowest rank's least times, of the whole world. Routes round sums of bf16 in different
  // places, so bits may differ from start to start. 0: none is tried; the route is the space's, or one that is known to
  // be fast, and the order is `order`. Nothing is tried of a plan that is given, of bags and of few rows.
  int trials = 0;
  LaneOrder order = {};  // not with trials
};

class CudaOp {
 public:
  CudaOp(CudaOp&&) noexcept;
  CudaOp& operator=(CudaOp&&) noexcept;
  // Waits for this rank's runs. Its memory is kept until all ranks have let go of the op: it is freed when the world
  // next compiles one, or ends.
  ~CudaOp();

  // Enqueues a run behind what stands in `queue`, a cudaStream_t of the op's GPU (null: a queue of the op's own, not
  // the default stream), and returns. Every rank of the group calls it, in the same order for all their ops. Operands
  // must stay as they are until the run has ended. Runs of an op follow one another in whatever queues they are: a
  // queue lives until the op has run in another, or finish() has returned. May be recorded in a graph, with the counts
  // and operands of now; what is recorded follows what stands before it in the recording alone.
  // Throws bad_input where an operand is missing, deadline where an earlier run is known to have failed.
  void run(const CudaOperands& operands, void* queue = nullptr);
  // Of an index or offset that an earlier run has refused it throws bad_input, too, but enqueues the run all the same.
  void run(const BagOperands& bags, void* queue = nullptr);
  // Rows that count from the next run on (bindings.h); no counts: all.
  void limit(const Counts& counts);
  // The same in device memory, for those who find them there: as of CudaExecutor.
  std::int32_t* counts();

  // Where the output is, in rows of device memory: complete when what was enqueued has run, until the next run.
  const void* output() const;
  std::int64_t output_bytes() const;
  void copy_output(void* to, void* queue = nullptr);  // enqueues a copy of it
  // The same of `bytes` of it, from byte `from` on. Throws bad_input where it has not so many; enqueues nothing for 0.
  void copy_output(void* to, std::int64_t from, std::int64_t bytes, void* queue = nullptr);
  // Enqueues a copy of other memory, for operands that are to lie otherwise in the next run of that queue.
  void copy(void* to, const void* from, std::int64_t bytes, void* queue = nullptr);
  bool was_recorded() const;  // whether a run was: then the op must live as long as the graph
  // Whether no other rank writes it: then CudaOperands::y may say where it goes.
  bool own_output() const;

  // Waits for all runs. Throws deadline, naming rank, peer, tile, seen and expected, where a wait on the GPU took too
  // long; the op is of no use then.
  void finish();

  const Plan& plan() const;
  std::size_t bytes() const;  // of device memory that others reach; of the rank that has most

  struct State;  // of the library

 private:
  friend class World;
  explicit CudaOp(std::shared_ptr<State> state);
  std::shared_ptr<State> state_;
};

}  // namespace weft
