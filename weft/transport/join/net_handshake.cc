#include "weft/transport/join/net_handshake.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "weft/base/error.h"
#include "weft/base/index.h"
#include "weft/base/sha256.h"

namespace weft {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::size_t kLeastSecret = 16;             // characters
constexpr std::size_t kMostSecret = 4096;            // of a file: what follows does not count
constexpr std::string_view kPurpose = "weft hub 1";  // this version's

std::string name_of(int rank, int size) { return fmt::format("{} {} {}", kPurpose, rank, size); }

// Rank and size that a name says; -1, -1 where it says none.
std::pair<int, int> rank_and_size(const std::string& name) {
  int rank = -1, size = -1;
  if (!name.starts_with(kPurpose) || std::sscanf(name.c_str() + kPurpose.size(), " %d %d", &rank, &size) != 2)
    return {-1, -1};
  return name == name_of(rank, size) ? std::pair(rank, size) : std::pair(-1, -1);
}

std::string_view words(Reception verdict) {
  switch (verdict) {
    case Reception::wrong_secret:
      return "their secrets differ; give all hosts the same one in WEFT_SECRET_FILE or WEFT_SECRET";
    case Reception::wrong_size:
      return "its world has another number of ranks; give all hosts the same --world-size";
    case Reception::taken:
      return "it has a rank of this number already; start every rank once (--first-rank and -n of all hosts)";
    case Reception::welcome:
      break;
  }
  return "it speaks another version of Weft; use one version on all hosts";
}

std::string secret_in(const char* path) {
  const Fd file(open(path, O_RDONLY | O_CLOEXEC));
  struct stat status {};
  if (!file || fstat(file.get(), &status) != 0)
    bad_input("{}=\"{}\" cannot be read: {}; write a secret into it", kSecretFileEnv, path, std::strerror(errno));
  if (!S_ISREG(status.st_mode)) bad_input("{}=\"{}\" is not a file; write a secret into one", kSecretFileEnv, path);
  if ((status.st_mode & 077) != 0 || status.st_uid != geteuid())
    bad_input("others may read or own the secret in \"{}\"; make it yours alone: `chmod 600 {}`", path, path);
  std::string text(kMostSecret, '\0');
  const ssize_t count = read(file.get(), text.data(), text.size());
  if (count < 0) bad_input("{}=\"{}\" cannot be read: {}", kSecretFileEnv, path, std::strerror(errno));
  text.resize(num(count));
  return text;
}

}  // namespace

std::string secret_from_env() {
  const char* path = std::getenv(kSecretFileEnv);
  const char* text = std::getenv(kSecretEnv);
  if (path == nullptr && text == nullptr)
    bad_input("ranks of several hosts need a secret: set {} to a file that only you can read, or {}, on every host",
              kSecretFileEnv, kSecretEnv);
  std::string secret = path != nullptr ? secret_in(path) : text;
  while (!secret.empty() && (secret.back() == '\n' || secret.back() == '\r')) secret.pop_back();
  if (secret.size() < kLeastSecret)
    bad_input("the secret in {} has {} characters; use at least {}, as from `head -c 24 /dev/urandom | base64`",
              path != nullptr ? kSecretFileEnv : kSecretEnv, secret.size(), kLeastSecret);
  return secret;
}

std::string random_bytes(std::size_t count) {
  std::string bytes(count, '\0');
  if (getrandom(bytes.data(), count, 0) != static_cast<ssize_t>(count))
    fail(Code::io, "cannot get random bytes: {}", std::strerror(errno));
  return bytes;
}

std::string key_from(const std::string& secret, std::string_view purpose) {
  const Digest key = hmac_sha256(secret, purpose);
  return {reinterpret_cast<const char*>(key.data()), key.size()};
}

std::unique_ptr<TlsStream> introduce(Fd socket, const Introduction& self, Clock::time_point deadline) {
  const std::string where = to_string(peer_address(socket));
  auto hub = TlsStream::client(std::move(socket), name_of(self.rank, self.size), key_from(self.secret, kPurpose));
  bool proved = false;
  while (true) {
    const auto state = proved ? TlsStream::Shake::done : hub->shake();
    if (state == TlsStream::Shake::failed) {
      if (hub->key_differs())
        bad_input("rank 0 at {} refused rank {}: {}", where, self.rank, words(Reception::wrong_secret));
      if (hub->hung_up()) return nullptr;
      bad_input("what listens at {} is not rank 0 of this world ({}); check the rendezvous", where, hub->problem());
    }
    proved = state == TlsStream::Shake::done;
    Reception verdict{};
    const auto count = proved ? hub->read(std::as_writable_bytes(std::span(&verdict, 1))) : 0;
    if (count < 0) return nullptr;
    if (count > 0 && verdict == Reception::welcome) return hub;
    if (count > 0) bad_input("rank 0 at {} refused rank {}: {}", where, self.rank, words(verdict));
    if (Clock::now() > deadline)
      throw Error(Code::deadline, fmt::format("rank 0 at {} took the connection but does not answer", where), 0);
    pollfd ready{hub->fd(), static_cast<short>(hub->wants_to_write() ? POLLOUT : POLLIN), 0};
    poll(&ready, 1, 50);
  }
}

Guest::Guest(Fd socket, const std::string& secret)
    : from_(peer_address(socket)),
      stream_(TlsStream::server(std::move(socket),
                                [key = key_from(secret, kPurpose)](std::string_view name) {
                                  return rank_and_size(std::string(name)).first < 0 ? std::string() : key;
                                })),
      since_(Clock::now()) {}

Guest::State Guest::turn(int size) {
  const auto state = stream_->shake();
  const auto [rank, its_size] = rank_and_size(stream_->identity());
  rank_ = rank;
  if (state == TlsStream::Shake::waiting) return State::waiting;
  if (state == TlsStream::Shake::failed) {
    if (rank_ < 0 || !stream_->key_differs()) return State::gone;
    refuse(Reception::wrong_secret, "it does not hold the secret of this world");
  } else if (its_size != size) {
    refuse(Reception::wrong_size, fmt::format("it is of a world of {} ranks, not {}", its_size, size));
  } else if (rank < 1 || rank >= size) {
    refuse(Reception::taken, "there is no place for such a rank");
  }
  return refusal_.empty() ? State::proved : State::refused;
}

// A few bytes fit into the buffer of a socket that has not been written to, so this never waits.
void Guest::answer(Reception verdict) { stream_->write(std::as_bytes(std::span(&verdict, 1))); }

std::unique_ptr<TlsStream> Guest::accept() {
  answer(Reception::welcome);
  return std::move(stream_);
}

void Guest::refuse(Reception verdict, std::string_view why) {
  answer(verdict);
  refusal_ = fmt::format("a peer at {}, calling itself rank {}, was refused: {}", to_string(from_), rank_, why);
}

}  // namespace weft
