// SHA-256 (FIPS 180-4) and HMAC-SHA256 (RFC 2104): how ranks of several hosts prove to each other that they hold the same
// secret, without a library for it. For short messages; nothing here is on a hot path.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace weft {

using Digest = std::array<std::uint8_t, 32>;

Digest sha256(std::string_view message);
Digest hmac_sha256(std::string_view key, std::string_view message);

// Takes as long wherever the two differ.
bool same_digest(const Digest& a, const Digest& b);

std::string to_hex(const Digest& digest);

}  // namespace weft
