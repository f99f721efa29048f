// Memory that peers write without its owner's help, by a network device that can (RDMA). The owner of a segment
// registers it with UCX and grants it to its peers: where it is, and the key that the device asks for. Who has a grant
// puts rows straight to their place; who has none yet sends them in a message. Only for builds with UCX.
#pragma once

#include <ucp/api/ucp.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "weft/transport/wire/wire.h"

namespace weft {

// What a grant's message begins with; the packed key follows.
struct GrantHeader {
  std::uint64_t key;  // the receiver's, as in MessageHeader
  std::uint64_t address, bytes;
  std::uint32_t from, segment;
};
static_assert(sizeof(GrantHeader) == 32);

// This rank's segments, registered.
class Registrations {
 public:
  struct Entry {
    std::uint32_t segment;
    std::byte* base;
    std::size_t bytes;
    ucp_mem_h memory;
    std::string packed_key;
  };

  explicit Registrations(ucp_context_h context) : context_(context) {}
  ~Registrations();
  Registrations(const Registrations&) = delete;
  Registrations& operator=(const Registrations&) = delete;

  // Null where the device cannot have that memory: rows for it travel in messages.
  const Entry* add(std::uint32_t segment, std::byte* base, std::size_t bytes);
  void remove(std::uint32_t segment);
  const std::vector<Entry>& all() const { return entries_; }

 private:
  ucp_context_h context_;
  std::vector<Entry> entries_;
};

// What one peer has granted.
class Grants {
 public:
  struct Place {
    std::uint64_t address;  // of the segment, in the peer's memory
    ucp_rkey_h key;
  };

  Grants() = default;
  ~Grants();
  Grants(const Grants&) = delete;
  Grants& operator=(const Grants&) = delete;

  void add(const GrantHeader& header, std::string_view packed_key);
  void remove(std::uint32_t segment);
  void clear();
  // Where the rows may be put; none where their segment has not been granted, or ends before they do.
  std::optional<Place> find(ucp_ep_h endpoint, const Rows& rows);

 private:
  struct Entry {
    std::uint32_t segment;
    std::uint64_t address, bytes;
    std::string packed_key;
    ucp_rkey_h key;  // null until it is first asked for
  };
  std::vector<Entry> entries_;
};

}  // namespace weft
