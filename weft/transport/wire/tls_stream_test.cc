// One connection under TLS over a pair of sockets: who is let in, what a stranger reaches, and that bytes are those
// that were written.
#include "weft/transport/wire/tls_stream.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstring>
#include <vector>

#include <gtest/gtest.h>

#include "weft/base/index.h"

namespace weft {
namespace {

const std::string kKey(TlsStream::kKeyBytes, 'k'), kOther(TlsStream::kKeyBytes, 'o');

std::pair<Fd, Fd> sockets() {
  std::array<int, 2> ends{};
  EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends.data()), 0);
  return {Fd(ends[0]), Fd(ends[1])};
}

struct Pair {
  std::unique_ptr<TlsStream> client, server;
};

Pair tls_pair(const std::string& key, std::string identity = "me") {
  auto [a, b] = sockets();
  return {TlsStream::client(std::move(a), std::move(identity), key),
          TlsStream::server(std::move(b), [](std::string_view who) { return who == "me" ? kKey : std::string(); })};
}

// Both sides of the handshake, turn by turn, until neither gets on.
std::pair<TlsStream::Shake, TlsStream::Shake> shake(Pair& pair) {
  auto client = TlsStream::Shake::waiting, server = TlsStream::Shake::waiting;
  for (int turn = 0; turn < 10; ++turn) {
    if (client == TlsStream::Shake::waiting) client = pair.client->shake();
    if (server == TlsStream::Shake::waiting) server = pair.server->shake();
  }
  return {client, server};
}

std::span<const std::byte> bytes_of(const std::string& text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

std::string read_all(TlsStream& stream) {
  std::string text;
  std::array<std::byte, 1000> some;
  while (true) {
    const auto count = stream.read(some);
    if (count <= 0) return text;
    text.append(reinterpret_cast<const char*>(some.data()), num(count));
  }
}

class TlsStreamTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!tls_available()) GTEST_SKIP() << "this build has no OpenSSL (libssl-dev)";
  }
};

