// What carries stores and signals to ranks whose memory is not mapped here. One message brings rows of data and the
// counters that cover them, so that no second message, fence or answer is needed.
//
// The sender writes its rows into staging (fixed memory, page-aligned, shared by all threads and ops of the rank) and
// hands them over; from there on they belong to the wire until they have left. The receiver's wire copies them to their
// place in its own segment and then raises the counters, with release, and rings the rank's bell.
//
// Promises:
//   order      what this rank sends to one peer is applied there in the order of the calls (the drain rule of plan.h)
//   progress   data moves in progress(), in stage() while it waits, and in a thread of the wire's own that sleeps on
//              its descriptor; so peers are served while this rank computes, or is in no call at all
//   failure    nothing here throws because a peer is gone: that is reported to the transport, whose check() throws.
//              Only stage() waits, and it calls check().
// Every call may be made from any thread of the rank.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace weft {

// What becomes of a row where it lands: nothing, or its bf16 values become f32 ones, twice as long.
enum class Landing : std::uint32_t { as_it_is, widened };

// A box of bytes in one rank's memory: rows of row_bytes, as they travel, stride apart, from `offset` of its segment
// on.
struct Rows {
  std::uint32_t segment = 0;  // Segment::id
  std::uint64_t offset = 0;
  std::uint64_t rows = 0, row_bytes = 0, stride = 0;
  Landing landing = Landing::as_it_is;

  std::uint64_t bytes() const { return rows * row_bytes; }
  // Whether they land within a segment of that size. 128 bits: an offset near 2^64 must not wrap round into it.
  bool fit(std::uint64_t segment_bytes) const {
    const auto end = static_cast<unsigned __int128>(offset) + static_cast<unsigned __int128>(rows - 1) * stride +
                     row_bytes * growth();
    return rows == 0 || end <= segment_bytes;
  }
  std::uint64_t growth() const { return landing == Landing::widened ? 2 : 1; }  // bytes landed for one that travels
};

// A counter of the receiver: a word of its segment.
struct RemoteCounter {
  std::uint32_t segment = 0;
  std::uint64_t offset = 0;
};

class Wire {
 public:
  virtual ~Wire() = default;

  // The most that one stage() gives.
  virtual std::size_t most_staged_bytes() const = 0;
  // Room for `bytes` of packed rows, 64-byte aligned. Waits, moving data, while all staging is under way.
  virtual std::byte* stage(std::size_t bytes) = 0;
  // Sends what stage() gave, filled with to.bytes() of packed rows, then raises each counter by one, in this order.
  // Takes the staging back.
  virtual void put(int peer, const Rows& to, std::byte* staged, std::span<const RemoteCounter> counters) = 0;
  // Bytes that were staged and have not left yet. Who can wait with more does well to: what is not staged long before
  // it leaves is still in the cache then.
  virtual std::size_t backlog() const = 0;
  // Raises a counter. May be held back to travel with what is next sent to that peer: until flush(), or a progress()
  // some 20 us later, or until the wire's own thread takes over.
  virtual void signal(int peer, const RemoteCounter& counter) = 0;
  virtual void flush() = 0;

  // Sends what has been held back for long, moves what can be moved without waiting; true where anything came in.
  virtual bool progress() = 0;

  // While a thread moves data itself, in a loop or between tiles, the wire's own thread stays asleep. Calls nest and
  // count. After leave() it takes over, and sends what is held back, within a millisecond, or at once where rows have
  // not left yet: who comes back before that has paid nothing. After rest() it does so at once: for a thread that
  // sleeps, and then attends again. A thread that rests need not have attended: the count may be below zero.
  virtual void attend() = 0;
  virtual void leave() = 0;
  virtual void rest() = 0;
};

}  // namespace weft
