#ifdef WEFT_UCX
#include "weft/transport/wire/ucx_grants.h"

#include <algorithm>

namespace weft {

Registrations::~Registrations() {
  while (!entries_.empty()) remove(entries_.back().segment);
}

const Registrations::Entry* Registrations::add(std::uint32_t segment, std::byte* base, std::size_t bytes) {
  if (bytes == 0) return nullptr;
  ucp_mem_map_params_t params{};
  params.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH;
  params.address = base;
  params.length = bytes;
  ucp_mem_h memory = nullptr;
  if (ucp_mem_map(context_, &params, &memory) != UCS_OK) return nullptr;
  void* packed = nullptr;
  std::size_t size = 0;
  if (ucp_rkey_pack(context_, memory, &packed, &size) != UCS_OK) {
    ucp_mem_unmap(context_, memory);
    return nullptr;
  }
  entries_.push_back({segment, base, bytes, memory, std::string(static_cast<const char*>(packed), size)});
  ucp_rkey_buffer_release(packed);
  return &entries_.back();
}

void Registrations::remove(std::uint32_t segment) {
  std::erase_if(entries_, [&](const Entry& entry) {
    if (entry.segment != segment) return false;
    ucp_mem_unmap(context_, entry.memory);
    return true;
  });
}

Grants::~Grants() { clear(); }

void Grants::clear() {
  while (!entries_.empty()) remove(entries_.back().segment);
}

void Grants::add(const GrantHeader& header, std::string_view packed_key) {
  remove(header.segment);
  entries_.push_back({header.segment, header.address, header.bytes, std::string(packed_key), nullptr});
}

void Grants::remove(std::uint32_t segment) {
  std::erase_if(entries_, [&](const Entry& entry) {
    if (entry.segment != segment) return false;
    if (entry.key != nullptr) ucp_rkey_destroy(entry.key);
    return true;
  });
}

std::optional<Grants::Place> Grants::find(ucp_ep_h endpoint, const Rows& rows) {
  const auto entry = std::find_if(entries_.begin(), entries_.end(),
                                  [&](const Entry& candidate) { return candidate.segment == rows.segment; });
  if (entry == entries_.end()) return {};
  if (rows.rows == 0 || !rows.fit(entry->bytes)) return {};
  if (entry->key == nullptr && ucp_ep_rkey_unpack(endpoint, entry->packed_key.data(), &entry->key) != UCS_OK) return {};
  return Place{entry->address, entry->key};
}

}  // namespace weft
#endif
