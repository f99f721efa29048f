// Strangers at the hub's port while ranks join: whatever they do, a rank that holds the secret joins within a second,
// nobody else does, and nobody fails for it.
#include <chrono>
#include <future>

#include <gtest/gtest.h>

#include "weft/base/error.h"
#include "weft/transport/join/net_client.h"
#include "weft/transport/join/net_handshake.h"
#include "weft/transport/join/net_hub.h"
#include "weft/transport/wire/strangers_test.h"

namespace weft {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;
using strangers::Attack;
using strangers::attacks;
using strangers::Tap;

const std::string kHubSecret = "what the ranks of this hub know";

// A hub, its rank 0, and what rank 1 needs to join it.
class HubStrangers : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!tls_available()) GTEST_SKIP() << "this build has no OpenSSL (libssl-dev)";
    Listener listener = listen_at(address_of_device("lo"));
    port_ = listener.bound;
    hub_ = std::make_unique<NetHub>(2, std::move(listener.socket), kHubSecret, Patience{});
    zero_ = std::make_unique<NetClient>(FrameSocket(hub_->take_own_end()), NetClient::Options{0, 2, "a", Patience{}});
  }
  void TearDown() override {
    if (!hub_) return;
    one_.reset();
    zero_.reset();
    hub_.reset();
  }

  std::unique_ptr<TlsStream> introduce_to(const NetAddress& port, int rank, const std::string& secret) const {
    return introduce(strangers::call(port), {rank, 2, secret}, Clock::now() + 10s);
  }
  void join(const NetAddress& port) {
    auto stream = introduce_to(port, 1, kHubSecret);
    ASSERT_TRUE(stream);
    one_ = std::make_unique<NetClient>(FrameSocket(std::move(stream)), NetClient::Options{1, 2, "b", Patience{}});
  }
  void expect_gather() {
    auto other = std::async(std::launch::async, [&] { return one_->gather("one", [](auto) {}); });
    const std::vector<std::string> all{"zero", "one"};
    EXPECT_EQ(zero_->gather("zero", [](auto) {}), all);
    EXPECT_EQ(other.get(), all);
  }

  NetAddress port_;
  std::unique_ptr<NetHub> hub_;
  std::unique_ptr<NetClient> zero_, one_;
};

TEST_F(HubStrangers, NobodyIsKeptOutLetInOrEnded) {
  std::vector<Fd> open;
  for (const Attack& attack : attacks())
    for (Fd& socket : attack.begin(port_, "weft hub 1 1 2")) open.push_back(std::move(socket));
  const auto start = Clock::now();
  join(port_);
  EXPECT_LT(Clock::now() - start, 1s);
  expect_gather();
  for (const Attack& attack : attacks()) attack.begin(port_, "weft hub 1 1 2");
  expect_gather();
}

TEST_F(HubStrangers, IdleOnesCostNoTime) {
  const auto open = attacks().front().begin(port_, "");
  ASSERT_GE(open.size(), 256u);
  std::this_thread::sleep_for(500ms);  // until all have been let in, under a sanitizer too
  const double before = strangers::cpu_seconds_of_process();
  std::this_thread::sleep_for(1s);
  EXPECT_LT(strangers::cpu_seconds_of_process() - before, 0.05);
  const auto start = Clock::now();
  join(port_);
  EXPECT_LT(Clock::now() - start, 1s);
}

TEST_F(HubStrangers, WhoHasAnotherSecretIsToldSo) {
  try {
    introduce_to(port_, 1, "what others know");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::bad_input);
    EXPECT_NE(std::string(error.what()).find("their secrets differ"), std::string::npos) << error.what();
  }
  join(port_);
  expect_gather();
}

// All that a rank said while it joined and after, heard on the way and said again.
TEST_F(HubStrangers, AReplayReachesNothingAndReadsNothing) {
  Tap tap(port_);
  join(tap.address());
  expect_gather();
  const std::string heard = tap.heard();
  ASSERT_GT(heard.size(), 300u);
  EXPECT_EQ(heard.find("one"), heard.npos);  // what it gave to the gather
  EXPECT_EQ(heard.find(kHubSecret), heard.npos);
  for (int i = 0; i < 3; ++i) strangers::say_once(port_, heard);
  expect_gather();
}

// A stranger who listens where rank 0 should: it gets nothing but a name, and is named.
TEST_F(HubStrangers, AHubWithoutTheSecretIsRefused) {
  const Listener listener = listen_at(address_of_device("lo"));
  auto stranger = std::async(std::launch::async, [&] {
    pollfd ready{listener.socket.get(), POLLIN, 0};
    poll(&ready, 1, 5000);
    auto server = TlsStream::server(accept_one(listener.socket),
                                    [](std::string_view) { return std::string(TlsStream::kKeyBytes, 'x'); });
    auto state = TlsStream::Shake::waiting;
    for (const auto stop = Clock::now() + 5s; state == TlsStream::Shake::waiting && Clock::now() < stop;) {
      state = server->shake();
      std::this_thread::sleep_for(1ms);
    }
    return state;
  });
  EXPECT_THROW(introduce_to(listener.bound, 1, kHubSecret), Error);
  EXPECT_EQ(stranger.get(), TlsStream::Shake::failed);
}

}  // namespace
}  // namespace weft
