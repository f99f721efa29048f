// An op: a plan compiled for a world, memory allotted, ready to run again and again.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "weft/base/dtype.h"
#include "weft/base/index.h"
#include "weft/exec/bindings.h"
#include "weft/exec/sent.h"
#include "weft/mesh/box.h"

namespace weft {

struct Plan;

// A row-major f32 matrix in the op's memory.
struct Matrix {
  const float* data = nullptr;
  std::int64_t rows = 0, cols = 0;

  std::span<const float> values() const { return {data, num(rows * cols)}; }
  const float* row(std::int64_t i) const { return data + i * cols; }
};

// A buffer of the op's memory on this rank, of any dtype, row-major.
struct BufferView {
  const void* data = nullptr;
  Dtype dtype = Dtype::f32;
  int dims = 0;
  std::array<std::int64_t, kMaxDims> shape{};  // the first `dims` count; this rank's, 0 where it has no part of it
  std::size_t bytes = 0;
};

class Op {
 public:
  Op(Op&&) noexcept;
  Op& operator=(Op&&) noexcept;
  ~Op();

  // Starts a run on this rank: tiles leave as they are made. Returns when the inputs may change. Every rank of the
  // group calls it, in the same order for all their ops; nothing else is synchronised. Allocates nothing.
  // Throws bad_input where an input is missing, peer_failed or deadline where a peer does not come along.
  void run(const float* x, const void* w = nullptr);
  void run();  // what is to be written has been, through an open window (window.h)
  void run(const Inputs& inputs, const Counts& counts = {});
  void run(std::span<const Inputs> inputs, const Counts& counts = {});  // plans of several producers

  // The same, into memory of the caller's, which is written until output() has returned: one pointer for each output of
  // the plan, in the order of Plan::outputs(); null: the op's own memory, as of a run without. Only where own_output().
  void run(const Inputs& inputs, std::span<void* const> outputs, const Counts& counts = {});
  // Whether no other rank writes or reads that output, as verify() found: then a run may put it anywhere.
  bool own_output(std::string_view name) const;

  // Plans without a producer, as those of a reshard: one pointer for each input buffer of the plan, in its order; null
  // where this rank's is empty.
  void run(std::span<const void* const> inputs);

  // As the last, but returns at once: what is ready goes, the rest when this rank looks again, in ready() or while it
  // waits in any of its ops. The inputs must stay until ready() says true. For those who compute meanwhile.
  void post(std::span<const void* const> inputs);

  // Waits for what is owed to this rank and returns it; readable until the next run.
  Matrix output();
  // The same for another buffer of the plan, by name. Throws bad_input where there is none.
  Matrix buffer(std::string_view name);
  BufferView view(std::string_view name);  // the same, whatever its dtype and dimensions

  // Fires what is ready, without waiting; whether all that is owed to this rank is there.
  bool ready();
  // As ready() last found it: when another look is worth while though no other rank does anything, as on a paced link,
  // on the clock of now_ns(); INT64_MAX: never.
  std::int64_t due_ns() const;

  const Plan& plan() const;
  std::size_t bytes() const;  // of memory that the op has on this rank: buffers and counters
  Sent sent() const;          // bytes and signals sent to other ranks, over all runs

  struct State;  // of the library

 private:
  friend class Window;
  friend class World;
  explicit Op(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace weft
