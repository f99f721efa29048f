// How a rank of another host is let in: both sides prove that they hold the secret of this world, which never travels.
//   rank -> hub   who it says it is, and 32 random bytes
//   hub -> rank   32 random bytes of its own
//   rank -> hub   HMAC-SHA256(secret, "rank", both, rank, size)
//   hub -> rank   the verdict, and where it is "welcome" HMAC-SHA256(secret, "hub", the same)
// What follows is not encrypted: the secret keeps strangers out, it does not hide what ranks say.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "weft/base/sha256.h"
#include "weft/transport/join/net_address.h"
#include "weft/transport/local/memory.h"

namespace weft {

// Where the secret comes from. Never the command line, which every user of the machine can read.
inline constexpr const char* kSecretFileEnv = "WEFT_SECRET_FILE";
inline constexpr const char* kSecretEnv = "WEFT_SECRET";
// bad_input where there is none, it is short enough to guess, or others may read the file.
std::string secret_from_env();

std::string random_bytes(std::size_t count);

enum class Reception : std::uint32_t { welcome = 1, wrong_secret, wrong_size, taken };

// The rank's side, all of it. Throws bad_input where either side refuses, peer_failed where the hub hangs up, deadline.
struct Introduction {
  int rank = 0, size = 1;
  std::string secret;
};
void introduce(const Fd& socket, const Introduction& self, std::chrono::steady_clock::time_point deadline);

// The hub's side, which never waits: turn() is called when there is something to read.
class Guest {
 public:
  Guest(Fd socket, NetAddress from);

  int fd() const { return socket_.get(); }
  std::chrono::steady_clock::time_point since() const { return since_; }
  const NetAddress& from() const { return from_; }
  int rank() const { return rank_; }  // as it says; -1 before

  enum class State { waiting, proved, refused, gone };
  // Proved: it holds the secret, and waits for accept(). Refused: it has been told, and refusal() says why.
  State turn(const std::string& secret, int size);
  Fd accept(const std::string& secret, int size);
  void refuse(Reception verdict, std::string why);
  const std::string& refusal() const { return refusal_; }

 private:
  Fd socket_;
  NetAddress from_;
  std::chrono::steady_clock::time_point since_;
  std::string incoming_;
  std::string nonces_;  // the rank's and ours, once the first message has come
  int rank_ = -1;
  int size_ = 0;
  std::string refusal_;
};

}  // namespace weft
