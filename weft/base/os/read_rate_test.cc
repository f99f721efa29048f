#include "weft/base/os/read_rate.h"

#include <gtest/gtest.h>

#include "weft/base/thread_pool.h"

namespace weft {
namespace {

// Between a tenth of any machine's memory and what no cache has.
TEST(ReadRate, IsThatOfMemory) {
  ThreadPool threads(1);
  ReadRate rate(threads);
  EXPECT_EQ(rate.bytes_per_s(), 0);
  for (int pass = 0; pass < 2; ++pass) rate.pass();
  EXPECT_GT(rate.bytes_per_s(), 1e7);
  EXPECT_LT(rate.bytes_per_s(), 1e13);
}

}  // namespace
}  // namespace weft
