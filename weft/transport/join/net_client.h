// A rank's end of its connection to the hub of a world of several hosts (net_hub.h), with a thread of its own: it
// beats, takes gathers' answers, writes what the hub says of ranks of other hosts into the control block of this host,
// tells the hub of failures seen here, and judges the hub itself: no digest for the deadline, and rank 0 has failed.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "weft/transport/join/net_messages.h"
#include "weft/transport/local/control.h"
#include "weft/transport/local/memory.h"
#include "weft/transport/local/wait.h"

namespace weft {

class NetClient {
 public:
  struct Options {
    int rank = 0, size = 1;
    std::string host;  // what this rank's host is called
    Patience patience;
  };
  NetClient(FrameSocket socket, Options options);
  ~NetClient();  // finishes
  NetClient(const NetClient&) = delete;
  NetClient& operator=(const NetClient&) = delete;

  // From here on the lines of the `remote` ranks follow what the hub says, and failures go both ways.
  void watch(Control control, std::vector<int> remote);

  // Everyone's texts, in rank order. `look_around` is called now and then with the time waited, and may throw.
  // Throws where a rank has failed and nobody watches a control block yet, and where the hub is gone.
  std::vector<std::string> gather(const std::string& mine,
                                  const std::function<void(std::chrono::nanoseconds)>& look_around);

  // How long ago the hub last said anything; 0 on its own rank.
  std::chrono::nanoseconds hub_silence() const;
  // How long a rank of another host has been silent, as far as the hub has said. While the hub is silent nothing is
  // known of the others, so only rank 0's silence grows.
  std::chrono::nanoseconds silent_for(int rank) const;

  // Says now, and not with the next beat, how far this rank has come.
  void beat_now();

  // The data path to a rank has broken: it has failed, unless it turns out to have left. From any thread.
  void lost(int rank) noexcept;

  // Tells the hub that this rank cannot join, in a few words.
  void give_up(const std::string& reason) noexcept;

  // Says that this rank has left (if its line in the control block says so) or what has failed, and closes. Once.
  void finish() noexcept;

 private:
  using Clock = std::chrono::steady_clock;
  void run();
  void turn();
  void take(const Frame& frame);
  void mirror(const std::vector<Pulse>& pulses) const;
  void fail_here(NetFailure failure);
  void report_failure() const;
  void tell_failure();
  void judge_hub(Clock::time_point now);
  void judge_lost(Clock::time_point now);
  Frame own_beat() const;
  [[noreturn]] void throw_failure() const;

  Options options_;
  Fd wake_;
  mutable std::mutex mutex_;  // of all below, but for the atomics
  std::condition_variable news_;
  FrameSocket socket_;
  std::optional<Control> control_;
  std::vector<int> remote_;
  std::deque<std::vector<std::string>> answers_;
  std::optional<NetFailure> failure_;
  bool open_ = true;
  bool closing_ = false;  // the hub ends in order
  bool told_ = false;     // the hub knows of the failure
  Clock::time_point turned_, beaten_;
  std::atomic<std::int64_t> heard_ns_;
  std::vector<std::atomic<std::int64_t>> lost_ns_;  // when the data path broke, 0: it has not
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

}  // namespace weft
