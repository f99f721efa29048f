// How a rank of another host is let in: a TLS handshake (tls_stream.h) whose key comes from the secret of this world,
// which never travels. The name that the rank calls itself by in it says which rank it is, of how many; it is proved
// with the key. The hub then answers with a verdict. All that follows goes through the same stream, so that nobody else
// reads or changes it.
#pragma once

#include <poll.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "weft/transport/join/net_address.h"
#include "weft/transport/wire/tls_stream.h"

namespace weft {

// Where the secret comes from. Never the command line, which every user of the machine can read.
inline constexpr const char* kSecretFileEnv = "WEFT_SECRET_FILE";
inline constexpr const char* kSecretEnv = "WEFT_SECRET";
// bad_input where there is none, it is short enough to guess, or others may read the file.
std::string secret_from_env();

std::string random_bytes(std::size_t count);

enum class Reception : std::uint32_t { welcome = 1, wrong_secret, wrong_size, taken };

// 32 bytes of the secret for one purpose: who has them does not have the secret, nor those for another.
std::string key_from(const std::string& secret, std::string_view purpose);

// The rank's side, all of it. Throws bad_input where either side refuses, and deadline; nothing where the hub hangs up
// with no word, as it does with whoever has waited longest when too many call: worth another attempt.
struct Introduction {
  int rank = 0, size = 1;
  std::string secret;
};
std::unique_ptr<TlsStream> introduce(Fd socket, const Introduction& self,
                                     std::chrono::steady_clock::time_point deadline);

// The hub's side, which never waits: turn() is called when there is something to read.
class Guest {
 public:
  Guest(Fd socket, const std::string& secret);

  int fd() const { return stream_->fd(); }
  short events() const { return stream_->wants_to_write() ? POLLOUT : POLLIN; }
  std::chrono::steady_clock::time_point since() const { return since_; }
  int rank() const { return rank_; }  // as it says; -1 before

  enum class State { waiting, proved, refused, gone };
  // Proved: it holds the secret, and waits for accept(). Refused: it has been told, and refusal() says why.
  State turn(int size);
  std::unique_ptr<TlsStream> accept();
  void refuse(Reception verdict, std::string_view why);
  const std::string& refusal() const { return refusal_; }

 private:
  void answer(Reception verdict);

  NetAddress from_;
  std::unique_ptr<TlsStream> stream_;
  std::chrono::steady_clock::time_point since_;
  int rank_ = -1;
  std::string refusal_;
};

}  // namespace weft
