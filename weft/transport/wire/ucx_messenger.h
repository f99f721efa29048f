// The UCX wire at work. One lock around the worker: whoever holds it sends or receives; the handlers of UCX run under
// it too. Signals that are held back have a lock of their own, so that signal() never waits for a copy in progress.
// What is to be told to the host (a peer lost) is noted under the lock and told after it has been released.
// Only for builds with UCX.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <deque>
#include <mutex>
#include <string>
#include <vector>

#include "weft/transport/wire/ucx_grants.h"
#include "weft/transport/wire/ucx_message.h"
#include "weft/transport/wire/ucx_order.h"
#include "weft/transport/wire/ucx_staging.h"
#include "weft/transport/wire/ucx_tempo.h"
#include "weft/transport/wire/ucx_watch.h"
#include "weft/transport/wire/ucx_wire.h"
#include "weft/transport/wire/ucx_worker.h"

namespace weft {

class UcxMessenger : public UcxWire {
 public:
  explicit UcxMessenger(WireHost host);
  ~UcxMessenger() override;

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
  // A message on its way: UCX reads the header until it is sent.
  struct Message {
    MessageHeader header;
    std::array<MessageCounter, kMostCounters> counters;
    UcxMessenger* wire;
    std::byte* block;  // of staging; null where it has no rows
    Message* next;     // in the list of those at rest
  };
  static_assert(offsetof(Message, counters) == sizeof(MessageHeader));

  struct Peer {
    UcxMessenger* wire = nullptr;
    int rank = 0;
    ucp_ep_h endpoint = nullptr;
    std::uint64_t key = 0, sequence = 0;
    std::vector<MessageCounter> held;  // under held_mutex_
    InOrder order;
    Grants grants;
    bool failed = false, told = false;
    std::string reason;
  };

  using Lock = std::unique_lock<std::mutex>;
  static constexpr unsigned kMessages = 0, kGrants = 1;  // UCX's numbers of the two kinds

  // ucx_messenger_send.cc; all with mutex_ held
  Message& fresh_message(Peer& peer);
  void post(Peer& peer, Message& message, const std::byte* data);
  void post_counters(Peer& peer, std::span<const MessageCounter> counters);
  void take_held(Peer& peer);  // into taken_
  void post_held(Peer& peer);
  void post_all_held();
  bool held_for_long() const;
  bool write_rows(Peer& peer, const Rows& to, std::byte* staged);
  void grant(Peer& peer, const Registrations::Entry& segment);
  void handed_over(Peer& peer, Message& message, ucs_status_ptr_t request);
  void sent(Message& message);
  static void on_sent(void* request, ucs_status_t status, void* message);

  // With mutex_ held.
  ucs_status_t receive(std::span<const std::byte> header, std::span<const std::byte> data);
  void apply(Peer& peer, std::span<const std::byte> header, std::span<const std::byte> data);
  void blame(Peer& peer, std::string reason);
  static ucs_status_t on_grant(void* wire, const void* header, std::size_t header_bytes, void* data, std::size_t bytes,
                               const ucp_am_recv_param_t* param);
  static ucs_status_t on_message(void* wire, const void* header, std::size_t header_bytes, void* data,
                                 std::size_t bytes, const ucp_am_recv_param_t* param);
  static void on_failure(void* peer, ucp_ep_h endpoint, ucs_status_t status);

  void serve();            // what the watch calls
  void tell(Lock lock);    // releases the lock, then tells the host who is lost
  void close(Peer& peer);  // an endpoint that has failed
  void flush_for(std::chrono::nanoseconds at_most);
  void close_all(std::chrono::nanoseconds at_most);

  WireHost host_;
  std::uint64_t key_;
  mutable std::mutex mutex_;
  Staging staging_;
  UcxWorker worker_;
  Registrations registrations_;
  std::deque<Peer> peers_;  // never moved: UCX holds pointers
  SegmentTable segments_;
  std::deque<Message> messages_;
  Message* at_rest_ = nullptr;
  std::size_t under_way_ = 0;  // messages that UCX has not sent yet
  std::vector<MessageCounter> taken_;
  bool any_lost_ = false;  // someone is to be told of

  std::mutex held_mutex_;
  std::atomic<std::size_t> num_held_{0};
  std::atomic<std::int64_t> held_since_{0};  // ticks(), when the first of them was held back

  std::atomic<std::uint64_t> bytes_sent_{0}, bytes_received_{0}, messages_sent_{0}, messages_received_{0};
  Tempo tempo_;                   // of the watch's thread
  std::unique_ptr<Watch> watch_;  // last: its thread uses all the rest
};

}  // namespace weft
