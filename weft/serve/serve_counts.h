// What a server has done since it began. Written by the rank that makes the texts, read by anybody.
#pragma once

#include <atomic>
#include <cstdint>

namespace weft {

struct ServeCounts {
  using Count = std::atomic<std::int64_t>;
  Count running = 0;        // texts that are being made
  Count ended = 0;          // texts that were made
  Count given_up = 0;       // texts whose client went away
  Count refused = 0;        // requests that could not be, or for which there was no room
  Count prompt_tokens = 0;  // of all texts
  Count cached_tokens = 0;  // of these, that did not go through the model again
  Count completion_tokens = 0;
  Count passes = 0;  // of the engine
  Count rows = 0;    // of all passes
};

}  // namespace weft
