// How process ranks exchange set-up messages and descriptors. Each rank holds one end of a socket whose other
// end the hub keeps; the Hub collects one parcel from every rank and then sends all of them to everybody. That
// one operation is gather, barrier and the sharing of memory. The hub lives in the launcher, and its ranks
// inherit socket pairs, which have no name; or, under mpirun, in rank 0, where the others find it (mpirun.h).
//
// The wire: frames of {bytes, num_fds}, payload; the descriptors ride on the frame's first byte. The hub
// first sends each rank the control block's memfd. Both ends are non-blocking, so a stopped rank stops nobody
// else.
#pragma once

#include <poll.h>

#include <chrono>
#include <cstddef>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "weft/transport/local/memory.h"
#include "weft/transport/wire/tls_stream.h"

namespace weft {

// Bounded by the descriptors one message can carry (253) and a process may hold (1024, four per rank in the
// hub).
inline constexpr int kMaxLocalRanks = 128;

struct Frame {
  std::string bytes;
  std::vector<std::shared_ptr<const Fd>> fds;
};

// A non-blocking stream socket that carries frames; between hosts, under TLS.
class FrameSocket {
 public:
  FrameSocket() = default;
  explicit FrameSocket(Fd socket);
  explicit FrameSocket(std::unique_ptr<TlsStream> stream);  // whose handshake is done; carries no descriptors

  int fd() const { return tls_ ? tls_->fd() : socket_.get(); }
  bool has_outgoing() const { return !outgoing_.empty(); }
  short events() const { return static_cast<short>(POLLIN | (has_outgoing() ? POLLOUT : 0)); }
  void queue(Frame frame);
  // Sends and receives what can be without waiting. False once the other end is closed; what came before that
  // can still be taken.
  bool transfer();
  std::optional<Frame> next();
  void finish();  // says that nothing follows; what still comes can be taken

 private:
  bool send_some();
  bool receive_some();
  bool send_sealed();
  bool receive_sealed();

  Fd socket_;  // or
  std::unique_ptr<TlsStream> tls_;
  std::deque<Frame> outgoing_;
  std::size_t sent_ = 0;  // of outgoing_.front()
  std::string incoming_;
  std::deque<std::shared_ptr<const Fd>> incoming_fds_;
};

inline constexpr int kPollSliceMs = 50;  // how often a set-up call looks for dead peers

// Moves frames until one has come, or nothing once the hub has hung up; `look_around` is called in between with the
// time waited, and may throw.
template <class LookAround>
std::optional<Frame> receive_frame(FrameSocket& socket, LookAround&& look_around) {
  const auto start = std::chrono::steady_clock::now();
  while (true) {
    const bool open = socket.transfer();
    if (auto frame = socket.next()) return frame;
    if (!open) return std::nullopt;
    pollfd ready{socket.fd(), socket.events(), 0};
    poll(&ready, 1, kPollSliceMs);
    look_around(std::chrono::nanoseconds(std::chrono::steady_clock::now() - start));
  }
}

// What one rank contributes to an exchange.
struct Parcel {
  std::string text;
  std::shared_ptr<const Fd> fd;  // or null
};
Frame pack(const std::vector<Parcel>& parcels);
std::vector<Parcel> unpack(const Frame& frame);

// The serving side. The owner polls: add_polls, poll, serve.
class Hub {
 public:
  Hub(int num_ranks, std::shared_ptr<const Fd> control);

  Fd take_rank_end(int rank);      // the other end of a new socket pair, once
  void seat(int rank, Fd socket);  // or the rank has come by itself, once
  bool seated(int rank) const { return seats_[rank].socket.fd() >= 0; }
  void add_polls(std::vector<pollfd>& polls) const;  // one entry per rank
  void serve();

  bool open(int rank) const { return seats_[rank].open; }  // seated, and has not hung up
  bool has_outgoing() const;                               // to ranks that have not hung up

  bool attached(int rank) const { return seats_[rank].process != nullptr; }
  // The pidfd the rank sent in its first parcel: of the rank itself, where the child is only its parent.
  const std::shared_ptr<const Fd>& process(int rank) const { return seats_[rank].process; }

 private:
  struct Seat {
    FrameSocket socket;
    std::deque<Parcel> parcels;
    std::shared_ptr<const Fd> process;
    bool open = false;
  };
  void collect(Seat& seat);
  bool answer_if_complete();

  std::shared_ptr<const Fd> control_;
  std::vector<Seat> seats_;
};

}  // namespace weft
