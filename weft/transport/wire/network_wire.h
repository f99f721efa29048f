// A wire over a network, as the transport sees it: TCP under TLS (tls_carrier.h) or UCX (ucx_carrier.h), with the same
// promises (wire.h).
//
// Set-up: make(), tell the peers address(), connect() to each of theirs, add_segment() for memory that they may write
// to.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "weft/transport/wire/wire.h"
#include "weft/transport/wire/wire_kind.h"

namespace weft {

struct Bell;

// What the wire needs of the rank it serves.
struct WireHost {
  int rank = 0, size = 1;
  std::vector<int> peers;  // that connect() will be called for
  std::string device;      // network device to bind to, as "eth0"; empty: any
  std::string secret;      // that all ranks of this world hold and nobody else; TLS makes its keys of it
  Bell* bell = nullptr;
  // A peer's connection failed, or it sent what cannot be: once per peer. From any thread, with no lock of the wire
  // held; must not block. A peer that closed its wire in good order is reported too: only the host knows that it had
  // left.
  std::function<void(int peer, std::string_view reason)> lost;
  std::function<void()> check;  // throws when a rank has failed
  std::size_t staging_bytes = 16 << 20;
  bool trusted = false;        // UCX: may use TCP; make() sets it
  bool remote_writes = false;  // UCX: rows are put into peers' memory and a message follows: remote_writes_wanted()
};

class NetworkWire : public Wire {
 public:
  // Throws bad_input where this build has no such wire or this machine no such device.
  static std::unique_ptr<NetworkWire> make(WireKind kind, WireHost host);
  // WEFT_WIRE_PUT=always or never; auto, or not set: where this machine has RDMA devices.
  static bool remote_writes_wanted();

  // What a peer needs to connect to this rank.
  virtual std::string address() const = 0;
  virtual void connect(int peer, std::string_view address) = 0;

  // From add to remove, peers may write to these bytes. Once remove has returned, nothing is written any more. Messages
  // for segments that are not here are dropped.
  virtual void add_segment(std::uint32_t id, std::byte* base, std::size_t bytes) = 0;
  virtual void remove_segment(std::uint32_t id) = 0;

  struct Counts {
    std::uint64_t bytes_sent = 0, bytes_received = 0;  // of rows; received: those in messages
    std::uint64_t messages_sent = 0, messages_received = 0;
  };
  virtual Counts counts() const = 0;
};

}  // namespace weft
