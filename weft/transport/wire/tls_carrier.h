// Messages over TCP under TLS 1.3 (tls_stream.h): one connection per pair of ranks, made by the higher rank. The key
// comes from the world's secret and the names of the two ranks, so the handshake proves who calls. A rank listens at
// one address of one device, and only until all that are to call it have: then the port is gone.
//
// A message starts a record of its own: head and rows in pieces of 16 KB, each encrypted from staging into OpenSSL's
// buffer and handed to the kernel at once. What the kernel does not take waits in a line per peer. The receiver takes
// up to 64 KB with one recv(), decrypts, gathers the message, and the messenger copies its rows to their place.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "weft/base/os/fd.h"
#include "weft/transport/join/net_address.h"
#include "weft/transport/wire/carrier.h"
#include "weft/transport/wire/network_wire.h"
#include "weft/transport/wire/tls_stream.h"

namespace weft {

class TlsCarrier final : public Carrier {
 public:
  TlsCarrier(const WireHost& host, Events& events);

  // Rows of eight records, with the head of the message.
  static constexpr std::size_t kMostData = 8 * TlsStream::kRecord - 2048;
  static_assert(kMostHeadBytes <= 2048);

  std::size_t most_data_bytes() const override { return kMostData; }
  std::string address() const override;
  void connect(int peer, std::string_view address) override;
  void send(int peer, Message& message) override;
  std::size_t under_way() const override { return under_way_; }
  bool progress() override;
  int descriptor() const override { return epoll_.get(); }
  bool arm() override { return true; }  // it is readable as long as there is something to do
  void drop(int peer) override;
  void finish(std::chrono::nanoseconds at_most) override;

 private:
  using Clock = std::chrono::steady_clock;
  struct Link {
    std::unique_ptr<TlsStream> stream;  // null: not called yet, or dropped
    NetAddress address;                 // to call it at
    int calls = 0;
    bool open = false;     // the handshake is done
    bool dropped = false;  // or never to be had
    std::uint32_t watched = 0;
    std::deque<Message*> line;
    std::size_t written = 0;  // of the first in line
    std::vector<std::byte> inbox;
    std::size_t filled = 0;
  };
  // Somebody who has called and has not proved who he is.
  struct Caller {
    std::unique_ptr<TlsStream> stream;
    Clock::time_point since;
  };

  void listen(const std::string& device);
  void admit();
  void turn(int fd);                      // of a caller
  void seat(std::unique_ptr<TlsStream>);  // a caller who has
  int rank_named_by(std::string_view identity) const;
  std::string key_for(std::string_view identity) const;
  void stop_listening();

  void call(int peer);
  void visit(int peer, std::uint32_t events);
  void shake(int peer);
  void read_some(int peer);
  void take_messages(int peer);
  void write_some(int peer);
  std::span<const std::byte> next_piece(const Message& message, std::size_t written);
  void watch(int peer);
  void lose(int peer, std::string reason);

  Events& events_;
  int rank_;
  std::string secret_;
  Fd epoll_;
  Listener listener_;
  std::size_t awaited_ = 0;  // peers that have not called yet
  std::vector<Link> links_;
  std::vector<Caller> callers_;
  std::size_t under_way_ = 0;
  std::vector<std::byte> scratch_;  // one piece
};

}  // namespace weft
