// What a burst sends when it ends: messages with data go to their wires one by one, signals without any all together.
#pragma once

#include <cstdint>
#include <vector>

#include "weft/sim/net/wires.h"

namespace weft::netsim {

class Outbox {
 public:
  Outbox(Wires* wires, EventHeap* heap) : wires_(wires), heap_(heap) {}
  Outbox(const Outbox&) = delete;  // its wires stay where they are, and so does their owner
  Outbox& operator=(const Outbox&) = delete;

  void send(const Message& message) {
    if (message.bytes == 0)
      signals_.push_back(message);
    else
      send_data(message);
  }
  void send_data(const Message& message) {
    ++messages_, bytes_ += message.bytes;
    wires_->post(message, heap_);
  }
  void end_burst() {
    if (signals_.empty()) return;
    wires_->post_signals(&signals_, heap_);
    signals_.clear();
  }

  std::int64_t messages() const { return messages_; }  // with data, so far
  std::int64_t bytes() const { return bytes_; }

 private:
  Wires* wires_;
  EventHeap* heap_;
  std::vector<Message> signals_;  // of the burst that ends
  std::int64_t messages_ = 0, bytes_ = 0;
};

}  // namespace weft::netsim