TEST_F(TlsStreamTest, BytesArriveAsTheyWereWritten) {
  Pair pair = tls_pair(kKey);
  ASSERT_EQ(shake(pair), std::pair(TlsStream::Shake::done, TlsStream::Shake::done));
  EXPECT_EQ(pair.server->identity(), "me");
  std::string sent(300'000, '\0'), got;
  for (std::size_t i = 0; i < sent.size(); ++i) sent[i] = static_cast<char>(i * 7 + i / 251);
  for (std::size_t at = 0; at < sent.size();) {
    const auto count = pair.client->write(bytes_of(sent).subspan(at));
    ASSERT_GE(count, 0);
    at += num(count);
    got += read_all(*pair.server);
  }
  EXPECT_EQ(got, sent);
  pair.client->finish();
  std::array<std::byte, 8> some;
  EXPECT_EQ(pair.server->read(some), -1);
  EXPECT_EQ(pair.server->problem(), "");  // in good order
}

TEST_F(TlsStreamTest, AWrongKeyAndAnUnknownNameAreRefusedOnBothSides) {
  for (const auto& [key, name] : {std::pair(kOther, "me"), {kKey, "you"}, {kKey, ""}}) {
    Pair pair = tls_pair(key, name);
    EXPECT_EQ(shake(pair), std::pair(TlsStream::Shake::failed, TlsStream::Shake::failed)) << name;
    EXPECT_TRUE(*name == '\0' || pair.client->key_differs()) << pair.client->problem();
    std::array<std::byte, 8> some;
    EXPECT_EQ(pair.server->read(some), -1);
    EXPECT_EQ(pair.server->write(some), -1);
  }
}

TEST_F(TlsStreamTest, GarbageAndTruncationFailTheHandshake) {
  for (const std::string& text :
       {std::string(4096, '\xff'), std::string("GET / HTTP/1.1\r\n\r\n"), std::string("\x16\x03\x01"),
        std::string("\x16\x03\x01\x40\x00", 5) + std::string(16384, 'x')}) {
    auto [stranger, ours] = sockets();
    auto server = TlsStream::server(std::move(ours), [](std::string_view) { return kKey; });
    ASSERT_EQ(send(stranger.get(), text.data(), text.size(), 0), static_cast<ssize_t>(text.size()));
    const auto first = server->shake();
    EXPECT_EQ(first, text.size() > 3 ? TlsStream::Shake::failed : TlsStream::Shake::waiting) << text.size();
    stranger = Fd();
    EXPECT_EQ(server->shake(), TlsStream::Shake::failed);
  }
}

// What went over the wire, played again to a server that holds the same key.
TEST_F(TlsStreamTest, AReplayedHandshakeProvesNothing) {
  const auto move = [](int from, int to, std::string* copy) {
    std::array<char, 65536> buffer;
    const ssize_t count = recv(from, buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (count <= 0) return;
    if (copy != nullptr) copy->append(buffer.data(), num(count));
    ASSERT_EQ(send(to, buffer.data(), num(count), 0), count);
  };
  auto [client_end, tap_a] = sockets();
  auto [server_end, tap_b] = sockets();
  Pair pair{TlsStream::client(std::move(client_end), "me", kKey),
            TlsStream::server(std::move(server_end), [](std::string_view) { return kKey; })};
  std::string heard;  // from the client
  bool proved = false;
  for (int turn = 0; turn < 10; ++turn) {
    pair.client->shake();
    move(tap_a.get(), tap_b.get(), &heard);
    proved = proved || pair.server->shake() == TlsStream::Shake::done;
    move(tap_b.get(), tap_a.get(), nullptr);
  }
  ASSERT_TRUE(proved);
  const std::string secret = "raise a counter";
  ASSERT_GT(pair.client->write(bytes_of(secret)), 0);
  move(tap_a.get(), tap_b.get(), &heard);
  EXPECT_EQ(heard.find("counter"), heard.npos);  // nothing of it is to be read
  ASSERT_EQ(read_all(*pair.server), secret);

  auto [stranger, ours] = sockets();
  auto again = TlsStream::server(std::move(ours), [](std::string_view) { return kKey; });
  auto state = TlsStream::Shake::waiting;
  for (std::size_t at = 0; at < heard.size(); at += 50) {
    const std::string_view piece = std::string_view(heard).substr(at, 50);
    if (send(stranger.get(), piece.data(), piece.size(), MSG_NOSIGNAL) < 0) break;
    if (state == TlsStream::Shake::waiting) state = again->shake();
  }
  EXPECT_NE(state, TlsStream::Shake::done);
  std::array<std::byte, 64> some;
  EXPECT_LE(again->read(some), 0);
}

// A record changed on its way, or repeated, ends the connection; nothing of it is read.
TEST_F(TlsStreamTest, AChangedOrRepeatedRecordIsNotRead) {
  for (const bool repeated : {false, true}) {
    auto [client_end, tap] = sockets();
    auto [server_end, far] = sockets();
    Pair pair{TlsStream::client(std::move(client_end), "me", kKey),
              TlsStream::server(std::move(server_end), [](std::string_view) { return kKey; })};
    std::array<char, 65536> buffer;
    for (int turn = 0; turn < 10; ++turn) {
      pair.client->shake();
      for (const auto& [from, to] : {std::pair(tap.get(), far.get()), {far.get(), tap.get()}}) {
        const ssize_t count = recv(from, buffer.data(), buffer.size(), MSG_DONTWAIT);
        pair.server->shake();
        if (count <= 0) continue;
        ASSERT_EQ(send(to, buffer.data(), num(count), 0), count);
      }
    }
    ASSERT_GT(pair.client->write(bytes_of("a message")), 0);
    const ssize_t count = recv(tap.get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
    ASSERT_GT(count, 0);
    if (!repeated) buffer[at(count) - 20] ^= 1;
    for (int i = 0; i <= repeated; ++i) ASSERT_EQ(send(far.get(), buffer.data(), num(count), 0), count);
    EXPECT_EQ(read_all(*pair.server), repeated ? "a message" : "");
    std::array<std::byte, 8> some;
    EXPECT_EQ(pair.server->read(some), -1);
    EXPECT_NE(pair.server->problem(), "");
  }
}

TEST_F(TlsStreamTest, AnEndWithoutFarewellIsAProblemAndRaisesNoSignal) {
  Pair pair = tls_pair(kKey);
  ASSERT_EQ(shake(pair).second, TlsStream::Shake::done);
  pair.client.reset();
  std::array<std::byte, 8> some{};
  EXPECT_EQ(pair.server->read(some), -1);
  EXPECT_NE(pair.server->problem(), "");
  Pair other = tls_pair(kKey);
  ASSERT_EQ(shake(other).second, TlsStream::Shake::done);
  other.server.reset();
  EXPECT_EQ(other.client->write(some), -1);  // SIGPIPE would end this test
}

TEST_F(TlsStreamTest, KeysAreRenewedOnTheWay) {
  Pair pair = tls_pair(kKey);
  ASSERT_EQ(shake(pair).second, TlsStream::Shake::done);
  pair.client->renew_key_after(10);
  std::string sent, got;
  for (int i = 0; i < 100; ++i) {
    const std::string some(1000 + num(i), static_cast<char>('a' + i % 26));
    ASSERT_EQ(pair.client->write(bytes_of(some)), static_cast<std::ptrdiff_t>(some.size()));
    sent += some;
    got += read_all(*pair.server);
  }
  EXPECT_EQ(got, sent);
  EXPECT_EQ(pair.client->keys_used(), 10u);
}

}  // namespace
}  // namespace weft
