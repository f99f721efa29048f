// The waiting loop: it gives the caller a say, and its limits come from the environment.
#include "weft/transport/local/wait.h"

#include <cstdlib>

#include <gtest/gtest.h>

#include "weft/base/error.h"
#include "weft/transport/local/threads.h"

namespace weft {
namespace {

using namespace std::chrono_literals;

TEST(Wait, ReturnsAtOnceWhenReady) {
  const auto transports = make_thread_transports(1);
  wait_until(
      *transports[0], Patience{}, [] { return true; }, [](auto) { FAIL(); });
}

TEST(Wait, PastDeadlineTheCallerWordsTheError) {
  const auto transports = make_thread_transports(2);
  const Patience patience{.total = 250ms};
  const auto start = std::chrono::steady_clock::now();
  try {
    wait_until(
        *transports[0], patience, [] { return false; },
        [&](std::chrono::nanoseconds waited) {
          if (waited > patience.total) throw Error(Code::deadline, "waited for rank 1", 1, "here");
        });
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::deadline);
    EXPECT_EQ(error.rank(), 1);
  }
  const auto took = std::chrono::steady_clock::now() - start;
  EXPECT_GE(took, 250ms);
  EXPECT_LT(took, 3s);
}

TEST(Wait, SetUpPastDeadlineNamesTheAbsentRank) {
  setenv("WEFT_WAIT_S", "0.3", 1);
  const auto transports = make_thread_transports(2);
  unsetenv("WEFT_WAIT_S");
  try {
    transports[0]->barrier();
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::deadline);
    EXPECT_EQ(error.rank(), 1);
    EXPECT_NE(std::string(error.what()).find("rank 0 waited"), std::string::npos) << error.what();
  }
}

TEST(Patience, ComesFromTheEnvironment) {
  setenv("WEFT_DEADLINE_S", "1.5", 1);
  EXPECT_EQ(patience_from_env().silence, 1500ms);
  EXPECT_EQ(patience_from_env().total, 15s);
  setenv("WEFT_WAIT_S", "4", 1);
  EXPECT_EQ(patience_from_env().total, 4s);
  for (const char* bad : {"soon", "-1", "0", "1s", "inf", "nan"}) {
    setenv("WEFT_DEADLINE_S", bad, 1);
    EXPECT_THROW(patience_from_env(), Error) << bad;
  }
  unsetenv("WEFT_DEADLINE_S");
  unsetenv("WEFT_WAIT_S");
  EXPECT_EQ(patience_from_env().silence, 10s);
  EXPECT_EQ(patience_from_env().total, 100s);
}

}  // namespace
}  // namespace weft
