// Strangers at the port of a TLS wire: nothing is read, nothing written, no rank ends, and a rank that holds the secret
// is connected within a second.
#include <chrono>
#include <cstring>
#include <mutex>

#include <gtest/gtest.h>

#include "weft/transport/local/bell.h"
#include "weft/transport/wire/network_wire.h"
#include "weft/transport/wire/strangers_test.h"

namespace weft {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr std::uint32_t kHeap = 3;

// A rank of a world of three, and the memory it lets others write to.
struct Besieged {
  Besieged(int rank, const std::string& secret) : memory(1 << 16) {
    WireHost host;
    host.rank = rank;
    host.size = 3;
    for (int peer = 0; peer < 3; ++peer)
      if (peer != rank) host.peers.push_back(peer);
    host.device = "lo";
    host.secret = secret;
    host.bell = &bell;
    host.lost = [this](int, std::string_view) { ++num_lost; };
    wire = NetworkWire::make(WireKind::tls, host);
    wire->add_segment(kHeap, memory.data(), memory.size());
  }
  void put_and_signal(int peer, char letter) {
    std::byte* staged = wire->stage(64);
    std::memset(staged, letter, 64);
    const RemoteCounter counter{kHeap, 0};
    wire->put(peer, {kHeap, 1024, 1, 64, 64}, staged, {&counter, 1});
  }
  bool counted(std::uint32_t count, std::chrono::milliseconds limit) {
    const std::atomic_ref counter(*reinterpret_cast<std::uint32_t*>(memory.data()));
    for (const auto stop = Clock::now() + limit; counter.load() != count; std::this_thread::sleep_for(100us))
      if (Clock::now() > stop) return false;
    return true;
  }

  Bell bell;
  std::vector<std::byte> memory;
  std::atomic<int> num_lost{0};
  std::unique_ptr<NetworkWire> wire;
};

class WireStrangers : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!tls_available()) GTEST_SKIP() << "this build has no OpenSSL (libssl-dev)";
  }
};

TEST_F(WireStrangers, NothingIsWrittenAndNobodyKeptOut) {
  Besieged zero(0, "what these three know");
  const auto before = zero.memory;
  const NetAddress port = parse_address(zero.wire->address());
  std::vector<Fd> open;
  for (const strangers::Attack& attack : strangers::attacks())
    for (Fd& socket : attack.begin(port, "weft wire 1 0")) open.push_back(std::move(socket));
  {
    Besieged other(1, "what these three do not know");
    other.wire->connect(0, zero.wire->address());
    other.put_and_signal(0, 'x');
    for (const auto stop = Clock::now() + 2s; other.num_lost == 0 && Clock::now() < stop;)
      std::this_thread::sleep_for(1ms);
    EXPECT_EQ(other.num_lost, 1);
  }
  EXPECT_EQ(zero.memory, before);
  EXPECT_EQ(zero.wire->counts().messages_received, 0u);

  Besieged one(1, "what these three know");
  zero.wire->connect(1, "");
  one.wire->connect(0, zero.wire->address());
  one.put_and_signal(0, 'a');
  EXPECT_TRUE(zero.counted(1, 1s));
  EXPECT_EQ(zero.memory[1024], std::byte{'a'});
  EXPECT_EQ(zero.num_lost + one.num_lost, 0);
}

TEST_F(WireStrangers, IdleOnesCostNoTime) {
  Besieged zero(0, "what these three know");
  const auto open = strangers::attacks().front().begin(parse_address(zero.wire->address()), "");
  std::this_thread::sleep_for(100ms);
  const double before = strangers::cpu_seconds_of_process();
  std::this_thread::sleep_for(1s);
  EXPECT_LT(strangers::cpu_seconds_of_process() - before, 0.03);
}

// What rank 1 sent, heard on the way: the port is still open, for rank 2.
TEST_F(WireStrangers, AReplayWritesNothing) {
  Besieged zero(0, "what these three know"), one(1, "what these three know");
  strangers::Tap tap(parse_address(zero.wire->address()));
  zero.wire->connect(1, "");
  one.wire->connect(0, to_string(tap.address()));
  one.put_and_signal(0, 'r');
  ASSERT_TRUE(zero.counted(1, 5s));
  const std::string heard = tap.heard();
  ASSERT_GT(heard.size(), 300u);
  EXPECT_EQ(heard.find("rrrr"), heard.npos);
  std::memset(zero.memory.data() + 1024, 0, 64);
  const auto before = zero.memory;
  for (int i = 0; i < 5; ++i) strangers::say_once(parse_address(zero.wire->address()), heard);
  std::this_thread::sleep_for(200ms);
  EXPECT_EQ(zero.memory, before);
  one.put_and_signal(0, 's');
  EXPECT_TRUE(zero.counted(2, 1s));
  EXPECT_EQ(zero.num_lost, 0);
}

// Once all that are to call have called, there is no port.
TEST_F(WireStrangers, ThePortCloses) {
  Besieged zero(0, "what these three know"), one(1, "what these three know"), two(2, "what these three know");
  const NetAddress port = parse_address(zero.wire->address());
  const std::string one_at = one.wire->address();
  EXPECT_EQ(two.wire->address(), "");  // it calls all
  one.wire->connect(0, zero.wire->address());
  two.wire->connect(0, zero.wire->address());
  two.wire->connect(1, one_at);
  one.put_and_signal(0, '1');
  two.put_and_signal(0, '2');
  two.put_and_signal(1, '2');
  ASSERT_TRUE(zero.counted(2, 5s) && one.counted(1, 5s));
  EXPECT_FALSE(strangers::call(port));
  EXPECT_FALSE(strangers::call(parse_address(one_at)));
}

}  // namespace
}  // namespace weft
