// A pipeline schedule as data: for each stage the work it does, in order. Builders write schedules (build.h), the
// checker proves them (check.h), timing and search price them (timing.h, search.h); a trainer or a simulator reads
// them.
//
// A model is cut into positions 0, 1, .., stages * chunks - 1. Chunk c of stage s is position c * stages + s, so with
// one chunk per stage a position is a stage. Micro-batch b goes forward through all positions and backward through all
// of them. The work of one position for one micro-batch:
//
//   forward           needs the forward of the position before it
//   backward          needs the forward here and the backward of the position after it
//   backward_input    the part of backward that the position before waits for: the gradient of the activation
//   backward_weight   the other part, after backward_input; nobody waits for it
//   recompute         the forward once more, from its input, before the backward
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "weft/base/index.h"

namespace weft::pipeline {

enum class Work : std::uint8_t { forward, backward, backward_input, backward_weight, recompute };
inline constexpr int kNumWorks = 5;

std::string_view to_string(Work work);

struct WorkItem {
  Work work = Work::forward;
  int chunk = 0;
  int micro_batch = 0;

  friend bool operator==(const WorkItem&, const WorkItem&) = default;
};

struct Schedule {
  std::string name;
  int num_micro_batches = 0;
  int num_chunks = 1;                         // of each stage
  std::vector<std::vector<WorkItem>> stages;  // the items of each, in the order in which it does them

  int num_stages() const { return int_size(stages); }
  int num_positions() const { return num_stages() * num_chunks; }
  int position(int stage, int chunk) const { return chunk * num_stages() + stage; }

  friend bool operator==(const Schedule&, const Schedule&) = default;
};

// Wide enough for any pipeline, narrow enough that all tables of a schedule fit into memory.
inline constexpr int kMaxStages = 4096, kMaxMicroBatches = 1 << 20, kMaxChunks = 64;
inline constexpr std::int64_t kMaxPlaces = std::int64_t{1} << 20;  // positions x micro-batches

// Throws bad_input where a size is out of range; the message names it and the range.
void check_sizes(int stages, int micro_batches, int chunks);

std::int64_t num_items(const Schedule& schedule);

inline bool is_backward(Work work) { return work == Work::backward || work == Work::backward_input; }

// "backward of micro-batch 3", "forward of micro-batch 3, chunk 1": as messages name an item.
std::string to_string(const WorkItem& item, int num_chunks);

}  // namespace weft::pipeline
