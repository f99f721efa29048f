// What executors take for granted of a plan, in one list. verify() checks all of it for every action of every rank, so
// that no executor looks again: the reference, the CPU's and those to come index memory and call kernels by it. In
// builds with assertions each executor asserts it for its own rank when it is made. What a plan's text alone shows
// (indices, counts of dimensions, epilogues without a producer) is structure.h's.
//
//   producers  sizes that kernels can count, whole tables, weights of f32 or bf16 (validated() has them all)
//   buffers    the caller's memory is row-major: only internal buffers are packed, and padding keeps them countable;
//              int8 is internal and packed in whole blocks; y of a producer is of the type it makes; an input beside
//              producers is the first one's x, in no more elements than that
//   pieces     lie inside their buffers and have the shape of the action's box; reads and sources are the rank's own
//              memory; no input is written; a lane of a packed buffer lies in one of its tiles, and cuts no int8 block
//   steps      a box of rows and columns inside the producer's output: rows beyond m only where they are read from a
//              buffer, and there without an addend. An embedding_bag's lane is one whole table. The tiles of a gemm
//              have sizes that its code is made for, and no tile is larger than the memory that it is made in may be
//   reads      of a gemm or gemv, one piece per step: whole rows of k values of its x's type, row after row, as many as
//              the box has
//   values     f32, bf16 and int8 convert into each other and add up. All others are moved by triggers, from one
//              source, as they are
//   epilogues  of rows and columns, of a producer that the plan has: its bias is found by the box, its residual by the
//              first target, which is the rank's own output, as wide as the producer's
//   windows    the steps of a window wait for all their rows at once, and store them as they were written: row by row,
//              in the type of its output
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "weft/plan/program.h"

namespace weft {

// A gemm's code and packed weights are made for tiles of these sizes; a tile that is made, added up or finished lies in
// memory of its own.
inline constexpr std::int64_t kMostGemmTile = std::int64_t{1} << 24;      // rows or columns
inline constexpr std::int64_t kMostGemmElements = std::int64_t{1} << 28;  // of a tile of a gemm, gemv or table
inline constexpr std::int64_t kMostTileElements = std::int64_t{1} << 36;  // of any other

class Assumptions {
 public:
  Assumptions(const Plan& plan, const Expander& expander);  // of all ranks; keeps a reference to the plan

  // Of producers and of all ranks' buffers: a sentence that says what does not hold, or nothing. Throws bad_input where
  // a producer cannot be.
  std::string of_plan() const;
  // The same of one action; the sentence goes on from the action's name: "touches [0:4] of ...".
  std::string of_action(const Program& program, const Action& action) const;
  // Whether all of it holds for a rank's program.
  bool hold_for(const Program& program) const;

 private:
  struct Extent {
    int dims = 0;
    std::array<std::int64_t, kMaxDims> size{};
    std::int64_t block_rows = 0;
  };

  struct Traits {
    bool input, packed, adds_up;
  };

  bool pieces_hold(const Program& program, const Action& action) const;
  const Extent& extent(const Piece& p) const { return extents_[at(p.rank) * plan_.buffers.size() + at(p.buffer)]; }
  std::string of_buffer(int rank, int buffer) const;
  std::string of_packing(const Buffer& buffer, const Extent& extent) const;
  std::string of_x(const Buffer& buffer, const Extent& extent, int rank) const;
  std::string of_shapes(const Program& program, const Action& action) const;
  std::string of_pieces(const Program& program, const Action& action) const;
  std::string of_piece(const Program& program, const Action& action, const Piece& piece, bool write) const;
  std::string of_lanes(const Action& action, const Piece& piece) const;
  std::string of_step(const Program& program, const Action& action) const;
  std::string of_window(const Program& program, const Action& action) const;
  std::string of_reads(const Program& program, const Action& action) const;
  std::string of_tiles(const Action& action) const;
  std::string of_values(const Program& program, const Action& action) const;
  std::string of_epilogue(const Program& program, const Action& action) const;
  const Producer& finisher(const Action& action) const;

  const Plan& plan_;
  std::vector<Extent> extents_;  // [rank * buffers + buffer]
  std::vector<Traits> traits_;   // of each buffer
};

// Does all that executors assume hold for this rank's program? For assertions: it looks at all ranks' buffers.
bool assumptions_hold(const Plan& plan, const Expander& expander, const Program& program);

}  // namespace weft
