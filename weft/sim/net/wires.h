// Messages on wires. A wire is a clock: a rate, a latency, and the time until which it is taken. A message crosses its
// route wire by wire, and two times say where it is: its head (the first packet is there) and its tail (all of it is).
//
//   start = max(head, taken)           taken = start + bytes / rate
//   next head = start + packet / rate + latency
//   next tail = max(taken, tail + packet / rate) + latency
//
// A packet as long as the message is store-and-forward; a packet of 0 sends the first byte on at once. Wires serve
// messages in the order in which heads come. What comes more slowly than a wire could send takes of the wire's time
// only what its bytes need, so others fit between.
//
// Signals without data are too short to take a wire's time, and wait for nobody: they come when the latencies of their
// route have passed.
//
// Events of one wire come in the order of its messages, so only the earliest of each wire is in the heap; those of a
// rank's signals, sorted, likewise.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "weft/cluster/topology.h"
#include "weft/sim/net/events.h"

namespace weft::netsim {

// Events of one instant are taken in rounds: what an event causes at once comes in the next. Within a round, by the
// sender's send, then by its class: a key that does not depend on how ranks are numbered within a class.
inline constexpr int kRoundShift = 48, kSendShift = 16;
inline constexpr std::uint64_t kMaxRound = 0xffff, kStepSend = 0xffffffff;
inline constexpr std::uint64_t kKeyOfSend = (std::uint64_t{1} << kRoundShift) - 1;
inline std::uint64_t event_key(std::uint64_t round, std::uint64_t send, std::uint64_t seat_class) {
  return (round < kMaxRound ? round : kMaxRound) << kRoundShift | send << kSendShift | seat_class;
}

// One line of the cache: a million of them can be under way.
struct alignas(64) Message {
  Time head = 0, tail = 0;
  Time chain = 0;         // of its head, were no wire ever taken; when it has arrived, of its tail
  std::uint64_t key = 0;  // of its next event
  std::int64_t bytes = 0;
  std::uint16_t from_seat = 0, to_seat = 0, to = 0, hop = 0;  // to: a rank of the network
  std::int32_t next = 0;                                      // wire; -1: it arrives
  std::int32_t queue = 0;     // that its event is in; -1: in none, but in the heap alone
  std::int32_t instance = 0;  // steps: of what it is a part (step/machine.h)

  Time due() const { return next < 0 ? tail : head; }
  std::int32_t send() const { return static_cast<std::int32_t>(key >> kSendShift & 0xffffffff); }
};

// What a wire carried.
struct WireUse {
  std::int64_t bytes = 0, messages = 0;
};

struct Crossing {  // for timelines
  std::int32_t wire = 0, send = 0, from_seat = 0;
  Time begin = 0, end = 0;
};

class Wires {
 public:
  // `canonical` of a wire is the one that stands for it; empty: each for itself.
  // `node_of`: per seat, its rank of the network.
  Wires(const Topology& topology, std::vector<std::int32_t> canonical, std::vector<std::int32_t> node_of,
        bool keep_crossings);

  // Puts a message on its first wire. Its head and tail are now.
  void post(const Message& message, EventHeap* heap);
  // Signals of one burst, without data.
  void post_signals(std::vector<Message>* signals, EventHeap* heap);
  // The event of a message: true where it has arrived, as `arrived` says; else it took its next wire.
  bool step(std::int32_t message, EventHeap* heap, Message* arrived);

  void begin_instant(Time now, std::uint64_t round) { now_ = now, round_ = round; }

  std::vector<WireUse> uses() const;
  std::int64_t hops() const { return hops_; }
  const std::vector<Crossing>& crossings() const { return crossings_; }
  int canonical(int wire) const { return canonical_.empty() ? wire : canonical_[at(wire)]; }
  double bound_seconds(int wire) const;  // its bytes at its rate

 private:
  struct alignas(64) Clock {
    double picoseconds_a_byte = 0;
    Time latency = 0, taken = 0;
    std::int64_t bytes = 0;
    std::uint32_t messages = 0;
    std::int32_t to = 0;  // node
  };
  // Events, sorted, from `head` on; the first of them is in the heap. They lie side by side: a list through messages
  // would touch three cold lines per event instead of one.
  struct Queue {
    std::vector<Event> events;
    std::size_t head = 0;
  };
  std::int32_t add(const Message& message);
  std::uint64_t key_at(Time due, std::uint64_t send_key) const {
    return due == now_ ? std::min(round_ + 1, kMaxRound) << kRoundShift | send_key : send_key;
  }
  void take(std::int32_t id, EventHeap* heap);
  void schedule(std::int32_t id, std::int32_t queue, EventHeap* heap);
  void push(const Event& event, EventHeap* heap) const {
    __builtin_prefetch(&messages_[at(event.message)]);  // needed when it comes
    heap->push(event);
  }

  const Topology& topology_;
  const std::int64_t packet_;
  const bool keep_crossings_;
  std::vector<std::int32_t> canonical_;
  std::vector<std::int32_t> node_of_;
  std::vector<Clock> clocks_;
  std::vector<Queue> queues_;  // of every wire, then of every seat: for its signals
  std::vector<Message> messages_;
  std::vector<std::int32_t> free_;
  std::vector<Event> order_;  // of the signals that are being posted
  std::vector<Crossing> crossings_;
  std::int64_t hops_ = 0;
  Time now_ = 0;
  std::uint64_t round_ = 0;
};

}  // namespace weft::netsim
