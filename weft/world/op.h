// An op: a plan compiled for a world, memory allotted, ready to run again and again.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "weft/exec/bindings.h"

namespace weft {

struct Plan;
struct Sent;

// A row-major f32 matrix in the op's memory.
struct Matrix {
  const float* data = nullptr;
  std::int64_t rows = 0, cols = 0;

  std::span<const float> values() const { return {data, static_cast<std::size_t>(rows * cols)}; }
  const float* row(std::int64_t i) const { return data + i * cols; }
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

  // Waits for what is owed to this rank and returns it; readable until the next run.
  Matrix output();
  // The same for another buffer of the plan, by name. Throws bad_input where there is none.
  Matrix buffer(std::string_view name);

  // Fires what is ready, without waiting; whether all that is owed to this rank is there.
  bool ready();

  const Plan& plan() const;
  Sent sent() const;  // bytes and signals sent to other ranks, over all runs

  struct State;  // of the library

 private:
  friend class Window;
  friend class World;
  explicit Op(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace weft
