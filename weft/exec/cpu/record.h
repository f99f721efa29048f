// What one thread of a rank did for one op, event by event, in a ring that only keeps the last ones. Always on as a
// flight recorder (one stamp per lane, about 10 ns), whose text goes into the Error of a run that fails; in full for a
// trace: when each tile was begun, made and stored, what was waited for, and when a paced link was busy.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "weft/base/clock.h"

namespace weft {

class TraceText;
struct Plan;
struct Program;

enum class Detail { none, flight, trace };  // what is recorded
enum class EventKind : std::uint8_t { lane, wait, link };

struct Event {
  EventKind kind = EventKind::lane;
  std::int32_t action = -1;                   // -1: a wait for the end of the run
  std::int32_t lane = 0;                      // link: the peer
  std::uint32_t run = 0;                      // counted from 0, modulo 2^32
  std::int64_t begin = 0, made = 0, end = 0;  // ticks; a link's in ns. 0: not recorded
  std::int64_t bytes = 0;                     // link
};

class Recorder {
 public:
  Recorder() = default;
  explicit Recorder(Detail detail);  // allocates; adding never does

  bool on() const { return detail_ != Detail::none; }
  bool in_full() const { return detail_ == Detail::trace; }
  void add(const Event& event) { events_[count_++ & mask_] = event; }
  std::vector<Event> events() const;  // oldest first
  std::uint64_t lost() const { return count_ > events_.size() ? count_ - events_.size() : 0; }

 private:
  Detail detail_ = Detail::none;
  std::vector<Event> events_;
  std::uint64_t count_ = 0, mask_ = 0;
};

// How stamps become time, and whose they are.
struct RecordContext {
  const Plan& plan;
  const Program& program;
  std::vector<int> world_rank;  // of every rank of the plan
  Moment begin, end;
};

// The events of one thread, as slices of the row (rank, thread); links get rows of their own.
void add_slices(const RecordContext& context, int thread, const Recorder& recorder, TraceText* out);

// The last `lines` events of all threads of a rank, in time, each with how long before `end` it was.
std::string last_events(const RecordContext& context, const std::vector<const Recorder*>& threads, std::size_t lines);

}  // namespace weft
