// What the ops of one rank share: its transport, its threads, and the list of ops that may have triggers to fire.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "weft/base/thread_pool.h"
#include "weft/exec/cpu/executor.h"
#include "weft/exec/cpu/memory.h"
#include "weft/plan/plan.h"
#include "weft/transport/transport.h"
#include "weft/world/op.h"
#include "weft/world/proved.h"
#include "weft/world/trace.h"
#include "weft/world/window.h"
#include "weft/world/world.h"

namespace weft {

class RetiredCudaOps;

struct WorldState {
  std::unique_ptr<Transport> owned;  // null where World::local keeps it
  std::unique_ptr<Transport> wired;  // in front of it, where asked for
  Transport* transport = nullptr;
  std::unique_ptr<ThreadPool> threads;
  Patience patience;
  Hooks* hooks = nullptr;
  bool prove = true;
  std::uint64_t first_run = 0;
  double proof_budget = 1;
  Cluster cluster;           // as measured or assumed, before it is fitted to a group
  std::optional<Link> link;  // paced; none: memory alone
  int ranks_per_host = 1;
  Moment birth = Moment::now();
  Detail detail = Detail::flight;
  std::optional<TraceFile> trace;  // none: not asked for
  std::vector<CpuExecutor*> live;
  Proved proved;
  std::shared_ptr<RetiredCudaOps> retired;  // null until an op is compiled for a GPU
  std::uint64_t cuda_ops = 0;               // that have been

  WorldState(std::unique_ptr<Transport> transport, const WorldOptions& options);
  WorldState(Transport& transport, const WorldOptions& options);
  ~WorldState();
};

// What a rank reads of a producer's inputs: anything at all, and its rows x.
struct InputsRead {
  bool any = false, x = false;
};

struct Op::State {
  std::shared_ptr<WorldState> world;
  std::shared_ptr<Segment> segment;
  std::shared_ptr<Segment> transits;  // paced: the signals under way to every rank
  Plan plan;
  std::unique_ptr<CpuExecutor> executor;
  int rank = 0;                           // of the plan
  std::vector<InputsRead> reads;          // of each producer
  std::vector<int> own_outputs;           // as verify() says; none where nothing was proved
  Bindings bindings;                      // of the run under way; kept, so that a run allocates nothing
  Memory memory;                          // where all ranks of the plan are
  std::shared_ptr<Window::State> window;  // null until asked for
  std::int64_t due_ns = INT64_MAX;        // as the last look found it

  ~State();
  void run(std::span<const Inputs> inputs, const Counts& counts, std::span<void* const> outputs = {});
  enum class Return { when_inputs_may_change, at_once };
  void run(std::span<const void* const> inputs, Return when);
  void start(const Counts& counts, Return when);
  void check(std::span<const Inputs> inputs, const Counts& counts) const;  // bad_input, with nothing changed
  bool limits_rows(std::size_t producer) const;
  bool is_own(int buffer) const;
  void check(std::span<void* const> outputs) const;
  void bind(std::span<void* const> outputs);
  BufferView view(std::string_view buffer);
  Matrix read(std::string_view buffer);
};

struct Window::State {
  Op::State* op;  // null once it is gone
  std::int64_t rows = 0, cols = 0, ld = 0;
  Dtype dtype = Dtype::f32;
  std::vector<std::shared_ptr<void>> copies;  // run e writes through e % size
  Program program;                            // of this rank: its steps say what to wait for
  std::vector<std::uint32_t> totals;          // of its counters
  bool is_open = false;

  explicit State(Op::State& op);
  void* open(Dtype as);       // bad_input where rows are of another type
  void close();               // the rows are handed over; bad_input where the window is not open
  void* rows_of_run() const;  // where those of the coming run are written

 private:
  void map_rows(std::size_t copy);
  bool may_write(const Wait** missing) const;
  void stuck(const Wait& wait, std::chrono::nanoseconds waited) const;
};

}  // namespace weft
