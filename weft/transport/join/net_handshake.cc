#include "weft/transport/join/net_handshake.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "weft/base/error.h"
#include "weft/base/index.h"

namespace weft {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::size_t kNonce = 32;
constexpr std::size_t kLeastSecret = 16;   // characters
constexpr std::size_t kMostSecret = 4096;  // of a file: what follows does not count
constexpr char kMagic[8] = {'w', 'e', 'f', 't', 'n', 'e', 't', '1'};

struct Hello {
  char magic[8];
  std::int32_t rank, size;
  char nonce[kNonce];
};
struct Challenge {
  char magic[8];
  char nonce[kNonce];
};
struct Answer {
  Reception verdict;
  Digest proof;
};

Digest proof_of(const char* who, const std::string& secret, const std::string& nonces, int rank, int size) {
  return hmac_sha256(secret, fmt::format("{} {} {} ", who, rank, size) + nonces);
}

// A few bytes fit into the buffer of a socket that has not been written to, so this never waits.
bool send_all(const Fd& socket, const void* bytes, std::size_t count) {
  return send(socket.get(), bytes, count, MSG_NOSIGNAL | MSG_DONTWAIT) == static_cast<ssize_t>(count);
}

[[noreturn]] void hung_up(const Fd& socket) {
  throw Error(Code::peer_failed,
              fmt::format("rank 0 at {} hung up while this rank joined it", to_string(peer_address(socket))), 0);
}

template <class Message>
Message receive(const Fd& socket, Clock::time_point deadline) {
  Message message;
  std::size_t have = 0;
  while (have < sizeof message) {
    const ssize_t count = recv(socket.get(), reinterpret_cast<char*>(&message) + have, sizeof message - have, 0);
    if (count > 0) have += num(count);
    if (count == 0 || (count < 0 && errno != EAGAIN && errno != EINTR)) hung_up(socket);
    if (count > 0) continue;
    if (Clock::now() > deadline)
      throw Error(Code::deadline,
                  fmt::format("rank 0 at {} took the connection but does not answer", to_string(peer_address(socket))),
                  0);
    pollfd ready{socket.get(), POLLIN, 0};
    poll(&ready, 1, 50);
  }
  return message;
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

void introduce(const Fd& socket, const Introduction& self, Clock::time_point deadline) {
  Hello hello{};
  std::memcpy(hello.magic, kMagic, sizeof kMagic);
  hello.rank = self.rank;
  hello.size = self.size;
  std::string nonces = random_bytes(kNonce);
  std::memcpy(hello.nonce, nonces.data(), kNonce);
  if (!send_all(socket, &hello, sizeof hello)) hung_up(socket);
  const auto challenge = receive<Challenge>(socket, deadline);
  const std::string where = to_string(peer_address(socket));
  if (std::memcmp(challenge.magic, kMagic, sizeof kMagic) != 0)
    bad_input("what listens at {} is not rank 0 of a Weft of this version; check the rendezvous", where);
  nonces.append(challenge.nonce, kNonce);
  const Digest proof = proof_of("rank", self.secret, nonces, self.rank, self.size);
  if (!send_all(socket, proof.data(), proof.size())) hung_up(socket);
  const auto answer = receive<Answer>(socket, deadline);
  if (answer.verdict != Reception::welcome)
    bad_input("rank 0 at {} refused rank {}: {}", where, self.rank, words(answer.verdict));
  if (!same_digest(answer.proof, proof_of("hub", self.secret, nonces, self.rank, self.size)))
    bad_input("what listens at {} does not hold the secret of this world; check the rendezvous", where);
}

Guest::Guest(Fd socket, NetAddress from) : socket_(std::move(socket)), from_(from), since_(Clock::now()) {}

Guest::State Guest::turn(const std::string& secret, int size) {
  const std::size_t wanted = nonces_.empty() ? sizeof(Hello) : sizeof(Digest);
  char buffer[sizeof(Hello)];
  const ssize_t count = recv(socket_.get(), buffer, wanted - incoming_.size(), MSG_DONTWAIT);
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) return State::waiting;
  if (count <= 0) return State::gone;
  incoming_.append(buffer, num(count));
  if (incoming_.size() < wanted) return State::waiting;
  const std::string message = std::exchange(incoming_, {});
  if (nonces_.empty()) {
    Hello hello;
    std::memcpy(&hello, message.data(), sizeof hello);
    if (std::memcmp(hello.magic, kMagic, sizeof kMagic) != 0) return State::gone;  // not one of us: no answer
    rank_ = hello.rank;
    Challenge challenge{};
    std::memcpy(challenge.magic, kMagic, sizeof kMagic);
    nonces_.assign(hello.nonce, kNonce);
    nonces_ += random_bytes(kNonce);
    std::memcpy(challenge.nonce, nonces_.data() + kNonce, kNonce);
    incoming_.clear();
    size_ = hello.size;
    return send_all(socket_, &challenge, sizeof challenge) ? State::waiting : State::gone;
  }
  Digest proof;
  std::memcpy(proof.data(), message.data(), proof.size());
  if (!same_digest(proof, proof_of("rank", secret, nonces_, rank_, size_)))
    refuse(Reception::wrong_secret, "it does not hold the secret of this world");
  else if (size_ != size)
    refuse(Reception::wrong_size, fmt::format("it is of a world of {} ranks, not {}", size_, size));
  else if (rank_ < 1 || rank_ >= size)
    refuse(Reception::taken, "there is no place for such a rank");
  return refusal_.empty() ? State::proved : State::refused;
}

Fd Guest::accept(const std::string& secret, int size) {
  const Answer answer{Reception::welcome, proof_of("hub", secret, nonces_, rank_, size)};
  send_all(socket_, &answer, sizeof answer);
  return std::move(socket_);
}

void Guest::refuse(Reception verdict, std::string why) {
  const Answer answer{verdict, {}};
  send_all(socket_, &answer, sizeof answer);
  refusal_ = fmt::format("a peer at {}, calling itself rank {}, was refused: {}", to_string(from_), rank_, why);
}

}  // namespace weft
