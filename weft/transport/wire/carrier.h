// What carries whole messages between this rank's wire and its peers': UCX (ucx_carrier.h), or TCP under TLS
// (tls_carrier.h). The messenger (messenger.h) owns one; what both need, staging, holding back, cutting and sleeping,
// is there. Every call is made with the messenger's lock held, and so are the calls back.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "weft/transport/wire/message.h"

namespace weft {

// A message on its way: the carrier reads all of it until it has called sent().
struct Message {
  std::array<std::uint64_t, 2> envelope;  // of the carrier's own, in front of the header
  MessageHeader header;
  std::array<MessageCounter, kMostCounters> counters;
  const std::byte* data;  // its rows, packed
  std::byte* block;       // of staging; null where it has no rows
  Message* next;          // in the list of those at rest

  std::size_t num_counters() const { return std::size_t{header.counters_before} + header.counters_after; }
  std::size_t head_bytes() const { return sizeof header + num_counters() * sizeof(MessageCounter); }
  std::size_t data_bytes() const { return std::size_t{header.rows} * header.row_bytes; }
};
static_assert(offsetof(Message, header) == 16 && offsetof(Message, counters) == 16 + sizeof(MessageHeader));

inline constexpr std::size_t kMostHeadBytes = sizeof(MessageHeader) + kMostCounters * sizeof(MessageCounter);

class Carrier {
 public:
  // What a carrier says to its messenger.
  class Events {
   public:
    virtual ~Events() = default;
    // A whole message of that peer, each in the order in which it was sent: header and counters, then rows.
    virtual void received(int peer, std::span<const std::byte> head, std::span<const std::byte> data) noexcept = 0;
    virtual void sent(Message& message) = 0;
    virtual void written(std::byte* block) = 0;  // one run of write_rows()
    // The path to the peer is no more, or it says what cannot be. drop() follows.
    virtual void failed(int peer, std::string reason) noexcept = 0;
  };

  virtual ~Carrier() = default;
  virtual std::size_t most_data_bytes() const = 0;  // of one message
  virtual std::string address() const = 0;
  virtual void connect(int peer, std::string_view address) = 0;

  // Where the peer is dropped or was never connected, it is sent at once, to nobody.
  virtual void send(int peer, Message& message) = 0;
  // Into how many runs of bytes the rows fall that can be put into the peer's memory without its help; 0: they cannot.
  virtual std::uint32_t runs_to_write(int, const Rows&) { return 0; }
  // Puts them there: what is sent to that peer after this arrives after the rows.
  virtual void write_rows(int, const Rows&, std::byte*) {}
  virtual void add_segment(std::uint32_t, std::byte*, std::size_t) {}
  virtual void remove_segment(std::uint32_t) {}
  virtual std::size_t under_way() const = 0;  // what was given to it and has not left

  // Moves what can be moved without waiting; true where anything was.
  virtual bool progress() = 0;
  virtual int descriptor() const = 0;  // readable when there is something to progress, once armed
  // True where the descriptor may be slept on; false where there is more to progress first.
  virtual bool arm() = 0;

  // Nothing is to be had from that peer any more, and what is under way to it counts as sent.
  virtual void drop(int peer) = 0;
  // Ends all connections, in good order where nothing is under way; then it only waits to be destroyed.
  virtual void finish(std::chrono::nanoseconds at_most) = 0;
};

}  // namespace weft
