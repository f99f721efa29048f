// The wire over UCX: rows and counters as active messages, each one fragment, from fixed staging; or, where a device
// writes remote memory, rows as puts and their counters as the message behind them (ucx_grants.h). Shared memory is
// never used, and nothing listens on a device other than the named one. Where Weft is built without UCX, make() throws.
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

#include "weft/transport/wire/wire.h"

namespace weft {

struct Bell;

// What the wire needs of the rank it serves.
struct WireHost {
  int rank = 0, size = 1;
  std::string device;  // network device to bind to, as "eth0"; empty: any
  Bell* bell = nullptr;
  // A peer's connection failed, or it sent what cannot be: once per peer. From any thread, with no lock of the wire
  // held; must not block. A peer that closed its wire in good order is reported too: only the host knows that it had
  // left.
  std::function<void(int peer, std::string_view reason)> lost;
  std::function<void()> check;  // throws when a rank has failed
  std::size_t staging_bytes = 16 << 20;
  bool remote_writes = false;  // rows are put into peers' memory and a message follows: see remote_writes_wanted()
};

class UcxWire : public Wire {
 public:
  // Throws bad_input where this build has no UCX or there is no such device.
  static std::unique_ptr<UcxWire> make(WireHost host);
  static bool available();
  static std::string version();  // of UCX, "1.13.1"; empty where it is not available
  // WEFT_WIRE_PUT=always or never; auto, or not set: where this machine has RDMA devices.
  static bool remote_writes_wanted();

  // What a peer needs to connect to this rank: binary. It holds a secret, without which messages are ignored.
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
