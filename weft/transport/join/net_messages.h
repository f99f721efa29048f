// What ranks and the hub of a world of several hosts say to each other once a rank is let in. Each message is a frame
// (rendezvous.h): a letter, then what it carries.
//
//   from a rank        host      what its host is called, once, first
//                      parcel    its part of a gather
//                      beat      it lives; how far it has come
//                      failure   a rank has failed, as its host sees it
//   from the hub       answer    everybody's parcels
//                      digest    everybody's beats
//                      failure   the first that the hub has heard of or seen itself
//                      closing   rank 0 ends in order: its end is no failure
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "weft/base/error.h"
#include "weft/transport/join/rendezvous.h"

namespace weft {

enum class Says : char {
  host = 'h',
  parcel = 'p',
  beat = 'b',
  failure = 'f',
  answer = 'a',
  digest = 'd',
  closing = 'c',
};

struct Beat {
  std::uint32_t arrived = 0;   // set-up calls entered
  std::uint32_t progress = 0;  // the last step
  std::uint32_t left = 0;
};

// A rank as the hub knows it.
struct Pulse {
  std::uint32_t silent_ms = 0;
  Beat beat;
};

struct NetFailure {
  int failed_rank = -1;
  Code code = Code::peer_failed;
  std::string host;
  std::string reason;
};

Frame say(Says what, std::string_view text = {});
Frame say(const Beat& beat);
Frame say(const std::vector<Pulse>& pulses);
Frame say(const NetFailure& failure);

// What a frame says, and what it carries; io where it makes no sense.
Says kind_of(const Frame& frame);
std::string_view text_of(const Frame& frame);
Beat beat_of(const Frame& frame);
std::vector<Pulse> pulses_of(const Frame& frame, int num_ranks);
NetFailure failure_of(const Frame& frame);

}  // namespace weft
