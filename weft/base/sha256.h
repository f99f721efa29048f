// SHA-256 (FIPS 180-4) and HMAC-SHA256 (RFC 2104): how ranks of several hosts prove to each other that they hold the
// same secret, and how files of a model are told apart, without a library for it. Nothing here is on a hot path.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace weft {

using Digest = std::array<std::uint8_t, 32>;

// Of a message that comes in pieces, such as a file.
class Sha256 {
 public:
  Sha256();
  void add(std::string_view piece);
  Digest finish();  // of all pieces so far; then nothing more is added

 private:
  void take_block(const char* block);

  std::array<std::uint32_t, 8> state_;
  std::array<char, 64> rest_{};  // what does not fill a block yet
  std::size_t rest_bytes_ = 0;
  std::uint64_t bytes_ = 0;
};

Digest sha256(std::string_view message);
Digest hmac_sha256(std::string_view key, std::string_view message);

std::string to_hex(const Digest& digest);
std::string file_sha256(const std::string& path);  // as sha256sum prints it; throws bad_input

}  // namespace weft
