#include "weft/base/os/net_device.h"

#include <gtest/gtest.h>

namespace weft {
namespace {

using std::chrono::milliseconds;

TEST(NetDevice, OneThatIsNotThereIsRefusedAtOnce) {
  const auto start = std::chrono::steady_clock::now();
  EXPECT_FALSE(wait_until_running("weft-no-such0", milliseconds(60'000)));
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(30));
}

TEST(NetDevice, TheLoopbackOfThisHostRuns) { EXPECT_TRUE(wait_until_running("lo", milliseconds(1000))); }

}  // namespace
}  // namespace weft
