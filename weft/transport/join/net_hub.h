// The hub of a world of several hosts: a thread in rank 0's process that every rank has one TCP connection to. It lets
// ranks in that hold the secret (net_handshake.h), answers gathers, passes beats on as digests, and is the one judge of
// who has failed: a rank whose connection closes before it has left, one that is silent for the deadline, one that
// does not join in time, or the first of which some host says so. All ranks hear of it at once.
//
// Rank 0 leaves last: the hub stays until every other rank has left or one has failed, at most Patience::total.
#pragma once

#include <chrono>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "weft/transport/join/net_handshake.h"
#include "weft/transport/join/net_messages.h"
#include "weft/transport/local/memory.h"
#include "weft/transport/local/wait.h"

namespace weft {

// How often a rank beats and the hub tells of it; less often the more there are, as the traffic of digests grows with
// the square of their number.
std::chrono::milliseconds beat_period(int num_ranks);

class NetHub {
 public:
  NetHub(int num_ranks, Fd listener, std::string secret, const Patience& patience);
  ~NetHub();
  NetHub(const NetHub&) = delete;
  NetHub& operator=(const NetHub&) = delete;

  Fd take_own_end();  // of rank 0, once

 private:
  using Clock = std::chrono::steady_clock;
  struct Seat {
    FrameSocket socket;
    bool open = false;    // connected now
    bool seated = false;  // has been
    std::string host;
    std::deque<Parcel> parcels;
    Beat beat;
    Clock::time_point heard{};
    std::optional<Clock::time_point> lost;  // its connection closed though it has not left
    std::string how;                        // it closed
  };

  void run();
  void turn(bool until_stopped);
  void poll_all(bool until_stopped);
  void admit();
  void greet(Guest& guest);
  void seat(int rank, FrameSocket socket);
  void serve();
  void collect(Seat& seat);
  void hear(Seat& seat, const Frame& frame);
  void answer_if_complete();
  void judge();
  void judge_rank(int rank);
  void forgive_own_sleep();
  void send_digest();
  void declare(NetFailure failure);
  bool owes(const Seat& seat) const;
  bool may_close(Clock::time_point stopped) const;
  void close_all();
  std::string who_was_refused() const;

  Patience patience_;
  std::string secret_;
  Fd listener_;
  Fd stop_;
  Fd own_end_;
  std::vector<Seat> seats_;
  struct Waiting {
    Guest guest;
    bool ready = true;  // to be looked at
  };
  std::deque<Waiting> guests_;  // who came first is first
  std::deque<std::string> refusals_;
  std::optional<NetFailure> failure_;
  Clock::time_point birth_, turned_, digested_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace weft
