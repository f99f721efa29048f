// What one message of the wire says, how a put is cut into messages, and what the receiver does with one. Plain memory
// in, plain memory out: nothing here knows a network, so every case can be tested without one.
//
// A message is a MessageHeader, then its counters, then (as the payload) packed rows. The receiver raises the counters
// that were held back before, copies the rows to their place, widened if it says so, and raises the counters that cover
// them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "weft/transport/wire/wire.h"

namespace weft {

struct MessageCounter {
  std::uint64_t offset;
  std::uint32_t segment;
  std::uint32_t amount;
};
static_assert(sizeof(MessageCounter) == 16);

// In the byte order of the machine: ranks of one world run one program.
struct MessageHeader {
  std::uint64_t offset, stride;
  std::uint32_t from;
  std::uint32_t segment, rows, row_bytes;
  std::uint16_t counters_before, counters_after;
  std::uint32_t landing;  // a Landing
};
static_assert(sizeof(MessageHeader) == 40);

// Of both kinds together, in one message.
inline constexpr std::size_t kMostCounters = 64;

// How a put is cut into boxes of at most `most` bytes, in the order of their packed bytes. Whole rows where one fits;
// rows without gaps between them count as one long row.
class Cut {
 public:
  struct Piece {
    Rows box;
    std::uint64_t packed;  // where its bytes begin among those of the put
  };

  Cut(Rows rows, std::uint64_t most);
  std::uint64_t size() const { return size_; }
  Piece operator[](std::uint64_t index) const;

 private:
  Rows rows_;
  std::uint64_t most_;
  std::uint64_t size_ = 0;
  std::uint64_t rows_a_piece_ = 0, pieces_a_row_ = 0;  // one of them, the other 0
};

// The segments that peers may write to, by id.
class SegmentTable {
 public:
  void add(std::uint32_t id, std::byte* base, std::size_t bytes);
  void remove(std::uint32_t id);

  // Does what the message says: true where it raised a counter. Rows and counters of segments that are not here are
  // left out: their op is gone. Throws bad_input, having written nothing, where the message says something impossible.
  bool apply(const MessageHeader& header, const MessageCounter* counters, std::span<const std::byte> data) const;

 private:
  struct Entry {
    std::uint32_t id;
    std::byte* base;
    std::size_t bytes;
  };
  const Entry* find(std::uint32_t id) const;
  void check_rows(const MessageHeader& header, const Entry& entry) const;
  void check_counters(const MessageCounter* counters, std::size_t num_counters) const;
  bool raise(const MessageCounter* counters, std::size_t num_counters) const;

  std::vector<Entry> entries_;  // by id
};

}  // namespace weft
