// One connection under TLS 1.3 whose two ends prove by its handshake that they hold the same key: an external
// pre-shared key, with fresh Diffie-Hellman values, so that who learns the key later reads nothing. There are no
// certificates, and an end that offers one instead of the key is refused. AES-128-GCM; in the kernel where it can
// (kTLS). Nothing here waits: each call does what can be done now. One thread at a time.
//
// Where Weft is built without OpenSSL, client() and server() throw bad_input.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "weft/base/os/fd.h"

struct ssl_st;

namespace weft {

bool tls_available();
std::string tls_version();      // of OpenSSL, "3.0.19"; empty where it is not available
[[noreturn]] void lacks_tls();  // bad_input, with the remedy

class TlsStream {
 public:
  static constexpr std::size_t kRecord = 16384;  // the most that travels in one piece
  static constexpr std::size_t kKeyBytes = 32;

  // The key of whoever calls himself so; empty: nobody does. Asked for during the handshake, before it is proved.
  using KeyOf = std::function<std::string(std::string_view identity)>;

  // The socket is connected or connecting, and does not block.
  static std::unique_ptr<TlsStream> client(Fd socket, std::string identity, std::string key);
  static std::unique_ptr<TlsStream> server(Fd socket, KeyOf key_of);
  ~TlsStream();
  TlsStream(const TlsStream&) = delete;
  TlsStream& operator=(const TlsStream&) = delete;

  int fd() const { return socket_.get(); }
  const std::string& identity() const { return identity_; }  // of the client; proved once the handshake is done

  enum class Shake { waiting, done, failed };
  Shake shake();  // goes on with the handshake
  bool wants_to_write() const { return wants_to_write_; }

  // What the next call of write() brings, at once: with more, the kernel need not send half a frame before.
  enum class Follows { nothing, more };
  // Bytes moved; 0: none now; -1: no more ever, and problem() says why. A write that moved nothing is to be repeated
  // with the same bytes, at any address. An end in good order has no problem().
  std::ptrdiff_t read(std::span<std::byte> to);
  std::ptrdiff_t write(std::span<const std::byte> from, Follows follows = Follows::nothing);
  bool has_more() const;  // that was received and not read: the socket would not tell
  const std::string& problem() const { return problem_; }
  // What a failed handshake tells, as far as it does.
  bool key_differs() const { return key_differs_; }
  bool hung_up() const { return hung_up_; }  // the peer, with no word

  void finish();  // says that nothing follows; what the peer still sends can be read

  // After so many pieces the sending side takes a new key (RFC 8446 allows 2^24 full ones). For tests.
  void renew_key_after(std::uint64_t pieces) { renew_after_ = pieces; }
  std::uint64_t keys_used() const { return keys_used_; }

 private:
  TlsStream(Fd socket, KeyOf key_of);
  friend struct TlsCallbacks;
  std::ptrdiff_t judge(int result, const char* doing);
  void renew_key();

  Fd socket_;
  ssl_st* ssl_ = nullptr;
  KeyOf key_of_;
  std::string identity_, key_, problem_;
  Follows follows_ = Follows::nothing;  // what is being written
  bool wants_to_write_ = false, key_differs_ = false, hung_up_ = false, failed_ = false;
  std::uint64_t pieces_ = 0, renew_after_, keys_used_ = 1;
};

}  // namespace weft
