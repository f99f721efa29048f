#include "weft/sim/net/wires.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "weft/base/error.h"

namespace weft::netsim {
namespace {

constexpr Time kEndOfTime = Time{1} << 61;
constexpr std::size_t kMostCrossings = std::size_t{1} << 22;  // for a timeline: what comes later is not on it
constexpr std::size_t kMostPassed = 64;                       // events that a queue keeps before its head

// Rounded up, so that no number of messages is faster than its bytes.
Time serial(double picoseconds_a_byte, std::int64_t bytes) {
  const double time = std::ceil(picoseconds_a_byte * static_cast<double>(bytes));
  if (time >= static_cast<double>(kEndOfTime))
    bad_input("{} bytes take more than 26 days on one link; give it a higher rate", bytes);
  return static_cast<Time>(time);
}

}  // namespace

Wires::Wires(const Topology& topology, std::vector<std::int32_t> canonical, std::vector<std::int32_t> node_of,
             bool keep_crossings)
    : topology_(topology),
      packet_(topology.packet_bytes),
      keep_crossings_(keep_crossings),
      canonical_(std::move(canonical)),
      node_of_(std::move(node_of)),
      clocks_(topology.wires.size()),
      queues_(topology.wires.size() + node_of_.size()) {
  for (std::size_t w = 0; w < topology.wires.size(); ++w) {
    clocks_[w].picoseconds_a_byte = 1e12 / topology.wires[w].bytes_per_s;
    clocks_[w].latency = sim::picoseconds(topology.wires[w].latency_s);
    clocks_[w].to = topology.wires[w].to;
  }
}

double Wires::bound_seconds(int wire) const {
  return static_cast<double>(clocks_[at(wire)].bytes) / topology_.wires[at(wire)].bytes_per_s;
}

std::vector<WireUse> Wires::uses() const {
  std::vector<WireUse> out;
  for (std::size_t w = 0; w < topology_.wires.size(); ++w) out.push_back({clocks_[w].bytes, clocks_[w].messages});
  return out;
}

std::int32_t Wires::add(const Message& message) {
  if (free_.empty()) {
    messages_.push_back(message);
    return int_size(messages_) - 1;
  }
  const std::int32_t id = free_.back();
  free_.pop_back();
  messages_[at(id)] = message;
  return id;
}

void Wires::post(const Message& message, EventHeap* heap) {
  const std::int32_t id = add(message);
  const std::int32_t from = node_of_[message.from_seat];
  messages_[at(id)].next = topology_.next(from, message.to, 0, from);
  take(id, heap);
}

// In the order in which they come, so that they can queue.
void Wires::post_signals(std::vector<Message>* signals, EventHeap* heap) {
  for (Message& m : *signals) {
    const int from = node_of_[m.from_seat];
    int node = from;
    Time latency = 0;
    for (int hop = 0;; ++hop) {
      const int wire = topology_.next(from, m.to, hop, node);
      if (wire < 0) break;
      latency += clocks_[at(wire)].latency;
      node = clocks_[at(wire)].to;
    }
    m.next = -1;
    m.tail += latency;
    m.chain += latency;
    m.key = key_at(m.tail, m.key);
  }
  order_.clear();
  for (int i = 0; i < int_size(*signals); ++i) order_.push_back({(*signals)[at(i)].tail, (*signals)[at(i)].key, i, 0});
  std::sort(order_.begin(), order_.end());
  for (const Event& event : order_) {
    const Message& m = (*signals)[at(event.message)];
    schedule(add(m), int_size(topology_.wires) + m.from_seat, heap);
  }
}

bool Wires::step(std::int32_t id, EventHeap* heap, Message* arrived) {
  Message& m = messages_[at(id)];
  if (m.queue >= 0) {
    Queue& queue = queues_[at(m.queue)];
    if (++queue.head == queue.events.size()) {
      queue.events.clear(), queue.head = 0;
    } else {
      push(queue.events[queue.head], heap);
      if (queue.head >= kMostPassed && 2 * queue.head >= queue.events.size()) {
        queue.events.erase(queue.events.begin(), queue.events.begin() + static_cast<std::ptrdiff_t>(queue.head));
        queue.head = 0;
      }
    }
  }
  if (m.next >= 0) {
    take(id, heap);
    return false;
  }
  *arrived = m;
  free_.push_back(id);
  return true;
}

void Wires::take(std::int32_t id, EventHeap* heap) {
  Message& m = messages_[at(id)];
  const std::int32_t stands_for_it = canonical(m.next), node = clocks_[at(m.next)].to;
  Clock& clock = clocks_[at(stands_for_it)];
  const Time all = serial(clock.picoseconds_a_byte, m.bytes);
  const Time packet = packet_ >= m.bytes ? all : serial(clock.picoseconds_a_byte, packet_);
  const Time start = std::max(m.head, clock.taken);
  clock.taken = start + all;
  if (clock.taken >= kEndOfTime) bad_input("the run takes more than 26 days of the network; give it higher rates");
  clock.bytes += m.bytes;
  ++clock.messages;
  ++hops_;
  if (keep_crossings_ && crossings_.size() < kMostCrossings)
    crossings_.push_back({stands_for_it, m.send(), m.from_seat, start, clock.taken});
  m.next = topology_.next(node_of_[m.from_seat], m.to, ++m.hop, node);
  m.tail = std::max(clock.taken, m.tail + packet) + clock.latency;
  m.head = start + packet + clock.latency;
  m.chain += (m.next < 0 ? all : packet) + clock.latency;
  m.key = key_at(m.due(), m.key & kKeyOfSend);
  schedule(id, stands_for_it, heap);
}

// A tail that comes slowly can be due before one that was queued earlier: it goes to the heap alone.
void Wires::schedule(std::int32_t id, std::int32_t where, EventHeap* heap) {
  Message& m = messages_[at(id)];
  Queue& queue = queues_[at(where)];
  const Event event{m.due(), m.key, id, 0};
  m.queue = queue.events.empty() || !(event < queue.events.back()) ? where : -1;
  if (m.queue < 0) return push(event, heap);
  queue.events.push_back(event);
  if (queue.events.size() == 1) push(event, heap);
}

}  // namespace weft::netsim
