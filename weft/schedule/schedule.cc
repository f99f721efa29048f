#include "weft/schedule/schedule.h"

#include <fmt/core.h>

#include "weft/base/error.h"
#include "weft/base/names.h"

namespace weft::pipeline {
namespace {

constexpr Names<Work, kNumWorks> kWorks{{{Work::forward, "forward"},
                                         {Work::backward, "backward"},
                                         {Work::backward_input, "backward_input"},
                                         {Work::backward_weight, "backward_weight"},
                                         {Work::recompute, "recompute"}}};

}  // namespace

std::string_view to_string(Work work) { return name_of(kWorks, work); }

void check_sizes(int stages, int micro_batches, int chunks) {
  if (stages < 1 || stages > kMaxStages) bad_input("{} stages; use 1 to {}", stages, kMaxStages);
  if (micro_batches < 1 || micro_batches > kMaxMicroBatches)
    bad_input("{} micro-batches; use 1 to {}", micro_batches, kMaxMicroBatches);
  if (chunks < 1 || chunks > kMaxChunks) bad_input("{} chunks per stage; use 1 to {}", chunks, kMaxChunks);
  const std::int64_t places = std::int64_t{stages} * chunks * micro_batches;
  if (places > kMaxPlaces)
    bad_input("{} stages x {} chunks x {} micro-batches are {} forwards; use fewer, at most {}", stages, chunks,
              micro_batches, places, kMaxPlaces);
}

std::int64_t num_items(const Schedule& schedule) {
  std::int64_t sum = 0;
  for (const auto& items : schedule.stages) sum += std::ssize(items);
  return sum;
}

std::string to_string(const WorkItem& item, int num_chunks) {
  const std::string chunk = num_chunks == 1 ? "" : fmt::format(", chunk {}", item.chunk);
  return fmt::format("{} of micro-batch {}{}", to_string(item.work), item.micro_batch, chunk);
}

}  // namespace weft::pipeline
