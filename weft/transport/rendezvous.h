// How process ranks exchange set-up messages and descriptors. Each rank holds one end of a socket pair whose
// other end the launcher keeps; the launcher's Hub collects one parcel from every rank and then sends all of
// them to everybody. That one operation is gather, barrier and the sharing of memory. No socket has a name.
//
// The wire: frames of {bytes, num_fds}, payload; the descriptors ride on the frame's first byte. The hub
// first sends each rank the control block's memfd. Both ends are non-blocking, so a stopped rank stops nobody
// else.
#pragma once

#include <poll.h>

#include <cstddef>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "weft/transport/memory.h"

namespace weft {

// Bounded by the descriptors one message can carry (253) and a process may hold (1024, four a rank in the
// hub).
inline constexpr int kMaxLocalRanks = 128;

struct Frame {
  std::string bytes;
  std::vector<std::shared_ptr<const Fd>> fds;
};

// A non-blocking stream socket that carries frames.
class FrameSocket {
 public:
  FrameSocket() = default;
  explicit FrameSocket(Fd socket);

  int fd() const { return socket_.get(); }
  short events() const { return static_cast<short>(POLLIN | (outgoing_.empty() ? 0 : POLLOUT)); }
  void queue(Frame frame);
  // Sends and receives what can be without waiting. False once the other end is closed; what came before that
  // can still be taken.
  bool transfer();
  std::optional<Frame> next();

 private:
  bool send_some();
  bool receive_some();

  Fd socket_;
  std::deque<Frame> outgoing_;
  std::size_t sent_ = 0;  // of outgoing_.front()
  std::string incoming_;
  std::deque<std::shared_ptr<const Fd>> incoming_fds_;
};

// What one rank contributes to an exchange.
struct Parcel {
  std::string text;
  std::shared_ptr<const Fd> fd;  // or null
};
Frame pack(const std::vector<Parcel>& parcels);
std::vector<Parcel> unpack(const Frame& frame);

// The launcher's side. The owner polls: add_polls, poll, serve.
class Hub {
 public:
  Hub(int num_ranks, std::shared_ptr<const Fd> control);

  Fd take_rank_end(int rank);                        // for the child to inherit, once
  void add_polls(std::vector<pollfd>& polls) const;  // one entry a rank
  void serve();

  bool attached(int rank) const { return seats_[rank].process != nullptr; }
  // The pidfd the rank sent in its first parcel: of the rank itself, where the child is only its parent.
  const std::shared_ptr<const Fd>& process(int rank) const { return seats_[rank].process; }

 private:
  struct Seat {
    FrameSocket socket;
    Fd rank_end;
    std::deque<Parcel> parcels;
    std::shared_ptr<const Fd> process;
    bool open = true;
  };
  void collect(Seat& seat);
  bool answer_if_complete();

  std::vector<Seat> seats_;
};

}  // namespace weft
