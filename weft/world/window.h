// A window: a plain pointer whose pages are the destinations of an op's output, so that an unmodified BLAS writes its
// product straight to its owners, with no copy and no message.
//
//   Op op = world.compile(window({.m = m, .n = n}), reduce_scatter(mesh, "tp"));
//   Window window = world.window(op);
//   float* c = window.open();                   // m x n, row-major, row i at c + i * n
//   cblas_sgemm(..., c, n);                     // or anything else that stores floats
//   op.run();                                   // says that the rows are there
//   use(op.output());                           // waits for the other ranks' rows
//
// Rules
//   - What can be written: the output of a producer `window`, whose space is keep, all_to_all (rows land in the
//     owner's output itself), reduce_scatter (rows land in one slot a source, which the owner sums in the order
//     o + 1, ..., o, so that bits are those of any other route given the same rows) or all_reduce (the same, and the
//     owner stores the sums to everybody). Rows of owners on other hosts are ordinary memory, which run() sends.
//   - f32, or bf16 where window({.m, .n, .dtype}) says so: then open_narrow() is the pointer, and sums are made in f32
//     of what was written and rounded once. Row-major, n elements from row to row, or ld of them where window({.m, .n,
//     .ld}) says so (of sums alone). Pages belong to one owner: the rows of each must begin and end on a page, so
//     rows-of-an-owner * ld * size is to be a multiple of the page size (4096). window_ld() (collective/build.h) is the
//     least ld for which it is, of any m and n; world.window(op) names it, and the nearest m and n, where the rows are
//     no whole pages.
//   - Between open() and run() the caller may write, read back and write again; nobody looks. After run() it must not
//     touch the rows until it has opened the window again.
//   - open() returns once the owners have done with the rows of the run before. The address may differ from run to run
//     (outputs that are read directly have two copies): ask for it each time.
//   - op.output() stays readable until the next op.run(), also while the window is open.
//   - All ranks of the group open, write and run alike; run() without an open window is refused. An op of a producer
//     `window` also takes run(x), which copies x (m, n) and needs no window.
#pragma once

#include <cstdint>
#include <memory>

#include "weft/world/op.h"

namespace weft {

// A handle: copies are the same window. It may outlive its op, but then opens no more.
class Window {
 public:
  // Waits until every row may be written, and returns the first. Opening an open window changes nothing. Throws
  // peer_failed or deadline where an owner does not come along, bad_input where the rows are bf16.
  float* open();
  bf16* open_narrow();  // the same of a window in bf16
  // op.run() and op.output() in one call; of a window in bf16 use op.run() and op.view("y").
  Matrix close();

  std::int64_t rows() const;
  std::int64_t cols() const;
  std::int64_t ld() const;  // elements from row to row: cols(), unless the producer has one of its own
  Dtype dtype() const;

 private:
  friend class World;
  friend class Op;
  struct State;
  explicit Window(std::shared_ptr<State> state);
  std::shared_ptr<State> state_;
};

}  // namespace weft
