// The wire at work, over any carrier. One lock around the carrier: whoever holds it sends or receives. Signals that are
// held back have a lock of their own, so that signal() never waits for a copy in progress. What is to be told to the
// host (a peer lost) is noted under the lock and told after it has been released.
#pragma once

#include <atomic>
#include <chrono>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "weft/transport/wire/carrier.h"
#include "weft/transport/wire/message.h"
#include "weft/transport/wire/network_wire.h"
#include "weft/transport/wire/staging.h"
#include "weft/transport/wire/tempo.h"
#include "weft/transport/wire/watch.h"

namespace weft {

class Messenger final : public NetworkWire, private Carrier::Events {
 public:
  using MakeCarrier = std::function<std::unique_ptr<Carrier>(const WireHost&, Carrier::Events&)>;
  Messenger(WireHost host, const MakeCarrier& make_carrier);
  ~Messenger() override;

  std::string address() const override;
  void connect(int peer, std::string_view address) override;
  void add_segment(std::uint32_t id, std::byte* base, std::size_t bytes) override;
  void remove_segment(std::uint32_t id) override;
  Counts counts() const override;

  std::size_t most_staged_bytes() const override { return staging_.most_bytes(); }
  std::byte* stage(std::size_t bytes) override;
  std::size_t backlog() const override { return staging_.units_in_use() * Staging::kUnit; }
  void put(int peer, const Rows& to, std::byte* staged, std::span<const RemoteCounter> counters) override;
  void signal(int peer, const RemoteCounter& counter) override;
  void flush() override;
  bool progress() override;
  void attend() override { watch_->attend(); }
  void leave() override { backlog() > 0 ? watch_->rest() : watch_->leave(); }
  void rest() override { watch_->rest(); }

 private:
  struct Peer {
    int rank = 0;
    std::vector<MessageCounter> held;  // under held_mutex_
    bool failed = false, told = false;
    std::string reason;
  };
  using Lock = std::unique_lock<std::mutex>;

  // messenger_send.cc; all with mutex_ held
  Message& fresh_message();
  void post(Peer& peer, Message& message);
  void post_counters(Peer& peer, std::span<const MessageCounter> counters);
  void post_rows(Peer& peer, const Rows& to, std::byte* staged, std::span<const RemoteCounter> counters);
  void take_held(Peer& peer);
  void post_held(Peer& peer);
  void post_all_held();
  bool held_for_long() const;

  // With mutex_ held: what the carrier says.
  void received(int peer, std::span<const std::byte> head, std::span<const std::byte> data) noexcept override;
  void sent(Message& message) override;
  void written(std::byte* block) override { staging_.give_back(block); }
  void failed(int peer, std::string reason) noexcept override;

  void serve();          // what the watch calls
  void tell(Lock lock);  // releases the lock, then tells the host who is lost
  void flush_for(std::chrono::nanoseconds at_most);

  WireHost host_;
  mutable std::mutex mutex_;
  Staging staging_;
  std::vector<Peer> peers_;
  SegmentTable segments_;
  std::deque<Message> messages_;
  Message* at_rest_ = nullptr;
  std::vector<MessageCounter> taken_;
  bool any_lost_ = false;  // someone is to be told of

  std::mutex held_mutex_;
  std::atomic<std::size_t> num_held_{0};
  std::atomic<std::int64_t> held_since_{0};  // ticks(), when the first of them was held back

  std::atomic<std::uint64_t> bytes_sent_{0}, bytes_received_{0}, messages_sent_{0}, messages_received_{0};
  Tempo tempo_;  // of the watch's thread
  std::unique_ptr<Carrier> carrier_;
  std::unique_ptr<Watch> watch_;  // last: its thread uses all the rest
};

}  // namespace weft
